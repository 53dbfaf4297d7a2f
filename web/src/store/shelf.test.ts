import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { openShelf } from "./shelf.ts";

/**
 * A simulated private file system, as far as it is inspected before storing; `opening` runs when a
 * file is opened for writing.
 */
function storage(opening: () => unknown): { manager: StorageManager; entries: Set<string> } {
  const entries = new Set<string>();
  class FileSystemFileHandle {
    async createSyncAccessHandle(): Promise<{ close: () => void }> {
      await opening();
      return { close: () => undefined };
    }
  }
  Object.assign(globalThis, { FileSystemFileHandle });
  const root = {
    getFileHandle: async (name: string) => (entries.add(name), new FileSystemFileHandle()),
    getDirectoryHandle: async (name: string) => (entries.add(name), {}),
    removeEntry: async (name: string) => void entries.delete(name),
  };
  return { manager: { getDirectory: async () => root } as unknown as StorageManager, entries };
}
afterEach(() => Reflect.deleteProperty(globalThis, "FileSystemFileHandle"));

const refusing = (name: string) => (): never => {
  throw new DOMException("not here", name);
};

test("models are kept where files can be opened to write; the trial leaves nothing", async () => {
  const { manager, entries } = storage(() => undefined);
  assert.ok((await openShelf(manager, "place")).persistent);
  assert.deepEqual([...entries], ["place"]);
});

test("where private files can't be opened for writing, models stay in memory", async () => {
  for (const name of ["NotSupportedError", "InvalidStateError", "SecurityError"]) {
    const { manager, entries } = storage(refusing(name));
    assert.equal((await openShelf(manager, "place")).persistent, false, name);
    assert.deepEqual([...entries], []);
  }
});

test("on a full disk what is stored stays within reach", async () => {
  assert.ok((await openShelf(storage(refusing("QuotaExceededError")).manager)).persistent);
});

test("one trial serves all folders", async () => {
  let opened = 0;
  const { manager, entries } = storage(() => void opened++);
  await Promise.all([openShelf(manager, "one"), openShelf(manager, "another")]);
  assert.deepEqual([...entries].sort(), ["another", "one"]);
  assert.equal(opened, 1);
});

test("a file that is never opened keeps nobody from what is stored", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { manager, entries } = storage(() => new Promise(() => undefined));
  const opening = openShelf(manager, "place");
  for (const ms of [3000, 100]) {
    await new Promise(setImmediate);
    t.mock.timers.tick(ms);
  }
  assert.ok((await opening).persistent);
  assert.deepEqual([...entries], ["place"]);
});

test("without private files models stay in memory", async () => {
  assert.equal((await openShelf(undefined)).persistent, false);
});
