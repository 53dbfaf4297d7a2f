/** Turns under way as their tab writes of them: marks of those that a dead tab answered. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { turnOf } from "../testing/kept-turn.ts";
import type { MarkStorage } from "./risks.ts";
import {
  forgetUnsaved,
  isMarkedAnswered,
  markAnswered,
  takeUnsaved,
  writeUnsaved,
} from "./unsaved.ts";

function memory(): MarkStorage {
  const map = new Map<string, string>();
  return {
    getItem: (key) => map.get(key) ?? null,
    setItem: (key, value) => void map.set(key, value),
    removeItem: (key) => void map.delete(key),
    key: (index) => [...map.keys()][index] ?? null,
    get length() {
      return map.size;
    },
  };
}

test("a turn is marked until its answer is over, its conversation deleted, or all", () => {
  const storage = memory();
  const one = turnOf("one", []);
  const other = { ...turnOf("other", []), conversation: "two" };
  const marked = (): boolean[] => [one, other].map(({ id }) => isMarkedAnswered(storage, id));
  markAnswered(storage, one, "seen");
  markAnswered(storage, other, "seen");
  assert.deepEqual([marked(), takeUnsaved(storage)], [[true, true], []]);
  markAnswered(storage, one, "closed");
  assert.deepEqual(marked(), [false, true]);
  markAnswered(storage, one, "hidden");
  assert.deepEqual(marked(), [true, true]);
  assert.ok(!isMarkedAnswered(storage, one.id, false), "where the system ends hidden tabs");
  assert.ok(isMarkedAnswered(storage, other.id, false));
  writeUnsaved(storage, [other]);
  forgetUnsaved(storage, "one");
  assert.deepEqual(marked(), [false, true]);
  forgetUnsaved(storage);
  assert.deepEqual([marked(), storage.length], [[false, false], 0]);
});

test("without storage, or in a full one, nothing is marked", () => {
  const full = { ...memory(), setItem: () => assert.fail("full") };
  for (const storage of [undefined, full]) {
    markAnswered(storage, turnOf("one", []), "seen");
    assert.ok(!isMarkedAnswered(storage, turnOf("one", []).id));
  }
});
