import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelFiles } from "../protocol/model-files.ts";
import { blockBytes, ReadAhead } from "./read-ahead.ts";

/** Two files whose bytes encode their offsets, and the ranges read. */
function counted(): {
  files: ModelFiles;
  asked: [file: number, offset: number, length: number][];
  bytes: Uint8Array[];
  fail: (times: number) => void;
} {
  const bytes = [6.5, 0.25].map((blocks, file) =>
    Uint8Array.from({ length: blocks * blockBytes }, (_, at) => (at * 31 + (at >> 9) + file) & 255),
  );
  const asked: [number, number, number][] = [];
  let failures = 0;
  const files: ModelFiles = {
    files: bytes.map(({ length }, file) => ({ name: `${file}`, bytes: length })),
    async read(file, offset, length) {
      asked.push([file, offset, length]);
      if (failures-- > 0) throw new Error("not readable");
      const range = bytes[file]?.slice(offset, offset + length);
      if (range?.length !== length) throw new Error("no such range");
      return range;
    },
    close() {
      asked.length = 0;
    },
  };
  return { files, asked, bytes, fail: (times) => void (failures = times) };
}

test("ranges are those of the files, wherever they begin and end", async () => {
  const { files, bytes } = counted();
  const ahead = new ReadAhead(files);
  for (const [file, all] of bytes.entries()) {
    for (const offset of [0, 1, blockBytes - 7, blockBytes, 2 * blockBytes - 1, all.length - 9]) {
      for (const length of [1, 9, 4096, blockBytes - 1, blockBytes, blockBytes + 1]) {
        if (offset < 0 || offset + length > all.length) continue;
        assert.deepEqual(
          await ahead.read(file, offset, length),
          all.subarray(offset, offset + length),
          `${file}: ${length} from ${offset}`,
        );
      }
    }
  }
});

test("many short ranges cost one read, a long one is read as it is", async () => {
  const { files, asked } = counted();
  const ahead = new ReadAhead(files);
  for (let offset = 0; offset < blockBytes; offset += 8192) await ahead.read(0, offset, 100);
  assert.deepEqual(asked.splice(0), [[0, 0, blockBytes]]);
  await ahead.read(0, 10, 2 * blockBytes);
  await ahead.read(0, 6 * blockBytes, 10);
  await ahead.read(1, 5, 10);
  assert.deepEqual(asked, [
    [0, 10, 2 * blockBytes],
    [0, 6 * blockBytes, blockBytes / 2],
    [1, 0, blockBytes / 4],
  ]);
});

test("what can't be read is asked for again, and what is no range is refused", async () => {
  const { files, fail, bytes } = counted();
  const ahead = new ReadAhead(files);
  fail(1);
  await assert.rejects(ahead.read(0, 0, 8), /not readable/);
  assert.deepEqual(await ahead.read(0, 0, 8), bytes[0]!.subarray(0, 8));
  await assert.rejects(ahead.read(1, blockBytes / 4 - 4, 8), /no such range/);
  await assert.rejects(ahead.read(2, 0, 8), /no such range/);
});

test("of pieces that follow one another the next is read while the last is packed", async () => {
  const { files, asked, bytes, fail } = counted();
  const ahead = new ReadAhead(files);
  const length = 1.5 * blockBytes;
  for (let piece = 0; piece < 4; piece++) {
    assert.deepEqual(
      await ahead.read(0, piece * length, length),
      bytes[0]!.subarray(piece * length, (piece + 1) * length),
      `piece ${piece}`,
    );
    assert.equal(
      asked.length,
      piece === 0 ? 1 : Math.min(5, piece + 2),
      "the next one is under way",
    );
  }
  // The last one is shorter.
  assert.deepEqual(await ahead.read(0, 4 * length, blockBytes / 2), bytes[0]!.subarray(4 * length));
  // A failed read is reported to its reader.
  await ahead.read(0, 0, length);
  fail(2);
  await assert.rejects(ahead.read(0, length, length), /not readable/);
});
