import assert from "node:assert/strict";
import { test } from "node:test";
import { differ, haveMoved, steadyText } from "./starting-weights.ts";

test("weights within a tenth of each other are not drawn", () => {
  assert.deepEqual([[0.24, 0.26], [0.24, 0.265], [0.5], []].map(differ), [
    false,
    true,
    false,
    false,
  ]);
  const even = [
    [0.5, 0.49, 0.48],
    [0.5, 0.51, 0.52],
  ];
  assert.ok(!haveMoved(even));
  assert.ok(
    haveMoved([[...even[0]!, 0.47], [...even[1]!, 0.53], [0]]),
    "from the first round on in which they are apart",
  );
  // Weights uneven from the start have not moved.
  assert.ok(!haveMoved([[0.2], [0.8]]));
  assert.ok(
    !haveMoved([
      [0.2, 0.2, 0.5],
      [0.2, 0.2, 0.5],
      [0.6, 0.6, null],
    ]),
    "who leaves leaves its weight to the others alike",
  );
  assert.ok(
    haveMoved([
      [0.2, 0.25],
      [0.8, 0.75],
    ]),
  );
});

test("members that join later are compared with each other", () => {
  const joined = (...now: number[]): boolean =>
    haveMoved([[1, 1, null], ...now.map((weight) => [null, null, weight])]);
  assert.ok(!joined(0.5, 0.5));
  assert.ok(joined(0.2, 0.8));
});

test("the sentence is about the open round, with the digits that the cards show", () => {
  const rows = [
    [1, 1, null, null],
    [null, null, 0.49, 0.484],
    [null, null, 0.51, 0.516],
  ];
  assert.equal(steadyText(rows), "All votes count alike: each weight is between 0.484 and 0.516.");
  assert.equal(
    steadyText(rows, 2),
    "In round 2 all votes count alike: each weight is between 0.490 and 0.510.",
  );
  assert.equal(steadyText(rows, 1), "In round 1 one member answers: nothing is weighed.");
});

test("what is not drawn is told in one sentence", () => {
  assert.equal(steadyText([[1, 1]]), "One member answers: nothing is weighed.");
  assert.equal(steadyText([[0.5], [0.5]]), "All votes count the same at the start.");
  assert.equal(steadyText([[0.2], [0.8]]), "");
  assert.equal(
    steadyText([
      [0.33, 0.33, 0.49],
      [0.33, 0.34, null],
      [0.34, 0.33, 0.512],
    ]),
    "All votes count alike: each weight is between 0.490 and 0.512.",
  );
  assert.equal(
    steadyText([
      [0.5, 0.5],
      [0.5, 0.5],
    ]),
    "All votes count alike: each weight is about 0.500.",
  );
  assert.equal(
    steadyText([
      [0.2, 0.2],
      [0.8, 0.8],
    ]),
    "Feedback has hardly moved the weights since.",
  );
});
