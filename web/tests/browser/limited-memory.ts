/**
 * Memory that ends early, as on a small machine: lines of script that limit the engine's modules,
 * and a limit that the system sets to the browser's own process.
 */
import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import type { Browser } from "playwright-core";

/**
 * Lines of script that give a module of this thread no more than `bytes` of memory: memory that it
 * shares has a lower maximum, and its own gets one before it is compiled. `until`: what is left is
 * taken as soon as a message of this type arrives for the model of this name.
 */
export const atMost = (bytes: number, until?: { type: string; name: string }): string => `{
  const pages = ${Math.floor(bytes / 65_536)};
  const until = ${JSON.stringify(until ?? {})};
  const memories = [];
  // Proxies, so that what other threads made is still an instance.
  const made = (name, from) =>
    (WebAssembly[name] = new Proxy(WebAssembly[name], {
      construct: (type, [given]) => {
        const one = new type(from(given));
        if (name === "Memory") memories.push(one);
        return one;
      },
    }));
  const leb = (value) => {
    const bytes = [];
    for (; value >= 0x80; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
    return [...bytes, value];
  };
  const limited = (buffer) => {
    const module = new Uint8Array(buffer);
    for (let at = 8; at < module.length; ) {
      const from = at++;
      const number = () => {
        let value = 0;
        for (let shift = 0, more = true; more; shift += 7) {
          const byte = module[at++];
          value += (byte & 0x7f) * 2 ** shift;
          more = byte >= 0x80;
        }
        return value;
      };
      const size = number();
      const end = at + size;
      // The section of memories: how many, then whether there is a maximum, and the limits.
      if (module[from] === 5) {
        const [count, flags, least] = [number(), number(), number()];
        if (count !== 1 || flags > 1) throw new Error("the module's memory is of another kind");
        const content = [1, 1, ...leb(least), ...leb(pages)];
        const [before, after] = [module.subarray(0, from), module.subarray(end)];
        return new Uint8Array([...before, 5, ...leb(content.length), ...content, ...after]);
      }
      at = end;
    }
    return module; // It has none of its own.
  };
  made("Memory", (limits) => ({ ...limits, maximum: Math.min(pages, limits.maximum ?? pages) }));
  made("Module", limited);
  let loaded = "";
  addEventListener("message", ({ data }) => {
    if (data.type === "load") loaded = data.name;
    if (data.type !== until.type || loaded !== until.name) return;
    for (const memory of memories)
      for (let step = 1024; step > 0; )
        try {
          memory.grow(step);
        } catch {
          step >>= 1;
        }
  });
}`;

/** Processes of the browser's pages. */
export async function pagesOf(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id);
}

/** Bytes of a process that count towards its limit. */
export async function dataOf(process: number): Promise<number> {
  const status = await readFile(`/proc/${process}/status`, "utf8");
  return 1024 * Number(/VmData:\s+(\d+)/.exec(status)?.[1]);
}

/** Lets the system give each process no more than `bytes` beside those that it has. */
export async function limit(processes: readonly number[], bytes: number): Promise<void> {
  for (const process of processes) {
    const most = (await dataOf(process)) + bytes;
    const { status, stderr } = spawnSync("prlimit", ["--pid", `${process}`, `--data=${most}:`]);
    if (status !== 0) throw new Error(`prlimit: ${String(stderr)}`);
  }
}
