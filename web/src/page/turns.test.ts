/** An answer that other members continue: its rounds keep naming the right ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BeginEvent } from "../protocol/messages.ts";
import { roundOf, turnOf } from "../testing/kept-turn.ts";
import { placed, Turning } from "./turns.ts";

test("members that join are added after those that began, with their own facts", () => {
  const turn = turnOf("How many?", ["Two"], false);
  const began = turn.events[0] as BeginEvent;
  const by = {
    members: ["Juno", "Ada"],
    cores: ["remote" as const, "fused" as const],
    voices: [5, 0],
  };
  const turning = new Turning(turn, by);
  assert.deepEqual(turning.accepted, [{ text: "Two", tokens: 1 }]);
  assert.deepEqual(turn.members, ["Ada", "Quill", "Juno"]);
  assert.deepEqual([turn.cores[2], turn.voices[2]], ["remote", 5]);
  const begin = turning.take({
    ...began,
    members: by.members,
    strengths: [7, 1],
    weights: [0.8, 0.2],
    chats: [false, true],
    prefixes: [
      { prefix: 3, run: 3 },
      { prefix: 4, run: 4 },
    ],
  });
  assert.deepEqual(begin.members, ["Ada", "Quill", "Juno"]);
  assert.deepEqual(begin.strengths, [1, null, 7]);
  assert.deepEqual(begin.weights, [0.5, 0.5, 0.8]);
  assert.deepEqual(begin.chats, [true, true, false]);
  const round = turning.take({ ...roundOf(" of", 2), exited: [0] });
  assert.deepEqual([round.active, round.drafters, round.exited], [[2, 0], [2], [2]]);
  assert.equal(turn.answer, "Two of");
  assert.equal(turn.events.filter(({ type }) => type === "begin").length, 1);
});

test("the same members continue with the same indices, and an old error is past", () => {
  const turn = turnOf("How many?", ["Two"], false);
  turn.failure = { kind: "Engine", message: "It broke." };
  const round = roundOf(" of", 2);
  const turning = new Turning(turn, { members: ["Ada", "Quill"], cores: [], voices: [] });
  assert.equal(turn.failure, undefined);
  assert.deepEqual(turning.take(round), round);
  assert.deepEqual(placed(round, [1, 0]).active, [1, 0]);
});
