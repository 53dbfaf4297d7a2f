import assert from "node:assert/strict";
import { test } from "node:test";
import { Repeats } from "./repeats.ts";

/** Which repeats of these durations count, and whether they are cold. */
function counted(count: number, limitSeconds: number, times: number[]): [boolean[], boolean] {
  const repeats = new Repeats(count, limitSeconds);
  const counts: boolean[] = [];
  while (repeats.due) counts.push(repeats.counts(times[counts.length]!));
  return [counts, repeats.cold];
}

test("the first time counts only where it is all there is time for", () => {
  assert.deepEqual(counted(2, 10, [3000, 1000, 1000]), [[false, true, true], false]);
  assert.deepEqual(counted(5, 10, [4000, 4000, 4000]), [[false, true, true], false]);
  assert.deepEqual(counted(5, 10, [11_000]), [[true], true]);
});
