/** Links in the fragment: whole, or not at all. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fragmentOf, readFragment } from "./link.ts";

const members = [
  { name: "Ada", ref: "hf:makers/ada-GGUF/ada.gguf" },
  { name: "Bo", ref: "https://example.org/bo.gguf" },
];

test("a question and an ensemble come back as they were", () => {
  const question = 'What is 3 % of 7 #1 & "more"? 😀';
  assert.deepEqual(readFragment(fragmentOf(question, "Two", members)!), {
    question,
    ensemble: { title: "Two", members },
  });
  assert.deepEqual(
    readFragment(fragmentOf(question, "Toys", [...members, { name: "Toy" }])!),
    { question, ensemble: undefined },
    "an ensemble that others can't fetch is left out",
  );
});

test("what is too long, damaged or names no model is refused", () => {
  assert.equal(fragmentOf("a".repeat(9000), "", []), undefined);
  for (const fragment of ["", "#question", "#ask=%7B", "#ask=%", "#ask=%7B%22question%22%3A1%7D"])
    assert.equal(readFragment(fragment), undefined, fragment);
  const wrong = { question: "q", members: [{ name: "x", ref: "file:///etc/passwd" }] };
  assert.equal(readFragment(`#ask=${encodeURIComponent(JSON.stringify(wrong))}`), undefined);
});
