/**
 * Members in workers of their own in Firefox and in WebKit, on shared memory and with relaxed SIMD
 * if supported.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeModel } from "../browser/generated-model.ts";
import type { Site } from "../browser/site.ts";
import { inEachBrowser } from "./stand.ts";

const inEach = inEachBrowser();

/** Result of the page below. */
interface PageResult {
  isolated: boolean;
  /** Whether workers of an isolated page can share memory and wait for each other. */
  shares: boolean;
  /** Whether the browser supports relaxed SIMD. */
  relaxed: boolean;
  threads: number;
  events: { type: string }[];
}

/**
 * A page that asks through the library, with the number of threads in its address, the bundled
 * members or a picked file.
 */
const script = `
  // A function of no operands that gives what one relaxed instruction, i8x16.relaxed_swizzle, makes
  // of twice nothing.
  const swizzle = Uint8Array.of(
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0,
    10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11);
  import { Conclave } from "./library/conclave.js";
  const picked = document.querySelector("input");
  const run = async (threads, files) => {
    const options = { backend: "cpu", threads };
    const conclave = files ? await Conclave.open(options) : await Conclave.load(options);
    if (files) await conclave.add({ name: "One", files }, { contextTokens: 512 });
    const used = conclave.threads;
    const events = [];
    const messages = [{ role: "user", content: "Tell me a short story about a fox. ".repeat(3) }];
    const how = { sampling: { temperature: 0, seed: 3 }, settings: { maxRounds: 4 } };
    for await (const event of conclave.ask(messages, how)) events.push(event);
    conclave.close();
    const shares = typeof SharedArrayBuffer !== "undefined" && "waitAsync" in Atomics;
    return {
      isolated: crossOriginIsolated,
      shares,
      relaxed: WebAssembly.validate(swizzle),
      threads: used,
      events: events
        .filter(({ type }) => type !== "reading")
        .map((event) => ({ ...event, ms: undefined })),
    };
  };
  globalThis.run = (threads) =>
    run(threads, picked.files.length > 0 ? [...picked.files] : undefined);`;

function serve(site: Site): void {
  site.overrides.set("ask.js", script);
  site.overrides.set(
    "ask.html",
    '<!doctype html><title>Threads</title><link rel="icon" href="./mark.svg">' +
      '<input type="file"><script type="module" src="./ask.js"></script>',
  );
}

inEach("members in threads of their own answer as in one", async ({ tab, site }) => {
  serve(site);
  await tab.open(`${site.address}ask.html`);
  const run = async (threads: number): Promise<PageResult> => {
    await tab.until(() => "run" in globalThis);
    return tab.evaluate(
      (threads) =>
        (globalThis as unknown as { run: (threads: number) => Promise<PageResult> }).run(threads),
      threads,
    );
  };
  const [apart, alone] = [await run(3), await run(1)];
  assert.deepEqual([apart.threads, alone.threads], [3, 1]);
  assert.ok(apart.events.some(({ type }) => type === "round"));
  assert.deepEqual(apart.events, alone.events);
  // WebKitGTK 2.50 has no relaxed SIMD, nor has Firefox before 146.
  const module = `engine${apart.shares ? "-shared" : ""}${apart.relaxed ? "-relaxed" : ""}.wasm`;
  assert.deepEqual(
    new Set(site.asked.filter((file) => /^library\/engine.*\.wasm$/.test(file))),
    new Set([`library/${module}`]),
  );
});

/** Large enough that threads share its work. */
const shape = {
  layers: 4,
  hidden: 512,
  heads: 8,
  kvHeads: 4,
  feedForward: 1536,
  vocabulary: 24_576,
};

inEach(
  "in an isolated page a member computes on several threads, if it can, and answers as on one",
  async ({ tab, site }) => {
    const folder = await mkdtemp(join(tmpdir(), "conclave-threads-"));
    try {
      const path = join(folder, "member.gguf");
      await writeModel(path, shape);
      serve(site);
      const run = async (threads: number): Promise<PageResult> => {
        await tab.open(`${site.address}ask.html`);
        await tab.until(() => "run" in globalThis);
        await tab.pick("input", path);
        return tab.evaluate(
          (threads) =>
            (globalThis as unknown as { run: (threads: number) => Promise<PageResult> }).run(
              threads,
            ),
          threads,
        );
      };
      const [apart, alone] = [await run(3), await run(1)];
      const plain = await site.withoutIsolation(() => run(3));
      assert.deepEqual([apart.isolated, plain.isolated], [true, false]);
      // WebKitGTK 2.50 has no SharedArrayBuffer, and Firefox before 145 no Atomics.waitAsync.
      assert.deepEqual([apart.threads, alone.threads, plain.threads], [apart.shares ? 3 : 1, 1, 1]);
      assert.equal(apart.events.filter(({ type }) => type === "round").length, 4);
      assert.deepEqual(apart.events, alone.events);
      assert.deepEqual(apart.events, plain.events);
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);

inEach(
  "a page that was left many times while its engine was fetched opens at the next visit",
  async ({ tab, site }) => {
    serve(site);
    for (const build of ["", "-shared", "-relaxed", "-shared-relaxed"])
      site.halved.add(`library/engine${build}.wasm`);
    for (let visit = 1; visit <= 8; visit++) {
      await tab.open(`${site.address}ask.html`);
      await tab.until(() => "run" in globalThis);
      await tab.evaluate(
        () => void (globalThis as unknown as { run: (threads: number) => void }).run(1),
      );
      while (site.asked.filter((file) => site.halved.has(file)).length < visit)
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    site.halved.clear();
    await tab.open(`${site.address}ask.html`);
    await tab.until(() => "run" in globalThis);
    const { events } = await tab.evaluate(() =>
      (globalThis as unknown as { run: (threads: number) => Promise<PageResult> }).run(1),
    );
    assert.ok(events.some(({ type }) => type === "round"));
  },
);
