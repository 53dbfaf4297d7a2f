/**
 * WebGPU calls of a round, counted from outside the engine. Counts are exact on any adapter; a
 * round must not exceed `most`. Lower it after an improvement.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { putBeforeWorker } from "./before-worker.ts";
import type { GpuStep } from "./counted-worker.ts";
import { stage } from "./stage.ts";

const stand = stage("swiftshader");
const patience = 400_000;

/** L, and the number of rounds. */
const segmentTokens = 10;
const maxRounds = 4;
/** Upper limits of a later round of the three bundled members. */
const most: Partial<GpuStep> = {
  readbacks: 2,
  readBytes: 899,
  submits: 27,
  passes: 27,
  dispatches: 1_500,
  bindGroups: 0,
  buffers: 0,
  pipelines: 0,
  shaders: 0,
  waits: 0,
};

/** The rounds of an answer by the three bundled members, with these settings. */
async function roundsOf(
  settings: Record<string, string>,
  context: TestContext,
): Promise<GpuStep[]> {
  await putBeforeWorker(stand.site, "counted-worker.ts");
  const visitor = await stand.arrive({
    search: "?backend=webgpu",
    serviceWorkers: "block",
  });
  for (const [name, value] of Object.entries({
    segmentTokens: String(segmentTokens),
    seed: "1",
    ...settings,
  }))
    await visitor.set(name, value);
  await visitor.answer("Tell me a short story about a fox.", patience);
  const steps = await visitor.page
    .workers()[0]!
    .evaluate(() => (globalThis as unknown as { gpuSteps: GpuStep[] }).gpuSteps);
  for (const { event, ...counts } of steps) {
    const told = Object.entries(counts)
      .filter(([, count]) => count !== 0)
      .map(([what, count]) => `${what} ${Math.round(count)}`);
    context.diagnostic(`${event}: ${told.join(", ")}`);
  }
  await visitor.leaveClean();
  const rounds = steps.filter(({ event }) => event === "round");
  assert.equal(rounds.length, Number(settings["maxRounds"]));
  assert.ok(
    rounds.every(({ readbacks, dispatches }) => readbacks > 0 && dispatches > 0),
    "the counters see the engine",
  );
  return rounds;
}

for (const memory of ["shared", "its own"]) {
  test(`a round asks WebGPU for no more than it may, by the engine with ${memory} memory`, {
    timeout: patience,
  }, async (context) => {
    const run = () => roundsOf({ maxRounds: String(maxRounds) }, context);
    const rounds = await (memory === "shared" ? run() : stand.site.withoutIsolation(run));
    assert.equal(rounds[0]!.pipelines, 0, "kernels are built while members load");
    // The first round makes what the others reuse.
    for (const round of rounds.slice(1)) {
      for (const [what, limit] of Object.entries(most) as [keyof GpuStep, number][]) {
        assert.ok(
          Number(round[what]) <= limit,
          `a later round had ${round[what]} ${what}; ${limit} are allowed`,
        );
      }
    }
  });
}

test("no answer waits for a kernel: those of the paper's rule are built while members load, too", {
  timeout: patience,
}, async (context) => {
  const [first] = await roundsOf({ rule: "paper", maxRounds: "2" }, context);
  assert.equal(first!.pipelines, 0);
});
