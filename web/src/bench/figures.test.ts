import { defaultSampling } from "../protocol/generated-settings.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, roundBytes, stepBytes } from "./figures.ts";
import { tokensDue } from "./measure.ts";
import type { Counts, Figure, Loaded, MemberReport, RoundReport } from "./report.ts";

const counts: Counts = {
  readbacks: 2,
  readBytes: 600,
  submits: 25,
  passes: 25,
  dispatches: 1500,
  writes: 9,
  buffers: 0,
  bindGroups: 1,
  pipelines: 2,
  recordMs: 9,
  callMs: 6,
};
const exactly = (ms: number) => ({ median: ms, low: ms, high: ms, count: 3 });
const loaded = (name: string, weights: number): Loaded => ({
  name,
  layers: 10,
  bytes: 0,
  weights,
  kv: 50e6,
  scratch: 0,
  kvRow: 1000,
});
const member = (name: string, prefix: number, step: number, verify: number): MemberReport => ({
  name,
  prefix,
  cold: false,
  prefill: { tokens: prefix, ms: exactly(1), tokensPerSecond: 1 },
  firstTokenMs: exactly(2),
  draftStep: {
    ms: exactly(step),
    tokensPerSecond: 1000 / step,
    counts,
    dispatchesPerLayer: 7,
    microsecondsPerDispatch: exactly(2),
  },
  verify: { tokens: 20, ms: exactly(verify), counts },
});
const round = (prefix: number, ms: number): RoundReport => ({
  members: 2,
  drafting: "all",
  prefix,
  cold: false,
  ms: exactly(ms),
  firstSegmentMs: exactly(ms),
  tokensPerSecond: 1,
  tokensRun: 9 + 12,
  tokensDue: 9 + 10,
  counts,
  gpuBytes: null,
});

test("a step reads the weights and a row a token, a round L of them", () => {
  const one = { weights: 1_000_000, kvRow: 10 };
  assert.equal(stepBytes(one, 128), 1_001_280);
  // Two steps, after 101 and 102 tokens, and the pass over the prefix and four tokens in line.
  assert.equal(roundBytes([one], 100, 3, 4), 1_001_010 + 1_001_020 + 1_001_040);
  assert.equal(roundBytes([one, one], 100, 3, 4), 2 * roundBytes([one], 100, 3, 4));
});

