import { defaultSampling } from "../protocol/generated-settings.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoundEvent } from "../protocol/messages.ts";
import { settings } from "../testing/scripted.ts";
import { skills } from "./examples.ts";
import {
  bytes,
  duration,
  marks,
  parameters,
  sentence,
  speed,
  timeLeft,
  written,
} from "./figures.ts";
import { runRecord } from "./run-record.ts";

test("figures read as people write them", () => {
  assert.deepEqual([0, 999, 1000, 2_797_376, 999_600, 12_345_678, 4.2e9].map(bytes), [
    "0\u00a0B",
    "999\u00a0B",
    "1.0\u00a0kB",
    "2.8\u00a0MB",
    "1.0\u00a0MB",
    "12\u00a0MB",
    "4.2\u00a0GB",
  ]);
  assert.deepEqual([950_000, 2_700_000, 1.5e9].map(parameters), [
    "950\u00a0k",
    "2.7\u00a0M",
    "1.5\u00a0G",
  ]);
  assert.deepEqual([12.4, 999.7, 2512, 75_300].map(duration), ["12 ms", "1.0 s", "2.5 s", "75 s"]);
  assert.deepEqual(
    [speed(50, 1000), speed(5, 1000), speed(1, 25_000), speed(1, 0)],
    ["50 tokens/s", "5.0 tokens/s", "0.04 tokens/s", "0.00 tokens/s"],
  );
  assert.deepEqual([0.2, 45, 600, 7200].map(timeLeft), [
    "1 s left",
    "45 s left",
    "10 min left",
    "2.0 h left",
  ]);
  assert.deepEqual([["a"], ["a", "b"], ["a", "b", "c"]].map(sentence), [
    "a",
    "a and b",
    "a, b and c",
  ]);
});

test("the marks of an axis say what they stand for", () => {
  assert.deepEqual(marks([0, 0.2, 0.4]), ["0.0", "0.2", "0.4"]);
  assert.deepEqual(marks([0, 0.25, 0.5, 0.75, 1]), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
  assert.deepEqual(marks([0, 0.1, 0.2, 0.1 + 0.2]), ["0.0", "0.1", "0.2", "0.3"]);
});

test("a segment is credited to all who wrote it, by who was active then", () => {
  const rounds = [
    { drafters: [0, 1, 2], writers: [0, 2] },
    { drafters: [0, 2], writers: [1] },
    { drafters: [0, 2], writers: [0, 1] },
  ];
  assert.deepEqual(
    [0, 1, 2].map((member) => written(rounds, member)),
    [
      { segments: 2, shared: 2 },
      { segments: 0, shared: 0 },
      { segments: 3, shared: 2 },
    ],
  );
});

test("a recorded run has what a replay reads, and an unscored round is marked", () => {
  const round: RoundEvent = {
    type: "round",
    round: 1,
    active: [0, 1],
    remote: [],
    abstained: [],
    drafters: [0, 1],
    candidates: [
      { member: "Ada", text: "a", ended: false, tokens: 1 },
      { member: "Bo", text: "b", ended: false, tokens: 1 },
    ],
    scores: [
      [
        { meanLogit: 1, meanLogprob: -1 },
        { meanLogit: 2, meanLogprob: -2 },
      ],
      [
        { meanLogit: 3, meanLogprob: -3 },
        { meanLogit: 4, meanLogprob: -4 },
      ],
    ],
    shares: [
      [0.33, 0.67],
      [0.43, 0.57],
    ],
    totals: [0.38, 0.62],
    turnedBy: [],
    counts: [1, 1],
    winner: 1,
    writers: [1],
    weights: [0.5, 0.5],
    exited: [],
    text: "b",
    ms: { draft: 1, verify: 1 },
    counters: [],
  };
  const record = runRecord({
    members: ["Ada", "Bo"],
    cores: ["fused", "burn"],
    strengths: [400, null],
    chats: [true, false],
    settings,
    sampling: { ...defaultSampling, seed: 1 },
    thinking: "on",
    thoughts: [{ type: "thought", member: "Bo", text: "Hmm.", tokens: 4 }],
    left: [
      {
        type: "left",
        round: 2,
        member: "Ada",
        error: { kind: "ContextFull", message: "It is full." },
      },
    ],
    backend: "cpu",
    adapter: { name: "cpu", vendor: "", architecture: "", backend: "cpu", software: true },
    messages: [{ role: "user", content: "?" }],
    rounds: [
      round,
      { ...round, round: 2, scores: [], shares: [], totals: [], counts: [], text: "a.", winner: 0 },
    ],
    stop: "ended",
  });
  assert.deepEqual(
    [record.members, record.cores],
    [
      ["Ada", "Bo"],
      ["fused", "burn"],
    ],
  );
  assert.deepEqual(
    record.rounds.map((each) => each.verified),
    [true, false],
  );
  assert.deepEqual(record.rounds[0]?.scores, round.scores);
  assert.deepEqual(record.rounds[0]?.writers, [1]);
  assert.equal(record.answer, "ba.");
  assert.deepEqual(
    [record.thinking, record.thoughts],
    ["on", [{ member: "Bo", text: "Hmm.", tokens: 4 }]],
  );
  assert.deepEqual(record.left, [
    { round: 2, member: "Ada", error: { kind: "ContextFull", message: "It is full." } },
  ]);
  assert.ok(!("type" in record.rounds[0]!));
});

test("every skill asks a whole question, not always the same one", () => {
  for (const skill of skills) {
    const asked = new Set(Array.from({ length: 40 }, () => skill.ask()));
    assert.ok(asked.size > 1, skill.name);
    for (const question of asked) assert.match(question, /^[A-Z].*[.?]$/);
  }
});
