import assert from "node:assert/strict";
import { test } from "node:test";
import { mayShareMemory } from "./shared-memory.ts";

/** Whether memory is shared in such a page. */
function inPage({
  isolated,
  waits = true,
  buffers = true,
}: {
  isolated: boolean;
  waits?: boolean;
  buffers?: boolean;
}): boolean {
  const had = {
    SharedArrayBuffer: globalThis.SharedArrayBuffer,
    waitAsync: Object.getOwnPropertyDescriptor(Atomics, "waitAsync"),
  };
  Object.assign(globalThis, { crossOriginIsolated: isolated });
  if (waits)
    Object.defineProperty(Atomics, "waitAsync", { value: () => undefined, configurable: true });
  else Reflect.deleteProperty(Atomics, "waitAsync");
  if (!buffers) Reflect.deleteProperty(globalThis, "SharedArrayBuffer");
  try {
    return mayShareMemory();
  } finally {
    Reflect.deleteProperty(globalThis, "crossOriginIsolated");
    Object.defineProperty(globalThis, "SharedArrayBuffer", {
      value: had.SharedArrayBuffer,
      configurable: true,
      writable: true,
    });
    if (had.waitAsync) Object.defineProperty(Atomics, "waitAsync", had.waitAsync);
  }
}

test("memory is shared in an isolated page, where threads can wait and may have it", () => {
  assert.equal(inPage({ isolated: true }), true);
  assert.equal(inPage({ isolated: false }), false);
  assert.equal(inPage({ isolated: true, waits: false }), false, "Firefox before 145");
  assert.equal(inPage({ isolated: true, buffers: false }), false, "WebKitGTK");
});
