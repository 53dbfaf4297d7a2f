import assert from "node:assert/strict";
import { test } from "node:test";
import { quantiseFor } from "./quantise-choice.ts";

const folder = (bytes: number) => [
  { name: "config.json", bytes: 900 },
  { name: "model-00001-of-00002.safetensors", bytes: bytes / 2 },
  { name: "model-00002-of-00002.safetensors", bytes: bytes / 2 },
];

test("large folders become Q8_0; small ones, GGUF files and what was chosen stay as is", () => {
  assert.equal(quantiseFor("auto", folder(1e9)), "Q8_0");
  assert.equal(quantiseFor("auto", folder(500e6)), "Q8_0", "by all its shards");
  assert.equal(quantiseFor("auto", folder(270e6)), undefined);
  assert.equal(quantiseFor("auto", [{ name: "model-F16.gguf", bytes: 3e9 }]), undefined);
  assert.equal(quantiseFor("", folder(1e9)), undefined);
  assert.equal(quantiseFor("Q4_0", folder(1000)), "Q4_0");
});
