import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { openShelf } from "./shelf.ts";

/**
 * A simulated private file system, as far as it is inspected before storing; `opening` runs when a
 * file is opened for writing.
 */
function storage(opening: () => void): { manager: StorageManager; entries: Set<string> } {
  const entries = new Set<string>();
  class FileSystemFileHandle {
    async createSyncAccessHandle(): Promise<{ close: () => void }> {
      opening();
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

test("without private files models stay in memory", async () => {
  assert.equal((await openShelf(undefined)).persistent, false);
});