test("every ratio is what it says", () => {
  const workload = {
    models: "made up",
    format: "Q4_0",
    sampling: { ...defaultSampling, temperature: 0 },
    loaded: [loaded("a", 100e6), loaded("b", 200e6)],
    gpuBytes: 484e6,
    loadMs: 1,
    members: [
      member("a", 128, 10, 50),
      member("a", 4096, 20, 100),
      member("b", 128, 20, 80),
      member("b", 4096, 40, 160),
    ],
    rounds: [
      round(128, 450),
      round(4096, 1350),
      { ...round(128, 210), drafting: "leader" as const },
      { ...round(4096, 9999), drafting: "leader" as const },
    ],
  };
  const figures = figuresOf(workload, 10, 50e9);
  const figure = (what: RegExp, whom: string, prefix: number | null) => {
    const found = figures.filter(
      (each) => what.test(each.what) && each.of === whom && each.prefix === prefix,
    );
    assert.equal(found.length, 1, String(what));
    return found[0]!;
  };
  const is = (found: Figure, value: number, target: string): void => {
    assert.ok(
      Math.abs(found.value / value - 1) < 1e-12,
      `${found.what} is ${found.value}, not ${value}`,
    );
    assert.equal(found.target, target);
  };
  is(
    figure(/^verify pass of 20 tokens/, "a", 128),
    50 / (20 * 10),
    "≤ 0.6 in software, ≤ 0.1 on a GPU",
  );
  is(figure(/^verify pass/, "b", 4096), 160 / (20 * 40), "≤ 0.6 in software, ≤ 0.1 on a GPU");
  is(figure(/copy bandwidth/, "b", 128), 200e6 / 0.02 / 50e9, "0.6 of a 1B model on a GPU");
  is(figure(/^dispatches a step/, "b", 128), 1500 / 86, "≤ 1");
  is(
    figure(/^round \/ the members' own/, "2 members", 128),
    450 / (10 * (10 + 20)),
    "≤ 1.20 on a GPU",
  );
  is(
    figure(/^round \/ the members' own/, "2 members", 4096),
    1350 / (10 * (20 + 40)),
    "≤ 1.20 on a GPU",
  );
  is(
    figure(/^round \/ L decode steps/, "2 members", 4096),
    1350 / (10 * 20),
    "≤ 4.0 of 3 on the CPU",
  );
  is(
    figure(/^round \/ L decode steps/, "2 members, one drafts", 128),
    210 / (10 * 10),
    "≤ 1.6 of 3 on the CPU",
  );
  is(figure(/^tokens run/, "2 members", 128), 21 / 19, "≤ 1, + 1 token");
  is(figure(/^read-backs/, "2 members", 128), 2, "2");
  is(figure(/^dispatches a submit/, "2 members", 128), 60, "64; 32 for the first of a wait");
  is(figure(/^buffers, bind groups/, "2 members", 128), 3, "0");
  is(figure(/all of a round/, "2 members", 128), 2, "≤ 3");
  const bytes = (prefix: number) => roundBytes(workload.loaded, prefix, 10, 12);
  is(
    figure(/^round at prefix 4096 \/ at 128/, "2 members", null),
    3 / (bytes(4096) / bytes(128)),
    "≤ 1.25",
  );
  is(figure(/^GPU memory \/ \(weights \+ KV\)/, "all members", null), 484 / 400, "≤ 1.15 + 64 MB");
  is(figure(/^GPU memory \/ \(1.15/, "all members", null), 484 / (1.15 * 400 + 64), "≤ 1");
});

test("on the CPU nothing is told of a GPU", () => {
  const none: Counts = {
    readbacks: 0,
    readBytes: 0,
    submits: 0,
    passes: 0,
    dispatches: 0,
    writes: 0,
    buffers: 0,
    bindGroups: 0,
    pipelines: 0,
    recordMs: 0,
    callMs: 0,
  };
  const silent = {
    ...member("a", 128, 10, 50),
    draftStep: {
      ...member("a", 128, 10, 50).draftStep,
      counts: none,
      dispatchesPerLayer: 0,
      microsecondsPerDispatch: null,
    },
  };
  const workload = {
    models: "",
    format: "",
    sampling: { ...defaultSampling, temperature: 0 },
    loaded: [loaded("a", 1)],
    gpuBytes: 0,
    loadMs: 1,
    members: [silent],
    rounds: [{ ...round(128, 1), counts: none }],
  };
  assert.deepEqual(
    figuresOf(workload, 10, null).map(({ what }) => what.split(" ")[0]),
    ["verify", "round", "round", "tokens"],
  );
});

test("what was not measured is not told", () => {
  const empty = {
    models: "",
    format: "",
    sampling: { ...defaultSampling, temperature: 0 },
    loaded: [loaded("a", 1)],
    gpuBytes: null,
    loadMs: 1,
    members: [],
    rounds: [{ ...round(128, 1), ms: null, counts: null }],
  };
  assert.deepEqual(
    figuresOf(empty, 10, null).map(({ what }) => what),
    ["tokens run / those due"],
  );
});

test("a member runs its draft and what others wrote", () => {
  const scores = [
    [10, 7, 5],
    [11, 8, 6],
    [9, 8, 4],
  ].map((row) => row.map((tokens) => ({ tokens, meanLogit: 0, meanLogprob: 0 })));
  assert.equal(tokensDue([0, 1, 2], scores, 10), 3 * 9 + (7 + 5) + (11 + 6) + (9 + 8));
  // Only the second drafted.
  const led = scores.map((row) => row.slice(1, 2));
  assert.equal(tokensDue([1], led, 10), 9 + 7 + 8);
});
