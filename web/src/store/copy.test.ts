/** Copies of picked files: whole, or nothing of them is left. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { pickedFiles } from "../protocol/model-files.ts";
import type { Progress } from "../protocol/messages.ts";
import { copyReference, isCopy, isWholeCopy } from "./copy-reference.ts";
import { Journal } from "./journal.ts";
import { openLocks, type Locks } from "./locks.ts";
import { MemoryShelf, type Folder, type OpenPart, type Shelf } from "./shelf.ts";
import { isStored, Store, type StoreOptions } from "./store.ts";

const chunkBytes = 64 << 10;
/** Three chunks and a half. */
const weights = randomBytes(3.5 * chunkBytes);
const lastModified = 1_700_000_000_000;
const mine = new File([weights], "mine.gguf", { lastModified });
const ref = await copyReference([mine]);
const never = new AbortController().signal;

function store(shelf: Shelf, options: Partial<StoreOptions> = {}): Store {
  return new Store({ shelf, locks: openLocks(null), chunkBytes, ...options });
}

interface Copying {
  signal?: AbortSignal;
  onProgress?: (progress: Progress) => void;
  files?: File[];
}

function copy(into: Store, { signal = never, onProgress = () => {}, files }: Copying = {}) {
  const picked = pickedFiles(files ?? [mine], "mine");
  return into.copy(ref, "mine.gguf", picked, { signal, onProgress });
}

async function assertWhole(own: Store): Promise<void> {
  const files = await own.open(ref, { signal: never, onProgress: () => {} });
  assert.deepEqual(files.files, [{ name: "mine.gguf", bytes: weights.length }]);
  assert.ok(weights.equals(await files.read(0, 0, weights.length)));
  files.close();
}

const gone = { name: "Storage", message: /no longer in this browser\. Choose the file again/ };
const assertGone = async (own: Store, shelf: Shelf): Promise<void> => {
  await assert.rejects(own.open(ref, { signal: never, onProgress: () => {} }), gone);
  assert.deepEqual((await own.list()).models, []);
  assert.deepEqual(await shelf.list(), [], "nothing is left of it");
};

test("a copy has every byte, is listed, opened without its file, and deleted", async () => {
  const shelf = new MemoryShelf(true);
  const progress: Progress[] = [];
  await copy(store(shelf), { onProgress: (step) => progress.push(step) });
  assert.equal(progress[0]!.total, weights.length);
  assert.equal(progress.at(-1)!.loaded, weights.length);
  assert.ok(progress.every(({ loaded }, index) => loaded >= (progress[index - 1]?.loaded ?? 0)));
  const later = store(shelf);
  await assertWhole(later);
  const bytes = weights.length;
  assert.deepEqual((await later.list()).models, [
    {
      ref,
      from: "mine.gguf",
      commit: null,
      files: [{ name: "mine.gguf", bytes }],
      bytes,
      stored: bytes,
      toReserve: 0,
      complete: true,
    },
  ]);
  assert.equal(await later.latestCommit(ref, never), null);
  assert.equal((await later.plan(ref, never)).stored, bytes);
  await copy(later, { files: [new File(["other"], "mine.gguf")] });
  await assertWhole(later);
  await later.delete(ref);
  await assertGone(later, shelf);
  await assert.rejects(later.plan(ref, never), gone);
  await later.delete(ref);
});

test("a model's folder is copied with all its files, named templates in their folder", async () => {
  const files = ["config.json", "model.safetensors", "tools.jinja"].map(
    (name) => new File([name], name),
  );
  const own = store(new MemoryShelf(true));
  await copy(own, { files });
  const opened = await own.open(ref, { signal: never, onProgress: () => {} });
  assert.deepEqual(
    opened.files.map(({ name }) => name),
    ["config.json", "model.safetensors", "additional_chat_templates/tools.jinja"],
  );
  assert.equal(String(Buffer.from(await opened.read(1, 0, 17))), "model.safetensors");
});

/** As a closed tab leaves a copy: `chunks` of its first file, with its lock free. */
async function cutOff(shelf: Shelf, chunks: number): Promise<void> {
  const own = store(shelf);
  await copy(own);
  const [name] = await shelf.list();
  const folder = (await shelf.folder(name!))!;
  const journal = (await Journal.resume(folder))!;
  journal.note({ type: "drop", file: 0 });
  for (let chunk = 0; chunk < chunks; chunk++)
    journal.note({ type: "chunk", file: 0, chunk, sha256: "" });
  journal.close();
}

test("a copy that was cut off is not taken for whole, and is swept away", async () => {
  for (const chunks of [0, 1, 4]) {
    const shelf = new MemoryShelf(true);
    await cutOff(shelf, chunks);
    const own = store(shelf);
    await assert.rejects(own.open(ref, { signal: never, onProgress: () => {} }), gone);
    await assertGone(own, shelf);
    await cutOff(shelf, chunks);
    await copy(own);
    await assertWhole(own);
  }
});

test("a copy that is stopped, or whose file can't be read any more, leaves nothing", async () => {
  const shelf = new MemoryShelf(true);
  const own = store(shelf);
  /** The file, with something happening from the read of its last part on. */
  const disturbed = (happen: () => Blob | undefined): File => {
    const file = new File([weights], "mine.gguf");
    const read = Blob.prototype.slice.bind(file);
    let isLate = false;
    file.slice = (start, end) => {
      return ((isLate ||= end === weights.length) && happen()) || read(start, end);
    };
    return file;
  };
  for (const phase of ["downloading", "verifying"]) {
    const stop = new AbortController();
    const onProgress = (step: Progress): void => {
      if (step.phase === phase) stop.abort();
    };
    await assert.rejects(copy(own, { signal: stop.signal, onProgress }), { name: "AbortError" });
    await assertGone(own, shelf);
  }
  const stop = new AbortController();
  const stopped = disturbed(() => void stop.abort());
  await assert.rejects(copy(own, { signal: stop.signal, files: [stopped] }), {
    name: "AbortError",
  });
  await assertGone(own, shelf);
  const moved = disturbed(() => {
    const arrayBuffer = () => Promise.reject(new DOMException("moved", "NotReadableError"));
    return Object.assign(new Blob(), { arrayBuffer });
  });
  await assert.rejects(copy(own, { files: [moved] }), { name: "ModelFile", message: /mine\.gguf/ });
  await assertGone(own, shelf);
});

