/** How much of a file fits, and what is text. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { longestFitting, textOf } from "./fitting-text.ts";

const lines = Array.from({ length: 2000 }, (_, index) => `line number ${index}`).join("\n");

test("a text that fits is whole; one that does not ends after a line, near the limit", async () => {
  const within = (limit: number) => async (part: string) => part.length <= limit;
  assert.equal(await longestFitting(lines, within(1e9)), lines);
  const part = await longestFitting(lines, within(5000));
  assert.ok(part.length <= 5000 && part.length > 4700, String(part.length));
  assert.ok(lines.startsWith(`${part}\n`), "whole lines");
  assert.equal(await longestFitting(lines, within(100)), "", "too little to be of use");
});

test("a character of two units stays whole", async () => {
  const smiles = "😀".repeat(2000);
  const part = await longestFitting(smiles, async (part) => part.length <= 1001);
  assert.ok(part.length > 900 && [...part].every((one) => one === "😀"));
});

test("UTF-8 is text, and UTF-16 with its mark, line ends made one; other bytes are not", () => {
  const bytes = (...all: number[]) => new Uint8Array(all);
  assert.equal(textOf(new TextEncoder().encode("a\r\nä\t😀")), "a\nä\t😀");
  assert.equal(textOf(bytes(0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0)), undefined, "GGUF");
  assert.equal(textOf(bytes(0x4d, 0xfc, 0x68)), undefined, "Latin-1");
  // Windows saves “Unicode” text as UTF-16.
  const little = Uint8Array.from(Buffer.from("\ufeffa\r\nä\t😀", "utf16le"));
  const big = Uint8Array.from(Buffer.from(little).swap16());
  for (const utf16 of [little, big]) assert.equal(textOf(utf16), "a\nä\t😀");
  for (const cut of [1, 2, 3])
    assert.equal(textOf(big.subarray(0, -cut)), "a\nä\t", `cut inside a character, by ${cut}`);
  assert.equal(textOf(little.subarray(2)), undefined, "without the mark");
  assert.equal(textOf(bytes(0xff, 0xfe, 0, 0xd8, 0x41, 0)), undefined, "half a pair");
  assert.equal(textOf(bytes(0xff, 0xfe, 3, 0, 0, 0)), undefined, "control characters");
});
