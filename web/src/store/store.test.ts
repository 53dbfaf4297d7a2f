/**
 * Downloads from the loopback hub with all its faults: no valid data is lost, no invalid data kept.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, beforeEach, test } from "node:test";
import { survived, reported } from "../../tests/faults.ts";
import { Hub, type Fault } from "../../tests/hub.ts";
import { Journal } from "./journal.ts";
import { openLocks } from "./locks.ts";
import type { Progress } from "../protocol/messages.ts";
import type { ModelFiles } from "../protocol/model-files.ts";
import { MemoryShelf, type Folder, type OpenPart, type Shelf } from "./shelf.ts";
import { isStored, Store, type StoreOptions } from "./store.ts";

const chunkBytes = 64 << 10;
/** Content of a file: fifteen and a half chunks. */
const weights = randomBytes(15.5 * chunkBytes);
const tokenizer = JSON.stringify({ tokens: [...randomBytes(50_000)] });
const ref = "hf:owner/model/weights.gguf";

let hub: Hub;
before(async () => {
  hub = await Hub.start();
  await hub.put("owner/model/weights.gguf", weights);
  await hub.put("owner/empty/none.gguf", "");
  await hub.put("owner/model/split-00001-of-00002.gguf", weights.subarray(0, 100_000));
  await hub.put("owner/model/split-00002-of-00002.gguf", weights.subarray(100_000));
  await hub.put("owner/folder/config.json", '{"model_type":"llama"}');
  await hub.put("owner/folder/tokenizer.json", tokenizer);
  await hub.put("owner/folder/README.md", "Not needed.");
  await hub.put("owner/folder/chat_template.jinja", "");
  await hub.put(
    "owner/folder/model.safetensors.index.json",
    JSON.stringify({
      weight_map: {
        a: "model-00001-of-00002.safetensors",
        b: "model-00002-of-00002.safetensors",
        c: "model-00002-of-00002.safetensors",
      },
    }),
  );
  await hub.put("owner/folder/model-00001-of-00002.safetensors", weights.subarray(0, 300_000));
  await hub.put("owner/folder/model-00002-of-00002.safetensors", weights.subarray(300_000));
});
after(() => hub?.stop());
beforeEach(() => hub.reset());

/** Disables the stall timeout, so that a busy machine does not trigger it. */
const never = 3_600_000;
const stallsOf = (faults: Fault[]): Partial<StoreOptions> =>
  faults.some(({ kind }) => kind === "stall") ? { stallMs: 2000 } : {};
const impatient = { tries: 4, firstMs: 5, patienceMs: 5000 };

function store(shelf: Shelf = new MemoryShelf(true), options: Partial<StoreOptions> = {}): Store {
  return new Store({
    shelf,
    locks: openLocks(null),
    hub: hub.address,
    policy: impatient,
    stallMs: never,
    chunkBytes,
    ...options,
  });
}

interface Opened {
  files: ModelFiles;
  progress: Progress[];
}

async function open(
  from: Store,
  name = ref,
  signal = new AbortController().signal,
): Promise<Opened> {
  const progress: Progress[] = [];
  const files = await from.open(name, { signal, onProgress: (step) => progress.push(step) });
  return { files, progress };
}

async function contents({ files }: Opened): Promise<Buffer[]> {
  const read = await Promise.all(
    files.files.map(({ bytes }, index) => files.read(index, 0, bytes)),
  );
  files.close();
  return read.map((data) => Buffer.from(data));
}

async function assertWhole(opened: Opened): Promise<void> {
  const [data] = await contents(opened);
  assert.ok(weights.equals(data!), "every byte is as the hub has it");
}

test("a model arrives by ranges, whole, and once it is here nothing is asked for it", async () => {
  const own = store();
  const plan = await own.plan(ref, new AbortController().signal);
  assert.equal(plan.bytes, weights.length);
  assert.equal(plan.stored, 0);
  assert.equal(plan.from, hub.address);
  assert.match(plan.commit ?? "", /^[0-9a-f]{40}$/);
  assert.equal(await hub.sent(), 0, "a plan fetches no file");

  const opened = await open(own);
  const { progress } = opened;
  await assertWhole(opened);
  assert.equal(await hub.sent(), weights.length, "no byte is fetched twice");
  assert.equal(
    (await hub.seen()).filter(({ path }) => path.startsWith("/cdn/")).length,
    16,
    "by chunks",
  );
  assert.deepEqual(
    [...new Set(progress.map(({ phase }) => phase))],
    ["checking", "downloading", "verifying"],
  );
  const loaded = progress.filter(({ phase }) => phase === "downloading").map((step) => step.loaded);
  assert.ok(loaded.every((bytes, index) => index === 0 || bytes >= loaded[index - 1]!));
  assert.deepEqual(
    [progress.at(-1)!.loaded, progress.at(-1)!.total],
    [weights.length, weights.length],
  );

  await hub.reset();
  await assertWhole(await open(own));
  const again = await own.plan(ref, new AbortController().signal);
  assert.equal(again.stored, again.bytes);
  assert.deepEqual(await hub.seen(), [], "no request at all");
});

