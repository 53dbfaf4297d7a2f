/**
 * Programs started by tests: each ends with the tests, however these end, with all its children.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createServer, type AddressInfo } from "node:net";

const running = new Set<ChildProcess>();

/** Characters kept of a program's log. */
const kept = 4000;

const logs = new WeakMap<ChildProcess, string>();

/** End of the program's and its children's error output. */
export function log(child: ChildProcess): string {
  return logs.get(child) ?? "";
}

/** Starts a program in its own process group. `out`: further files, from descriptor 3 on. */
export function start(
  program: string,
  args: string[],
  environment: NodeJS.ProcessEnv = {},
  out: "pipe"[] = [],
): ChildProcess {
  const child = spawn(program, args, {
    detached: true,
    stdio: ["ignore", "ignore", "pipe", ...out],
    env: { ...process.env, ...environment },
  });
  child.stderr!.on("data", (data) => logs.set(child, `${log(child)}${data}`.slice(-kept)));
  // Reported when waiting for its answer.
  child.on("error", () => running.delete(child));
  running.add(child);
  return child;
}

/** Ends a program with all its children. */
export function end(child: ChildProcess): void {
  if (!running.delete(child) || child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

process.on("exit", () => running.forEach(end));
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

/**
 * Retries for at least a minute; a program takes a moment to listen, and its first start on a
 * machine reads it from disk.
 */
export async function soon<T>(what: string, attempt: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await attempt();
    } catch (error) {
      if (tries === 1200) throw new Error(`${what} does not answer`, { cause: error });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** A free port. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
