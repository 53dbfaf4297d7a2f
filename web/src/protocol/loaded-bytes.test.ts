import assert from "node:assert/strict";
import { test } from "node:test";
import { loadedBytes } from "./loaded-bytes.ts";

const folder = (bytes: number) => [
  { name: "config.json", bytes: 900 },
  { name: "model-00001-of-00002.safetensors", bytes: bytes / 2 },
  { name: "model-00002-of-00002.safetensors", bytes: bytes / 2 },
];

test("a folder takes about as much memory as its format leaves of it", () => {
  assert.equal(loadedBytes(folder(16e9), undefined), 16e9 + 900);
  assert.equal(loadedBytes(folder(16e9), "Q8_0"), 8.5e9 + 900);
  assert.equal(loadedBytes(folder(16e9), "Q4_0"), 4.5e9 + 900);
  assert.equal(loadedBytes([{ name: "model.gguf", bytes: 3e9 }], "Q4_0"), 3e9);
});
