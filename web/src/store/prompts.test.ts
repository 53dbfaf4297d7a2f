/** Kept prefixes of system prompts: few, of bounded size; any failure only means reading again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openLocks } from "./locks.ts";
import { Prompts, type PromptsOptions } from "./prompts.ts";
import { MemoryShelf, type Shelf } from "./shelf.ts";

const bytes = (length: number, first = 0): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, index) => (first + index) % 251);

function kept(options: Partial<PromptsOptions> = {}): { prompts: Prompts; shelf: MemoryShelf } {
  const shelf = new MemoryShelf(true);
  let time = 0;
  const prompts = new Prompts({
    open: async () => shelf,
    locks: openLocks(null),
    now: () => ++time,
    ...options,
  });
  return { prompts, shelf };
}

const keys = async (prompts: Prompts): Promise<string[]> =>
  (await prompts.list()).map(({ key }) => key).sort();

test("what is put under a key is got by it, by the next visit too", async () => {
  const { prompts, shelf } = kept();
  await prompts.put("a", "hf:owner/repo/file.gguf@main", bytes(1000));
  assert.deepEqual(await prompts.get("a"), bytes(1000));
  assert.equal(await prompts.get("b"), undefined);
  const next = new Prompts({ open: async () => shelf, locks: openLocks(null) });
  assert.deepEqual(await next.get("a"), bytes(1000));
  assert.deepEqual(await next.list(), [
    { key: "a", of: "hf:owner/repo/file.gguf@main", bytes: 1000, used: 1 },
  ]);
  await prompts.put("a", null, bytes(10, 7));
  assert.deepEqual(await next.get("a"), bytes(10, 7), "written over, and no longer than it is");
});

test("of too many, and of more bytes than fit, the least recently used go", async () => {
  const { prompts } = kept({ most: 3, mostBytes: 100 });
  for (const key of ["a", "b", "c"]) await prompts.put(key, null, bytes(20));
  await prompts.touch("a");
  await prompts.put("d", null, bytes(20));
  assert.deepEqual(await keys(prompts), ["a", "c", "d"]);
  await prompts.put("e", null, bytes(70));
  assert.deepEqual(await keys(prompts), ["d", "e"]);
  await prompts.put("f", null, bytes(101));
  assert.deepEqual(
    await keys(prompts),
    ["d", "e"],
    "one that is too large by itself drives nothing out",
  );
  await prompts.put("e", null, bytes(80));
  assert.deepEqual(await keys(prompts), ["d", "e"], "what takes its own place needs no other's");
});

test("what is cut short, undescribed or described otherwise is none, and is deleted", async () => {
  for (const spoil of ["cut", "longer", "undescribed", "otherwise"]) {
    const { prompts, shelf } = kept();
    await prompts.put("a", null, bytes(500));
    const folder = (await shelf.folder("a"))!;
    const part = await folder.open(spoil === "cut" || spoil === "longer" ? "prefix" : "about");
    if (spoil === "cut") part.truncate(499);
    else if (spoil === "longer") part.write(500, bytes(1));
    else if (spoil === "undescribed") part.truncate(0);
    else part.write(0, new TextEncoder().encode(`{"format":"prompt-0"`));
    assert.equal(await prompts.get("a"), undefined, spoil);
    assert.equal(await shelf.folder("a"), undefined, `${spoil}: deleted`);
  }
});

test("a write that did not end is swept away by the next", async () => {
  const { prompts, shelf } = kept();
  await (await shelf.create("torn")).open("prefix");
  await prompts.put("a", null, bytes(5));
  assert.deepEqual(await shelf.list(), ["a"]);
});

test("prompts go with their model, or all at once", async () => {
  const { prompts } = kept();
  await prompts.put("a", "hf:one", bytes(5));
  await prompts.put("b", "hf:two", bytes(5));
  await prompts.put("c", null, bytes(5));
  await prompts.deleteOf("hf:one");
  assert.deepEqual(await keys(prompts), ["b", "c"]);
  await prompts.deleteOf();
  assert.deepEqual(await keys(prompts), []);
});

test("a place that fails, is full or is in use is as if there were none", async () => {
  const broken = new Prompts({
    open: async () => Promise.reject(new Error("denied")),
    locks: openLocks(null),
  });
  await broken.put("a", null, bytes(5));
  assert.deepEqual(
    [await broken.get("a"), await broken.list(), await broken.keeps()],
    [undefined, [], false],
  );

  const shelf = new MemoryShelf(true);
  const full: Shelf = {
    persistent: true,
    list: () => shelf.list(),
    folder: (name) => shelf.folder(name),
    remove: (name) => shelf.remove(name),
    create: async (name) => {
      const folder = await shelf.create(name);
      const open = async (part: string) => {
        const file = await folder.open(part);
        file.write = () => {
          throw new DOMException("no room", "QuotaExceededError");
        };
        return file;
      };
      return { open, blob: (part) => folder.blob(part), handle: (part) => folder.handle(part) };
    },
  };
  const prompts = new Prompts({ open: async () => full, locks: openLocks(null) });
  await prompts.put("a", null, bytes(5));
  assert.deepEqual(await shelf.list(), [], "nothing is left of it");

  const locks = openLocks(null);
  const { prompts: waiting, shelf: used } = kept({ locks });
  const release = (await locks.tryHold("conclave-prompts"))!;
  await waiting.put("a", null, bytes(5));
  assert.deepEqual(await used.list(), [], "another tab writes just now");
  release();
  await waiting.put("a", null, bytes(5));
  assert.deepEqual(await keys(waiting), ["a"]);
});
