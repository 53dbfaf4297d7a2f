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

test("UTF-8 is text, with its line ends made one; other bytes are not", () => {
  const bytes = (...all: number[]) => new Uint8Array(all);
  assert.equal(textOf(new TextEncoder().encode("a\r\nä\t😀")), "a\nä\t😀");
  assert.equal(textOf(bytes(0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0)), undefined, "GGUF");
  assert.equal(textOf(bytes(0xff, 0xfe, 0x41)), undefined, "no UTF-8");
});
