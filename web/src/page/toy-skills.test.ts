/** Questions within and beyond the toys' exercises. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { skills } from "./examples.ts";
import { isToySkill } from "./toy-skills.ts";

test("conversions of every unit that the toys learnt are exercises", () => {
  for (const question of [
    "Convert 3 feet to inches.",
    "Convert 5 years and 2 months to months.",
    "Convert 12 kilograms to grams.",
    "Convert 250 centimetres to meters.",
  ])
    assert.ok(isToySkill(question), question);
  assert.ok(!isToySkill("Was 1984 centred on Big Brother?"));
});

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