test("reading beyond a file, and from one that is none, is refused", async () => {
  const { files } = await open(store());
  assert.ok(weights.subarray(100, 300).equals(await files.read(0, 100, 200)));
  await assert.rejects(files.read(0, weights.length - 5, 6), {
    name: "ModelFile",
    message: /weights\.gguf/,
  });
  await assert.rejects(files.read(1, 0, 1), { name: "ModelFile" });
  files.close();
});

test("a folder is config, tokenizer and the index's shards, checked by the hub's ids", async () => {
  const opened = await open(store(), "hf:owner/folder");
  const names = opened.files.files.map(({ name }) => name);
  assert.deepEqual(names, [
    "config.json",
    "tokenizer.json",
    "model.safetensors.index.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
  ]);
  const read = await contents(opened);
  assert.equal(read[1]!.toString(), tokenizer);
  assert.ok(weights.equals(Buffer.concat(read.slice(3))));
});

test("a small file that arrives wrong is found by git's id and fetched again, alone", async () => {
  await contents(await open(store(), "hf:owner/folder"));
  const well = await hub.sent();
  await hub.reset();
  await hub.break({ kind: "flip", file: "tokenizer.json", after: 1 });
  const read = await contents(await open(store(), "hf:owner/folder"));
  assert.equal(read[1]!.toString(), tokenizer);
  assert.equal(await hub.sent(), well + tokenizer.length);
});

test("all parts of a split file come, whichever is named", async () => {
  const opened = await open(store(), "hf:owner/model/split-00002-of-00002.gguf");
  assert.ok(weights.equals(Buffer.concat(await contents(opened))));
});

