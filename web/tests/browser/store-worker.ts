/** A worker that drives the store for the browser tests: one call a message, with small chunks. */
import { openLocks } from "../../src/store/locks.ts";
import { typed } from "../../src/protocol/errors.ts";
import type { ModelFiles } from "../../src/protocol/model-files.ts";
import { sha256 } from "../../src/store/sha256.ts";
import { openShelf } from "../../src/store/shelf.ts";
import { Store } from "../../src/store/store.ts";

/** Calls of the worker. */
type Call =
  | { id: number; method: "start"; hub: string; chunkBytes: number; stallMs: number }
  | { id: number; method: "plan" | "delete" | "open"; ref: string }
  | { id: number; method: "list" }
  | { id: number; method: "stop"; other: number };

const scope = globalThis as unknown as {
  postMessage(data: unknown): void;
  onmessage: ((event: MessageEvent<Call>) => void) | null;
};
const running = new Map<number, AbortController>();
let store: Store;

async function answer(
  call: Exclude<Call, { method: "stop" }>,
  signal: AbortSignal,
): Promise<unknown> {
  switch (call.method) {
    case "start": {
      const policy = { tries: 4, firstMs: 20, patienceMs: 5000 };
      const shelf = await openShelf();
      const { hub, chunkBytes, stallMs } = call;
      store = new Store({
        shelf,
        locks: openLocks(),
        hub,
        space: navigator.storage,
        policy,
        stallMs,
        chunkBytes,
      });
      return { persistent: shelf.persistent };
    }
    case "plan":
      return store.plan(call.ref, signal);
    case "delete":
      return store.delete(call.ref);
    case "list":
      return store.list();
    case "open": {
      const files = await store.open(call.ref, {
        signal,
        onProgress: (progress) => scope.postMessage({ id: call.id, progress }),
      });
      try {
        return await Promise.all(
          files.files.map(async ({ name, bytes }, index) => ({
            name,
            bytes,
            sha256: await digest(files, index, bytes),
          })),
        );
      } finally {
        files.close();
      }
    }
  }
}

async function digest(files: ModelFiles, index: number, bytes: number): Promise<string> {
  return sha256(new Uint8Array(await files.read(index, 0, bytes)));
}

scope.onmessage = ({ data: call }) => {
  if (call.method === "stop") return running.get(call.other)?.abort();
  const controller = new AbortController();
  running.set(call.id, controller);
  answer(call, controller.signal).then(
    (result) => scope.postMessage({ id: call.id, result }),
    (thrown: unknown) => {
      const aborted = controller.signal.aborted;
      scope.postMessage({
        id: call.id,
        error: aborted
          ? { kind: "AbortError", message: "" }
          : { kind: typed(thrown).kind, message: typed(thrown).message },
      });
    },
  );
};
