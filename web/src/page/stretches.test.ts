import assert from "node:assert/strict";
import { test } from "node:test";
import { stretches, type Placed } from "./stretches.ts";

/** Characters from `left` on, one wide each; to the left if `back`. */
const at = (text: string, left: number, top: number, back = false): Placed[] =>
  [...text].map((character, place) => {
    const x = left + (back ? text.length - 1 - place : place);
    return { text: character, rect: { left: x, right: x + 1, top, width: 1, height: 10 } };
  });
const joined = (...parts: Placed[][]): string[] =>
  stretches(parts.flat()).map(({ text, rect }) => `${text} ${rect.left} ${rect.right} ${rect.top}`);

test("each line of a text is one stretch", () => {
  assert.deepEqual(joined(at("    one two", 0, 0), at("three", 4, 20)), [
    "    one two 0 11 0",
    "three 4 9 20",
  ]);
  // A smaller character on the same line.
  assert.deepEqual(joined(at("one", 0, 0), at("2", 3, 3)), ["one2 0 4 0"]);
});

test("a line of both directions stays whole, so that it is ordered as one", () => {
  assert.deepEqual(joined(at("C++ ", 6, 0), at("אבגד", 2, 0, true)), ["C++ אבגד 2 10 0"]);
});

test("words with something of another between them keep their own places", () => {
  assert.deepEqual(joined(at("אבג ", 20, 0, true), at("abc", 0, 0)), ["אבג 21 24 0", "abc 0 3 0"]);
  const tab = { text: "\t", rect: { left: 1, right: 4, top: 0, width: 3, height: 10 } };
  assert.deepEqual(joined(at("a", 0, 0), [tab], at("b", 4, 0)), ["a 0 1 0", "b 4 5 0"]);
});
