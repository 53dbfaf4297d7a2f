/** File names become names that people say; chosen ones stay. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readableName } from "./readable-name.ts";

test("a model's file name becomes its name, a chosen name stays", () => {
  const names: [string, string][] = [
    ["SmolLM2-135M-Instruct.Q4_1", "SmolLM2 135M"],
    ["gemma-3-270m-q4_k_m", "Gemma 3 270M"],
    ["qwen2.5-coder-0.5b-instruct-q4_k_m", "Qwen2.5 Coder 0.5B"],
    ["Llama-3.2-1B-Instruct-Q8_0", "Llama 3.2 1B"],
    ["OLMo-2-0425-1B-Instruct-Q4_K_M", "OLMo 2 0425 1B"],
    ["Qwen3-4B-Instruct-2507-Q4_K_M", "Qwen3 4B 2507"],
    ["mine", "mine"],
    ["my-tuned_model", "my-tuned_model"],
    ["Qwen3 4B", "Qwen3 4B"],
    ["7b", "7b"],
  ];
  for (const [file, name] of names) assert.equal(readableName(file), name, file);
});