test("an address of any host works, with and without ranges", async () => {
  await assertWhole(await open(store(), `${hub.address}/files/owner/model/weights.gguf`));
  await hub.reset();
  await hub.break({ kind: "no-range", times: 0 });
  const opened = await open(store(), `${hub.address}/files/owner/model/weights.gguf`);
  assert.ok(
    opened.progress.some(({ note }) => /can't resume/.test(note ?? "")),
    "it says so",
  );
  await assertWhole(opened);
});

for (const { name, faults, extra, note } of survived) {
  test(`survived: ${name}`, async () => {
    await hub.break(...faults);
    const opened = await open(store(undefined, stallsOf(faults)));
    if (note) {
      const told = [...new Set(opened.progress.map((step) => step.note))].join(" | ");
      assert.ok(
        opened.progress.some((step) => note.test(step.note ?? "")),
        `says ${String(note)}: ${told}`,
      );
    }
    await assertWhole(opened);
    if (extra !== undefined)
      assert.equal(
        (await hub.sent()) - weights.length,
        extra * weights.length,
        "bytes fetched twice",
      );
  });
}

for (const { name, faults, what = ref, says } of reported) {
  test(`told: ${name}`, async () => {
    await hub.break(...faults);
    const shelf = new MemoryShelf(true);
    const own = store(shelf, stallsOf(faults));
    await assert.rejects(open(own, what), { name: "Download", message: says });
    assert.ok((await own.list()).models.every(({ complete }) => !complete));
    // Whatever happened, the next try must not be affected.
    await hub.reset();
    if (what === ref) await assertWhole(await open(own));
  });
}

test("what arrived before a failure is not fetched again", async () => {
  const own = store();
  await hub.break({ kind: "404", on: "resolve", skip: 9, times: 0 });
  await assert.rejects(open(own), { name: "Download" });
  const [partial] = (await own.list()).models;
  assert.ok(
    partial && !partial.complete && partial.stored >= 4 * chunkBytes,
    `${partial?.stored} bytes are here`,
  );
  await hub.reset();
  await assertWhole(await open(own));
  assert.equal(await hub.sent(), weights.length - partial.stored);
  assert.equal(
    (await hub.seen()).filter(({ path }) => path.startsWith("/api/models")).length,
    0,
    "it goes on with the commit it began with",
  );
});

test("a chunk that changed on this machine is found and fetched again", async () => {
  const shelf = new MemoryShelf(true);
  const own = store(shelf);
  await hub.break({ kind: "404", on: "resolve", skip: 10, times: 0 });
  await assert.rejects(open(own));
  await hub.reset();
  const before = (await own.list()).models[0]!.stored;
  const part = await (await shelf.folder((await shelf.list())[0]!))!.open("0");
  const damaged = new Uint8Array(1);
  part.read(chunkBytes + 5, damaged);
  damaged[0]! ^= 1;
  part.write(chunkBytes + 5, damaged);
  await assertWhole(await open(own));
  assert.equal(await hub.sent(), weights.length - before + chunkBytes);
});

test("a file that is wrong every time is refused, and nothing of it is kept", async () => {
  const own = store();
  await hub.break({ kind: "flip", after: 5, times: 0 });
  await assert.rejects(open(own), {
    name: "Download",
    message: /weights\.gguf arrived damaged 2 times: its SHA-256.*Nothing of it was kept/,
  });
  assert.deepEqual((await own.list()).models, []);
  await hub.reset();
  await hub.break({ kind: "flip", file: "tokenizer.json", after: 5, times: 0 });
  await assert.rejects(open(own, "hf:owner/folder"), {
    name: "Download",
    message: /tokenizer\.json arrived damaged.*git id/,
  });
});

test("a manifest's digest and size are checked where the host knows none", async () => {
  const url = `${hub.address}/files/owner/model/weights.gguf`;
  const right = createHash("sha256").update(weights).digest("hex");
  const signal = new AbortController().signal;
  const own = store();
  const expecting = (expected: { bytes?: number; sha256?: string }): Promise<ModelFiles> =>
    own.open(url, { signal, onProgress: () => {}, expected });
  await assert.rejects(expecting({ bytes: 5 }), { name: "Download", message: /instead of 5/ });
  await assert.rejects(expecting({ sha256: "0".repeat(64) }), {
    name: "Download",
    message: /SHA-256/,
  });
  const files = await expecting({ sha256: right.toUpperCase(), bytes: weights.length });
  files.close();
  await assert.rejects(
    own.open(ref, { signal, onProgress: () => {}, expected: { sha256: "1".repeat(64) } }),
    { name: "Download", message: /another SHA-256/ },
  );
});

test("a file that changes at its host in mid-download is begun anew, not mixed", async () => {
  const url = `${hub.address}/files/owner/changing/m.gguf`;
  const next = randomBytes(weights.length);
  await hub.put("owner/changing/m.gguf", weights);
  const own = store();
  await hub.break({ kind: "404", on: "bytes", skip: 8, times: 0 });
  await assert.rejects(open(own, url));
  await hub.reset();
  await hub.put("owner/changing/m.gguf", next);
  const [data] = await contents(await open(own, url));
  assert.ok(next.equals(data!));
});

for (const host of ["files", "dated"]) {
  test(`other bytes under another mark are not mixed: ${host}`, async () => {
    await hub.break({ kind: "changed", skip: 3, times: 2 });
    await assertWhole(await open(store(), `${hub.address}/${host}/owner/model/weights.gguf`));
  });
}

test("a file that has grown is not cut to the size of before", async () => {
  await hub.break({ kind: "longer", skip: 1, times: 2 });
  await assertWhole(
    await open(store(undefined, { lanes: 1 }), `${hub.address}/dated/owner/model/weights.gguf`),
  );
});

test("a download whose commit is gone from the hub is begun anew", async () => {
  const gone = "hf:owner/gone/m.gguf";
  const next = randomBytes(weights.length);
  await hub.put("owner/gone/m.gguf", weights);
  const own = store();
  await hub.break({ kind: "404", skip: 8, times: 0 });
  await assert.rejects(open(own, gone));
  await hub.break({ kind: "404", times: 0 });
  await assert.rejects(open(own, gone), { name: "Download", message: /has no m\.gguf/ });
  assert.ok((await own.list()).models[0]!.stored > 0, "while it is there, what arrived stays");
  await hub.reset();
  // The hub's commit depends on its files.
  await hub.put("owner/gone/m.gguf", next);
  const [data] = await contents(await open(own, gone));
  assert.ok(next.equals(data!));
});

test("a revision stands for the commit it was downloaded at until somebody asks", async () => {
  const other = "hf:owner/moving/m.gguf";
  await hub.put("owner/moving/m.gguf", weights);
  const own = store();
  await contents(await open(own, other));
  const stored = (await own.list()).models[0]!.commit;
  await hub.put("owner/moving/m.gguf", randomBytes(1000));
  await assertWhole(await open(own, other));
  const latest = await own.latestCommit(other, new AbortController().signal);
  assert.notEqual(latest, stored);
  await own.delete(other);
  const [data] = await contents(await open(own, other));
  assert.equal(data!.length, 1000);
});

test("an abort ends at once with its reason and keeps finished chunks", async () => {
  const own = store();
  await hub.break({ kind: "stall", skip: 6, times: 0 });
  const controller = new AbortController();
  const running = own.open(ref, { signal: controller.signal, onProgress: () => {} });
  const stored = async (): Promise<number> => (await own.list()).models[0]?.stored ?? 0;
  while ((await stored()) < 6 * chunkBytes) await new Promise((resolve) => setTimeout(resolve, 10));
  controller.abort();
  await assert.rejects(running, { name: "AbortError" });
  assert.equal(await stored(), 6 * chunkBytes);
  await hub.reset();
  await assertWhole(await open(own));
  assert.equal(await hub.sent(), weights.length - 6 * chunkBytes);
});

test("two who want one model download it once; the second waits and says so", async () => {
  const own = store();
  const both = await Promise.all(
    [1, 2].map(async () => {
      const opened = await open(own);
      await assertWhole(opened);
      return opened;
    }),
  );
  assert.ok(both.some(({ progress }) => progress.some(({ phase }) => phase === "waiting")));
  assert.equal(await hub.sent(), weights.length);
});

test("who waits for somebody else's download can stop waiting", async () => {
  const own = store();
  await hub.break({ kind: "slow", bytesPerSecond: 100_000, times: 0 });
  const first = new AbortController();
  const downloading = open(own, ref, first.signal);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const controller = new AbortController();
  const waiting = own.open(ref, {
    signal: controller.signal,
    onProgress: ({ phase }) => phase === "waiting" && setTimeout(() => controller.abort(), 10),
  });
  await assert.rejects(waiting, { name: "AbortError" });
  first.abort();
  await assert.rejects(downloading, { name: "AbortError" });
});

test("a model in use is not deleted; afterwards it is", async () => {
  const own = store();
  const opened = await open(own);
  await assert.rejects(own.delete(ref), { name: "Storage", message: /being downloaded or loaded/ });
  await assertWhole(opened);
  await own.delete(ref);
  assert.deepEqual((await own.list()).models, []);
});

test("whether a model is here whole is seen without a store, and without a request", async () => {
  const shelf = new MemoryShelf(true);
  const here = (name = ref, from = hub.address): Promise<boolean> => isStored(shelf, name, from);
  assert.equal(await here(), false);
  await assertWhole(await open(store(shelf)));
  await hub.reset();
  assert.deepEqual(
    [
      await here(),
      await here(`${ref}@main`),
      await here(ref, "https://hub.example"),
      await here("hf:owner/model/other.gguf"),
    ],
    [true, true, false, false],
  );
  assert.equal(await hub.sent(), 0);
  await assert.rejects(here("model"), { name: "Reference" });
});

test("what is stored under a spelling of before is deleted by it", async () => {
  const shelf = new MemoryShelf(true);
  const folder = await shelf.create("0".repeat(32));
  const part = "hf:owner/model/split-00002-of-00002.gguf";
  const files = [{ name: "split-00001-of-00002.gguf", url: hub.address, bytes: 1 }];
  (
    await Journal.begin(folder, { ref: part, from: hub.address, commit: null, files }, chunkBytes)
  ).close();
  const own = store(shelf);
  assert.deepEqual(
    (await own.list()).models.map((model) => model.ref),
    [part],
  );
  await own.delete(part);
  assert.deepEqual((await own.list()).models, []);
});

test("what does not fit is said before a byte is fetched", async () => {
  const space = {
    estimate: async () => ({ quota: 1_000_000, usage: 600_000 }),
    persisted: async () => true,
  };
  const own = store(undefined, { space });
  await assert.rejects(open(own), {
    name: "Storage",
    message: /needs 1\.0 MB more.*0\.4 MB are free.*Delete stored models/,
  });
  assert.equal(await hub.sent(), 0);
  assert.equal((await own.plan(ref, new AbortController().signal)).free, 400_000);
  assert.deepEqual(await own.list(), {
    models: [],
    keeps: true,
    used: 600_000,
    free: 400_000,
    persisted: true,
  });
});

test("an interrupted download goes on in the room that it has reserved", async () => {
  const shelf = new MemoryShelf(true);
  // As in Firefox: the quota is fixed, and a file's whole size counts before it is written.
  const usage = async (): Promise<number> => {
    let all = 0;
    for (const name of await shelf.list())
      all += (await (await shelf.folder(name))?.blob("0"))?.size ?? 0;
    return all;
  };
  const space = {
    estimate: async () => ({ quota: 1.5 * weights.length, usage: await usage() }),
    persisted: async () => true,
  };
  const own = store(shelf, { space });
  const signal = new AbortController().signal;
  assert.equal((await own.plan(ref, signal)).toReserve, weights.length);
  await hub.break({ kind: "404", on: "resolve", skip: 6, times: 0 });
  await assert.rejects(open(own), { name: "Download" });
  await hub.reset();
  const { stored, toReserve, free } = await own.plan(ref, signal);
  assert.ok(stored > 0 && weights.length - stored > free!, `${stored} are here, ${free} are free`);
  assert.equal(toReserve, 0);
  assert.deepEqual(
    (await own.list()).models.map((model) => model.toReserve),
    [0],
  );
  await assertWhole(await open(own));
});

test("a download whose reserved room was given back needs it again", async () => {
  const shelf = new MemoryShelf(true);
  const room = { quota: 2 * weights.length, usage: 0 };
  const space = { estimate: async () => room, persisted: async () => true };
  const own = store(shelf, { space });
  await hub.break({ kind: "404", on: "resolve", skip: 6, times: 0 });
  await assert.rejects(open(own), { name: "Download" });
  await hub.reset();
  (await (await shelf.folder((await shelf.list())[0]!))!.open("0")).truncate(0);
  room.usage = room.quota - 1000;
  await assert.rejects(open(own), { name: "Storage", message: /needs 1\.0 MB more/ });
});

test("without a place to keep models a small one is in memory, a large one refused", async () => {
  const shelf = new MemoryShelf();
  const own = store(shelf);
  await assertWhole(await open(own));
  assert.deepEqual(await shelf.list(), [], "nothing is left");
  assert.equal((await own.list()).keeps, false, "and whoever asks is told");
  await assert.rejects(open(store(shelf, { mostInMemory: weights.length - 1 })), {
    name: "Storage",
    message: /has 1\.0 MB, .*no place to keep it/,
  });
});

/** A disk that is full after so many bytes. */
class Full extends MemoryShelf {
  room = 5.5 * chunkBytes;
  override async create(name: string): Promise<Folder> {
    return this.#limited(await super.create(name));
  }
  override async folder(name: string): Promise<Folder | undefined> {
    const folder = await super.folder(name);
    return folder && this.#limited(folder);
  }
  #limited(folder: Folder): Folder {
    const open = async (name: string): Promise<OpenPart> => {
      const part = await folder.open(name);
      const write = (at: number, bytes: Uint8Array<ArrayBuffer>): void => {
        if (name !== "journal" && (this.room -= bytes.length) < 0)
          throw new DOMException("full", "QuotaExceededError");
        part.write(at, bytes);
      };
      return Object.assign(Object.create(part) as OpenPart, {
        size: () => part.size(),
        read: part.read.bind(part),
        truncate: part.truncate.bind(part),
        write,
      });
    };
    return { open, blob: (name) => folder.blob(name), handle: (name) => folder.handle(name) };
  }
}

test("a disk that fills up keeps what is on it, and says what is missing", async () => {
  const shelf = new Full(true);
  const own = store(shelf);
  await assert.rejects(open(own), {
    name: "Storage",
    message: /needs 0\.7 MB more.*the browser gives this page no more\. What arrived is kept\./,
  });
  const [partial] = (await own.list()).models;
  assert.equal(partial!.stored, 5 * chunkBytes);
  await hub.reset();
  shelf.room = Infinity;
  await assertWhole(await open(own));
  assert.equal(await hub.sent(), weights.length - partial!.stored);
});
