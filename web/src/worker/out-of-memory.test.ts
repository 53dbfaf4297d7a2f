/** Loads without memory: named with the need and what there is; never "unreachable". */
import assert from "node:assert/strict";
import { test } from "node:test";
import { OutOfMemory } from "../protocol/errors.ts";
import { lackOfMemory, loadError, refuseTooLarge } from "./out-of-memory.ts";

const memoryOf = (byteLength: number) => ({ buffer: { byteLength } as ArrayBuffer });

test("a model beyond a thread's memory is refused before it is read", () => {
  refuseTooLarge("Large", 3e9, memoryOf(1e6));
  assert.throws(
    () => refuseTooLarge("Large", 2 ** 32 - 2e6, memoryOf(1e6)),
    OutOfMemory,
    "there has to be room for what is being read",
  );
  assert.throws(
    () => refuseTooLarge("Large", 5e9, memoryOf(2e8)),
    (error: Error) =>
      error instanceof OutOfMemory &&
      /^Large needs 5\.0 GB of memory, and a thread here has 4\.3 GB, of which 200 MB are taken/.test(
        error.message,
      ),
  );
});

test("a trap of a full memory is a lack of it, with the model, its need and what is taken", () => {
  // Real memory, and a real trap.
  const memory = new WebAssembly.Memory({ initial: 2, maximum: 3 });
  const trap = trapped();
  assert.match(trap.message, /unreachable/);
  const error = loadError(trap, "Large", 1e6, { memory, alone: true });
  assert.equal(error.kind, "OutOfMemory");
  assert.match(
    error.message,
    /^There is no memory for Large: it needs 1 MB .* the 1 MB that are taken/,
  );
  assert.match(error.message, /free again, and the other members go on\.$/);
  const shared = loadError(trap, "Large", 1e6, { memory, alone: false });
  assert.equal(shared.kind, "Engine", "others live in the same module");
  for (const { message } of [error, shared]) assert.doesNotMatch(message, /unreachable/);
});

test("a trap with memory left is the engine's fault, and is named too", () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const error = loadError(trapped(), "Large", 1e6, { memory, alone: true });
  assert.equal(error.kind, "Engine");
  assert.match(error.message, /^The engine stopped while it loaded Large; memory was left/);
});

test("a trap in an answer is a lack of memory only if none is left", () => {
  const full = new WebAssembly.Memory({ initial: 2, maximum: 3 });
  assert.match(
    lackOfMemory(trapped(), "Large", full)?.message ?? "",
    /^There is no memory left for Large to go on: .* the 1 MB that are taken\. Choose/,
  );
  assert.equal(lackOfMemory(trapped(), "Large", new WebAssembly.Memory({ initial: 1 })), undefined);
  assert.equal(lackOfMemory(new Error("another"), "Large", full), undefined);
});

test("the graphics card's own report is kept; other errors pass", () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const room = { memory, alone: false };
  const gpu = loadError(new OutOfMemory("a buffer of 2 GB was refused."), "Large", 2e9, room);
  assert.match(
    gpu.message,
    /^There is no memory for Large, which needs 2\.0 GB and more for a conversation \(a buffer of 2 GB was refused\)\./,
  );
  const other = new Error("no such tensor");
  other.name = "ModelFile";
  assert.equal(loadError(other, "Large", 1, room).kind, "ModelFile");
});

/** The trap of a module whose only function is unreachable. */
function trapped(): Error {
  const bytes = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0];
  const code = [10, 5, 1, 3, 0, 0, 11];
  const module = new WebAssembly.Module(new Uint8Array([...bytes, ...code]));
  const { f } = new WebAssembly.Instance(module).exports as { f: () => void };
  try {
    f();
  } catch (error) {
    return error as Error;
  }
  return assert.fail("it returned");
}