test("while a tab copies, no other takes it for a leftover; a second one waits", async () => {
  const shelf = new MemoryShelf(true);
  const locks: Locks = openLocks(null);
  const own = store(shelf, { locks });
  const other = store(shelf, { locks });
  const unread = new File([weights], "mine.gguf");
  unread.slice = () => assert.fail("the first has copied it");
  let listed: Promise<unknown> | undefined;
  let second: Promise<void> | undefined;
  await copy(own, {
    onProgress: () => {
      listed ??= other.list().then(({ models }) => assert.deepEqual(models, []));
      second ??= copy(other, { files: [unread] });
    },
  });
  await assertWhole(own);
  await Promise.all([listed, second]);
});

/** A disk that is full after so many bytes of weights. */
class Full extends MemoryShelf {
  room = 2.5 * chunkBytes;
  override async create(name: string): Promise<Folder> {
    const folder = await super.create(name);
    const open = async (part: string): Promise<OpenPart> => {
      const opened = await folder.open(part);
      const write = opened.write.bind(opened);
      opened.write = (at, bytes) => {
        if (part !== "journal" && (this.room -= bytes.length) < 0)
          throw new DOMException("full", "QuotaExceededError");
        write(at, bytes);
      };
      return opened;
    };
    return { open, blob: (part) => folder.blob(part), handle: (part) => folder.handle(part) };
  }
}

test("without room nothing is copied, and on a disk that fills up nothing is left", async () => {
  const shelf = new MemoryShelf(true);
  const space = {
    estimate: async () => ({ quota: 300_000, usage: 200_000 }),
    persisted: async () => true,
  };
  const small = store(shelf, { space });
  const written: Progress[] = [];
  await assert.rejects(copy(small, { onProgress: (step) => written.push(step) }), {
    name: "Storage",
    message: /^mine\.gguf needs 0\.2 MB more.*0\.1 MB are free.*Delete stored models/,
  });
  assert.deepEqual([written, await shelf.list()], [[], []]);
  const full = new Full(true);
  await assert.rejects(copy(store(full)), {
    name: "Storage",
    message: /^mine\.gguf needs 0\.2 MB more on this machine, and the browser gives this page no/,
  });
  assert.deepEqual(await full.list(), []);
  await assert.rejects(copy(store(new MemoryShelf())), {
    name: "Storage",
    message: /no place to keep files\. Choose them at each visit/,
  });
});

test("a copy's reference is that of its files as they are, in any order", async () => {
  assert.ok(isCopy(ref) && !isCopy("hf:owner/model/mine.gguf") && !isCopy("copy:mine"));
  const other = new File(["{}"], "config.json", { lastModified });
  assert.equal(await copyReference([new File([weights], "mine.gguf", { lastModified })]), ref);
  assert.equal(await copyReference([mine, other]), await copyReference([other, mine]));
  for (const changed of [
    new File([weights], "mine.gguf", { lastModified: lastModified + 1 }),
    new File(["other"], "mine.gguf", { lastModified }),
    new File([weights], "yours.gguf", { lastModified }),
  ])
    assert.notEqual(await copyReference([changed]), ref);
  await assert.rejects(
    store(new MemoryShelf(true)).copy("hf:o/r/m.gguf", "m", pickedFiles([mine], "m"), {
      signal: never,
      onProgress: () => {},
    }),
    { name: "Reference" },
  );
});

test("a copy that lacks bytes is not whole, and is made again", async () => {
  const shelf = new MemoryShelf(true);
  const own = store(shelf);
  await copy(own);
  const [name] = await shelf.list();
  const folder = (await shelf.folder(name!))!;
  (await folder.open("0")).truncate(chunkBytes);
  const [damaged] = (await own.list()).models;
  assert.deepEqual([damaged!.toReserve, isWholeCopy(damaged!)], [2.5 * chunkBytes, false]);
  await copy(own);
  await assertWhole(own);
  assert.ok(isWholeCopy((await own.list()).models[0]!));
});

test("a folder that can't be read hides no other model, and keeps none", async () => {
  const shelf = new MemoryShelf(true);
  const own = store(shelf);
  await copy(own);
  const broken = await shelf.create("broken");
  broken.blob = () => Promise.reject(new DOMException("broken", "NotReadableError"));
  assert.deepEqual(
    (await own.list()).models.map((model) => model.ref),
    [ref],
  );
  await own.delete(ref);
  assert.deepEqual(await shelf.list(), ["broken"], "it may be readable another time");
});

test("a copy in use is named as its file, and known to be stored", async () => {
  const shelf = new MemoryShelf(true);
  const own = store(shelf);
  assert.equal(await isStored(shelf, ref), false);
  await copy(own);
  assert.equal(await isStored(shelf, ref), true);
  const files = await own.open(ref, { signal: never, onProgress: () => {} });
  await assert.rejects(own.delete(ref), {
    name: "Storage",
    message: /^mine\.gguf is being downloaded or loaded\./,
  });
  files.close();
});
