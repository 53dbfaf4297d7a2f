import assert from "node:assert/strict";
import { test } from "node:test";
import { beside } from "./beside.ts";
import { readBesideCopied } from "./figures.ts";
import type { Loaded, MemberReport, RoundReport, WorkloadReport } from "./report.ts";

const around = (ms: number) => ({ median: ms, low: 0.8 * ms, high: 1.25 * ms, count: 5 });

/** A workload of two members called `names`, whose every time is a multiple of `ms`. */
function workload(names: string[], ms: number): WorkloadReport {
  const members = names.map((name, at) => ({
    name,
    prefix: 52,
    firstTokenMs: around(20 * ms + at),
    draftStep: { ms: around(ms) },
    verify: { ms: around(3 * ms) },
  }));
  return {
    loaded: names.map((name) => ({ name }) as Loaded),
    members: members as unknown as MemberReport[],
    rounds: [
      {
        members: 2,
        drafting: "all",
        prefix: 52,
        ms: around(10 * ms),
        firstSegmentMs: around(40 * ms),
      } as RoundReport,
    ],
    figures: names.map((of) => ({
      what: readBesideCopied,
      of,
      prefix: 52,
      value: 0.5 / ms,
      target: "",
    })),
  } as unknown as WorkloadReport;
}

test("each place has its column, though members have other names there", () => {
  const { rows } = beside("toy", workload(["a-1", "a-2"], 4), workload(["a 1", "a 2"], 8));
  assert.deepEqual(rows.slice(4, 8), [
    [`member 1: ${readBesideCopied}`, "52", "0.125", "0.0625", "0.500"],
    ["member 2: decode, tokens/s", "52", "250 (200–313)", "125 (100–156)", "0.500"],
    ["member 2: first token, ms", "52", "81 (64.8–101)", "161 (129–201)", "1.99"],
    ["member 2: step, ms", "52", "4 (3.20–5)", "8 (6.40–10)", "2"],
  ]);
  assert.deepEqual(
    rows.slice(-2).map(([what, , native]) => [what, native]),
    [
      ["2 members: round, ms", "40 (32–50)"],
      ["2 members: first segment, ms", "160 (128–200)"],
    ],
  );
});

test("a place without figures leaves the other's", () => {
  const { rows } = beside("toy", undefined, workload(["a 1"], 8));
  assert.deepEqual(rows[1], ["member 1: first token, ms", "52", "–", "160 (128–200)", "–"]);
  assert.deepEqual(beside("toy", undefined, undefined).rows, []);
});
