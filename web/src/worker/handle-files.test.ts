import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { ModelFile } from "../protocol/errors.ts";
import type { ModelFiles } from "../protocol/model-files.ts";
import { HandleFiles, soonest } from "./handle-files.ts";
import { ReadAhead } from "./read-ahead.ts";

/** A browser that can open files read-only. */
const modal = {
  FileSystemSyncAccessHandle: class {
    readonly mode = "read-only";
  },
};
beforeEach(() => {
  Object.defineProperty(modal.FileSystemSyncAccessHandle.prototype, "mode", { value: "read-only" });
  Object.assign(globalThis, modal);
});
afterEach(() => void Reflect.deleteProperty(globalThis, "FileSystemSyncAccessHandle"));

/**
 * Two files by handle, the requests to their blobs, and the number of open ones; `missing`: the
 * second can't be opened.
 */
function stored({ missing = false, cut = 0 } = {}): {
  files: ModelFiles;
  bytes: Uint8Array[];
  asked: number[][];
  open: () => number;
  stop: () => void;
} {
  const bytes = [3000, 700].map((length, file) =>
    Uint8Array.from({ length }, (_, at) => (at * 31 + file) & 255),
  );
  const asked: number[][] = [];
  let [open, stopped] = [0, false];
  const handles = bytes.map((all, file) => ({
    async createSyncAccessHandle({ mode }: { mode: string }) {
      assert.equal(mode, "read-only");
      if (missing && file === 1) throw new DOMException("gone", "NotFoundError");
      open++;
      return {
        read(into: Uint8Array, { at }: { at: number }) {
          const found = all.subarray(at, Math.min(at + into.length, all.length - cut));
          into.set(found);
          return found.length;
        },
        close: () => void open--,
      };
    },
  }));
  const files: ModelFiles = {
    files: bytes.map(({ length }, file) => ({ name: `${file}.gguf`, bytes: length })),
    handles: handles as unknown as FileSystemFileHandle[],
    async read(...range) {
      asked.push(range);
      if (stopped) throw new DOMException("stopped", "AbortError");
      const [file, offset, length] = range;
      const data = bytes[file]?.slice(offset, offset + length);
      if (data?.length !== length) throw new ModelFile("no such range");
      return data;
    },
    close() {},
  };
  return { files, bytes, asked, open: () => open, stop: () => void (stopped = true) };
}

test("files with handles are read where they lie, and let go of at the end", async () => {
  const { files, bytes, asked, open } = stored();
  const ranges = await soonest(files);
  assert.ok(ranges instanceof HandleFiles);
  assert.equal(open(), 2);
  for (const [file, offset, length] of [
    [0, 0, 3000],
    [1, 5, 100],
    [0, 2999, 1],
    [1, 0, 700],
  ] as const) {
    assert.deepEqual(
      await ranges.read(file, offset, length),
      bytes[file]!.subarray(offset, offset + length),
    );
  }
  // A slow machine yields in between, by asking for one byte.
  const another = asked.filter(([, , length]) => length !== 1);
  assert.deepEqual(another, [], "nothing was read another way");
  await assert.rejects(ranges.read(0, 2990, 20), /no such range/);
  await assert.rejects(ranges.read(2, 0, 1), /no such range/);
  ranges.close();
  assert.equal(open(), 0);
});

test("where not all files can be opened for reading alone, they are read as blobs", async () => {
  const gone = stored({ missing: true });
  assert.ok((await soonest(gone.files)) instanceof ReadAhead);
  assert.equal(gone.open(), 0, "the first is let go of");
  assert.ok((await soonest({ ...gone.files, handles: [] })) instanceof ReadAhead);

  Object.assign(globalThis, { FileSystemSyncAccessHandle: class {} });
  const { files, open } = stored();
  assert.ok(
    (await soonest(files)) instanceof ReadAhead,
    "an older browser would keep other tabs out",
  );
  assert.equal(open(), 0);
  Reflect.deleteProperty(globalThis, "FileSystemSyncAccessHandle");
  assert.ok((await soonest(files)) instanceof ReadAhead);
});

test("a file that was cut short is told by its name, and a load that is stopped ends", async () => {
  const short = await soonest(stored({ cut: 10 }).files);
  await assert.rejects(short.read(1, 0, 700), {
    name: "ModelFile",
    message: /1\.gguf ends before byte 700/,
  });

  const { files, stop } = stored();
  const ranges = await soonest(files);
  await ranges.read(0, 0, 8);
  stop();
  const until = performance.now() + 5_000;
  const reading = async (): Promise<void> => {
    while (performance.now() < until) await ranges.read(0, 0, 8);
  };
  await assert.rejects(reading(), { name: "AbortError" });
});
