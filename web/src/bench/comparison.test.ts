import assert from "node:assert/strict";
import { test } from "node:test";
import { compared } from "./comparison.ts";
import { emptySeries, leftAt } from "./peers.ts";
import { defaultPlan } from "./plan.ts";
import type { MemberReport, PeerSeries, RoundReport, Run } from "./report.ts";

const exactly = (ms: number) => ({ median: ms, low: ms, high: ms, count: 1 });

/** A run of ours with a step of `step` ms and a round of `round` ms, and another engine's times. */
function run(turn: number, step: number, round: number, theirs: PeerSeries): Run {
  const member = {
    name: "a",
    prefix: 128,
    prefill: { tokens: 64, ms: exactly(50) },
    draftStep: { ms: exactly(step), counts: null },
  } as MemberReport;
  const plan = { ...defaultPlan, backend: "cpu" as const };
  const workload = {
    models: "made up",
    members: [member],
    rounds: [{ members: 3, drafting: "all", prefix: 128, ms: exactly(round) } as RoundReport],
  };
  return {
    turn,
    place: "page",
    ours: { made: "", plan, surroundings: null, workloads: [workload as never] },
    theirs: { other: [theirs] },
  };
}

test("a ratio is their median over ours, by turn", () => {
  const theirs: PeerSeries = {
    ...emptySeries(128),
    prefillMs: [200, 300, 400],
    stepMs: [40, 60],
    roundMs: [5000],
  };
  const { rows } = compared("made up", "other", [run(0, 10, 100, theirs), run(1, 5, 100, theirs)]);
  assert.deepEqual(rows, [
    ["128", "prefill ms", "100", "300", "3 (3–3)", "6"],
    ["128", "decode step ms", "7.50", "50", "7.50 (5–10)", "6"],
    ["128", "round of 3 ms", "100", "5,000", "50 (50–50)", "6"],
  ]);
});

test("what was cut off is told as the least it can be", () => {
  const news = {
    series: [
      { ...emptySeries(128), cold: true, prefillMs: [200], stepMs: [40] },
      emptySeries(1024),
    ],
    doing: { prefix: 128, what: "round" } as const,
  };
  const [left, untouched] = leftAt(news, 30_000);
  assert.deepEqual(untouched, emptySeries(1024));
  assert.equal(left!.failure, "left after 30 s of a round");
  const { rows } = compared("made up", "other", [run(0, 10, 100, left!)]);
  assert.deepEqual(rows.at(-1), ["128", "round of 3 ms", "100", "> 30,000", "> 300", "cold"]);
  const [unloaded] = leftAt({ ...news, doing: { prefix: 128, what: "load" } }, 1000);
  assert.deepEqual(unloaded!.atLeastMs, {}, "loading says nothing of any measure");
});
