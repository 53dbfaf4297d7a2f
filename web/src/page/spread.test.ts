import assert from "node:assert/strict";
import { test } from "node:test";
import { spread } from "./spread.ts";

const close = (found: (number | null)[][], wanted: (number | null)[][]): void => {
  assert.deepEqual(
    found.map((row) => row.map((value) => (value === null ? null : Math.round(value * 1e6) / 1e6))),
    wanted,
  );
};

test("equal values part evenly around where they are, others stay, gaps stay gaps", () => {
  close(
    spread(
      [
        [0.5, 0.2],
        [0.5, 0.8],
      ],
      0.02,
    ),
    [
      [0.49, 0.2],
      [0.51, 0.8],
    ],
  );
  close(spread([[0.3], [0.3], [0.3], [0.9]], 0.1), [[0.2], [0.3], [0.4], [0.9]]);
  close(
    spread(
      [
        [0.4, null],
        [null, null],
        [0.4, 0.1],
      ],
      0.02,
    ),
    [
      [0.39, null],
      [null, null],
      [0.41, 0.1],
    ],
  );
  close(spread([[0.405], [0.4]], 0.02), [[0.3925], [0.4125]]);
  assert.deepEqual(spread([], 0.1), []);
});
