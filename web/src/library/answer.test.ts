/** Reports of a round in the interfaces of other clients. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RoundEvent } from "./conclave.ts";
import { voteOf } from "./answer.ts";

const round: RoundEvent = {
  type: "round",
  round: 2,
  active: [0, 2],
  remote: [],
  abstained: [],
  drafters: [0, 2],
  candidates: [
    { member: "Ada", text: "One", ended: false, tokens: 1 },
    { member: "Cy", text: "Two", ended: false, tokens: 1 },
  ],
  scores: [
    [
      { meanLogit: 1, meanLogprob: -0.1 },
      { meanLogit: 1, meanLogprob: -0.2 },
    ],
    [
      { meanLogit: 1, meanLogprob: -0.3 },
      { meanLogit: 1, meanLogprob: -0.4 },
    ],
  ],
  shares: [],
  totals: [0.4, 0.6],
  turnedBy: [],
  counts: [],
  winner: 1,
  writers: [1],
  weights: [],
  exited: [],
  text: "Two",
  ms: { draft: 0, verify: 0 },
  counters: [],
};

test("a segment tells how likely each scorer found it, and who they are when one has left", () => {
  assert.deepEqual(voteOf(round, ["Ada", "Bo", "Cy"]), {
    text: "Two",
    writers: ["Cy"],
    votes: { Ada: 0.4, Cy: 0.6 },
    logprobs: { Ada: -0.2, Cy: -0.4 },
  });
});

test("a member that drafted two candidates is named once, with the better of its totals", () => {
  const [first, last] = round.candidates;
  const twice = {
    ...round,
    drafters: [0, 0, 2],
    candidates: [first!, { ...first!, text: "Uno" }, last!],
    totals: [0.2, 0.5, 0.3],
    winner: 1,
    writers: [0, 1],
  };
  const vote = voteOf(twice, ["Ada", "Bo", "Cy"]);
  assert.deepEqual([vote.writers, vote.votes], [["Ada"], { Ada: 0.5, Cy: 0.3 }]);
  assert.deepEqual(vote.logprobs, { Ada: -0.2, Cy: -0.4 });
});

test("the leader's segment has the others' as well; logits alone, and no scores, give none", () => {
  const led = {
    ...round,
    drafters: [2],
    candidates: round.candidates.slice(1),
    scores: round.scores.map((row) => row.slice(1)),
    totals: [],
    winner: 0,
    writers: [0],
  };
  assert.deepEqual(voteOf(led, ["Ada", "Bo", "Cy"]), {
    text: "Two",
    writers: ["Cy"],
    votes: {},
    logprobs: { Ada: -0.2, Cy: -0.4 },
  });
  assert.deepEqual(voteOf({ ...led, scores: [] }, ["Ada", "Bo", "Cy"]).logprobs, {});
  assert.deepEqual(
    voteOf({ ...led, scores: [[{ meanLogit: 9 }], [{ meanLogit: 9 }]] }, ["Ada", "Bo", "Cy"])
      .logprobs,
    {},
  );
});
