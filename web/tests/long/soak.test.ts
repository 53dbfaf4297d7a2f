/**
 * Long use of a page: hundreds of rounds, dozens of questions, members added and removed. Its
 * memory does not grow.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { GpuCounters } from "../../src/bench/gpu-counters.ts";
import type { Conclave } from "../../src/library/conclave.ts";
import { putBeforeWorker, putNothingBeforeWorker } from "../browser/before-worker.ts";
import { stage } from "../browser/stage.ts";
import { patience, type Visitor } from "../browser/visitor.ts";

// Memory is measured on request and at once, after garbage collection.
const stand = stage(
  "swiftshader",
  ["--enable-blink-features=ForceEagerMeasureMemory", "--js-flags=--expose-gc"],
  3_600_000,
);

/** Bytes in use. */
interface MemoryUse {
  /** By scripts of the page and of its workers, without the modules' memories. */
  scripts: number;
  heap: number;
  gpu: number;
}

/** Asks, adds and removes members, `questions` and `loads` times, until so many rounds are over. */
async function use(
  { page }: Visitor,
  rounds: number,
  questions: number,
  loads: number,
): Promise<{ rounds: number; questions: number; loads: number }> {
  return page.evaluate(
    async (least) => {
      const { conclave } = window as unknown as { conclave: Conclave };
      const add = (name: string, file: string) =>
        conclave.add({ name, url: `./members/${file}.gguf` }, { contextTokens: 512 });
      const done = { rounds: 0, questions: 0, loads: 0 };
      while (
        done.rounds < least.rounds ||
        done.questions < least.questions ||
        done.loads < least.loads
      ) {
        const texts = [
          "Tell me a short story about a fox.",
          "What is 347 + 586?",
          "Sort these words: pear, apple, fig.",
        ];
        const content = `${texts[done.questions % texts.length]}`;
        const settings = { maxRounds: 12, segmentTokens: 4 };
        for await (const event of conclave.ask([{ role: "user", content }], {
          settings,
          sampling: { temperature: 1, seed: done.questions },
        }))
          if (event.type === "round") done.rounds++;
        done.questions++;
        if (done.loads < least.loads) {
          await conclave.remove("Quill");
          await add("Quill", "quill");
          done.loads++;
        }
      }
      return done;
    },
    { rounds, questions, loads },
  );
}

async function heldMemory(visitor: Visitor): Promise<MemoryUse> {
  const workers = visitor.page.workers();
  const collect = (): void => (globalThis as unknown as { gc(): void }).gc();
  // Twice: garbage of one worker may be referenced by another.
  for (let count = 0; count < 2; count++)
    await Promise.all([
      visitor.page.evaluate(collect),
      ...workers.map((worker) => worker.evaluate(collect)),
    ]);
  const { scripts, heap } = await visitor.page.evaluate(async () => {
    interface Measured {
      breakdown: { bytes: number; types: string[] }[];
    }
    const { breakdown } = await (
      performance as unknown as { measureUserAgentSpecificMemory(): Promise<Measured> }
    ).measureUserAgentSpecificMemory();
    const scripts = breakdown
      .filter(({ types }) => types.includes("JavaScript"))
      .reduce((sum, { bytes }) => sum + bytes, 0);
    return { scripts, heap: (window as unknown as { conclave: Conclave }).conclave.heapBytes };
  });
  const live = await Promise.all(
    workers.map((worker) =>
      worker
        .evaluate(
          () =>
            (globalThis as unknown as { gpuCounters?: GpuCounters }).gpuCounters?.liveBytes ?? 0,
        )
        .catch(() => 0),
    ),
  );
  return { scripts: scripts - heap, heap, gpu: Math.max(0, ...live) };
}

async function soak(
  context: TestContext,
  backend: "cpu" | "webgpu",
  [rounds, questions, loads]: [number, number, number],
): Promise<void> {
  stand.site.overrides.set(
    "bare.html",
    '<!doctype html><title>Bare</title><link rel="icon" href="./mark.svg"><body>',
  );
  await putBeforeWorker(stand.site, "metered-worker.ts");
  const visitor = await stand.arrive({
    search: "bare.html",
    loaded: false,
  });
  try {
    await visitor.page.evaluate(async (backend) => {
      const { Conclave } = (await import(
        new URL("./library/conclave.js", document.baseURI).href
      )) as typeof import("../../src/library/conclave.ts");
      const conclave = await Conclave.open({ backend });
      // In turn, so that each has the same worker every time.
      for (const name of ["Ada", "Juno", "Quill"])
        await conclave.add(
          { name, url: `./members/${name.toLowerCase()}.gguf` },
          { contextTokens: 512 },
        );
      Object.assign(window, { conclave });
    }, backend);
    // Caches exist from here on; the browser recompiles code that runs often.
    for (let count = 0; count < 2; count++) {
      await use(visitor, rounds, questions, loads);
      await heldMemory(visitor);
    }
    const before = await heldMemory(visitor);
    const done = await use(visitor, rounds, questions, loads);
    const after = await heldMemory(visitor);
    const share = (what: keyof MemoryUse): number => after[what] / before[what] - 1;
    const told = (
      ["scripts", "heap", ...(backend === "webgpu" ? (["gpu"] as const) : [])] as const
    ).map(
      (what) =>
        `${what} ${(before[what] / 1e6).toFixed(2)} to ${(after[what] / 1e6).toFixed(2)} MB`,
    );
    context.diagnostic(
      `${backend}: ${done.rounds} rounds, ${done.questions} questions, ${done.loads} loads: ` +
        `${told.join(", ")}`,
    );
    assert.ok(done.rounds >= rounds && done.questions >= questions && done.loads >= loads);
    assert.ok(share("heap") <= 0.02, told.join(", "));
    // On the CPU Chromium's count for ended workers varies, so it is only reported.
    if (backend === "webgpu")
      assert.ok(
        before.gpu > 1e6 && share("gpu") <= 0.02 && share("scripts") <= 0.02,
        told.join(", "),
      );
    visitor.clean();
  } finally {
    putNothingBeforeWorker(stand.site);
    await visitor.leave();
  }
}

test(
  "after 500 rounds, 50 questions and 20 loads on the CPU the modules hold what they held before",
  { timeout: 3 * patience },
  (context) => soak(context, "cpu", [500, 50, 20]),
);
test(
  "after 100 rounds, 10 questions and 5 loads on the GPU it holds what it held before",
  { timeout: 5 * patience },
  (context) => soak(context, "webgpu", [100, 10, 5]),
);
