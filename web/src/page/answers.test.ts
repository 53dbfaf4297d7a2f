/** Limits of an answer that goes on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Settings } from "../protocol/engine.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { beyond } from "./answers.ts";

const own = { maxRounds: 4, maxCharacters: 100, beta: 2 } as unknown as Settings;
const after = (rounds: number, characters: number, limits?: Settings): number[] => {
  const done = { rounds: Array<RoundEvent>(rounds), text: "x".repeat(characters) };
  const { maxRounds, maxCharacters } = beyond(done, own, limits);
  return [maxRounds, maxCharacters];
};

test("an answer goes on within its limits, and beyond those that it has reached", () => {
  assert.deepEqual(after(0, 0), [4, 100]);
  assert.deepEqual(after(3, 99), [4, 100], "what it had left");
  assert.deepEqual(after(4, 50), [8, 100], "as many rounds again");
  assert.deepEqual(after(9, 100), [12, 200]);
});

test("the limits are those chosen now, other settings its own", () => {
  const now = { maxRounds: 64, maxCharacters: 100, beta: 9 } as unknown as Settings;
  assert.deepEqual(after(4, 50, now), [64, 100]);
  const settings: Record<string, unknown> = { ...beyond({ rounds: [], text: "" }, own, now) };
  assert.equal(settings["beta"], 2);
});
