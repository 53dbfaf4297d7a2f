import assert from "node:assert/strict";
import { test } from "node:test";
import { halfBits, RandomModel } from "./random-model.ts";
import { shapes, tensorBytes, tensorsOf, weightBytes } from "./shapes.ts";
import { othersTexts, textOf, words } from "./words.ts";

const tiny = shapes[0]!;

test("any range of a random model is what the whole has there", async () => {
  for (const format of ["Q4_0", "Q8_0"] as const) {
    const model = new RandomModel(tiny, format, 7);
    const { bytes } = model.files[0]!;
    const whole = await model.read(0, 0, bytes);
    assert.equal(String.fromCharCode(...whole.subarray(0, 4)), "GGUF");
    for (
      let offset = 0, piece = 1;
      offset < bytes;
      offset += piece, piece = (piece * 7 + 3) % 9973
    ) {
      const length = Math.min(piece, bytes - offset);
      assert.deepEqual(
        await model.read(0, offset, length),
        whole.subarray(offset, offset + length),
        `${length} bytes at ${offset}`,
      );
    }
    const other = await new RandomModel(tiny, format, 8).read(0, 0, bytes);
    assert.notDeepEqual(other, whole, "another seed, other weights");
  }
});

test("scales are f16 numbers of a trained model's size", async () => {
  assert.equal(halfBits(1), 0x3c00);
  assert.equal(halfBits(0.5 + 0.25), 0x3a00);
  const model = new RandomModel(tiny, "Q8_0", 1);
  const last = tensorsOf(tiny, "Q8_0").at(-2)!;
  assert.equal(last.name, "blk.3.ffn_down.weight");
  // Its blocks lie before the last norm, which is a multiple of 32 bytes long.
  const start = model.files[0]!.bytes - tiny.hidden * 4 - tensorBytes(last);
  const block = await model.read(0, start, 34);
  const bits = block[0]! | (block[1]! << 8);
  const wanted = halfBits(1 / Math.sqrt(last.columns) / 73.9);
  assert.equal(bits >> 6, wanted >> 6);
});

test("sizes are those of the published models", () => {
  const parameters = (name: string): number =>
    Math.round(
      ((weightBytes(shapes.find((shape) => shape.name === name)!, "Q8_0") / 34) * 32) / 1e6,
    );
  // Norms and biases, in F32, weigh a little more than a parameter each.
  assert.ok(Math.abs(parameters("SmolLM2-135M") - 134.5) < 1);
  assert.ok(Math.abs(parameters("SmolLM2-360M") - 362) < 1.5);
  assert.ok(Math.abs(parameters("Qwen2.5-0.5B") - 494) < 1.5);
  assert.ok(Math.abs(parameters("Qwen3-0.6B") - 596) < 1.5);
  assert.ok(Math.abs(parameters("Llama-3.2-1B") - 1236) < 1.5);
  assert.ok(Math.abs(parameters("Qwen2.5-1.5B") - 1544) < 1.5);
});

test("every vocabulary has its size, no token twice, and reads the bench's text by words", () => {
  for (const size of [2048, 49_152, 151_936]) {
    const { tokens, merges } = words(size);
    assert.equal(tokens.length, size);
    assert.equal(new Set(tokens).size, size);
    const known = new Set(tokens);
    for (const merge of merges) assert.ok(known.has(merge.replace(" ", "")), merge);
    for (const text of othersTexts)
      assert.ok(
        text.split(" ").every((letter) => known.has(letter) && known.has(`Ġ${letter}`)),
        "ten tokens each, with and without a space before the first",
      );
    const written = textOf(1000).split(" ").slice(1);
    assert.equal(written.length, 1000);
    assert.ok(written.every((word, index) => known.has(`Ġ${word}`) && word !== written[index + 1]));
  }
});
