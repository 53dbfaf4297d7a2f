/** Questions within and beyond the toys' exercises. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { skills } from "./examples.ts";
import { isToySkill } from "./toy-skills.ts";

test("every example is an exercise of the toys, and general questions are none", () => {
  for (const { name, ask } of skills)
    for (let count = 0; count < 20; count++) assert.ok(isToySkill(ask()), `${name}: ${ask()}`);
  for (const question of [
    "What is the capital of France?",
    "Explain why the sky is blue.",
    "Write a poem about rain.",
    "Who are you?",
    "Translate to German: good morning",
  ])
    assert.ok(!isToySkill(question), question);
});
