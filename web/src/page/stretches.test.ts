import assert from "node:assert/strict";
import { test } from "node:test";
import { place } from "./picture.ts";

const where = { top: 10, line: 20, room: 10 };
/** Each character is one wide. */
const lay = (...texts: string[]): string[] =>
  place(
    texts.map((text) => ({ text, colour: text })),
    where,
    (text) => text.length,
  )
    .words.filter(({ text }) => text.trim() !== "")
    .map(({ text, x, y }) => `${text} ${x} ${y}`);

test("words go on where the last writer's ended, and to the next line where they have no room", () => {
  assert.deepEqual(lay("one ", "two ", "three"), ["one 0 30", "two 4 30", "three 0 50"]);
  assert.deepEqual(lay("one\n", "two"), ["one 0 30", "two 0 50"]);
  assert.deepEqual(lay("abcdefghijklmno pq"), ["abcdefghij 0 30", "klmno 0 50", "pq 6 50"]);
});

test("the end is that of the last line", () => {
  const end = (text: string): number =>
    place([{ text, colour: "" }], where, ({ length }) => length).end;
  assert.equal(end("one"), 30);
  assert.equal(end("one two three"), 50);
});
