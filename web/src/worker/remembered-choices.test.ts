/** Measured choices from one visit to the next, in the store's own files, held in memory here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RememberedChoices } from "./remembered-choices.ts";
import { MemoryShelf, type Shelf } from "../store/shelf.ts";

const open = (shelf: Shelf) => new RememberedChoices(async () => shelf);

/** A shelf with this content in the file of choices. */
async function holding(content: string): Promise<Shelf> {
  const shelf = new MemoryShelf(true);
  await open(shelf).keep("card 1", { normInside: true });
  const part = await (await shelf.folder("measured"))!.open("choices.json");
  part.truncate(0);
  part.write(0, new TextEncoder().encode(content));
  return shelf;
}

test("what is kept is recalled by the next visit, the last of it", async () => {
  const shelf = new MemoryShelf(true);
  assert.equal(await open(shelf).recall("card 1"), undefined);
  assert.deepEqual(await shelf.list(), [], "to look is to leave nothing behind");
  await open(shelf).keep("card 1", { normInside: false, asATile: 20 });
  assert.deepEqual(await open(shelf).recall("card 1"), { normInside: false, asATile: 20 });
  await open(shelf).keep("card 1", { normInside: true });
  assert.deepEqual(await open(shelf).recall("card 1"), { normInside: true });
});

test("another adapter and other kernels are measured anew", async () => {
  const shelf = new MemoryShelf(true);
  await open(shelf).keep("card 1", { normInside: false, asATile: 20 });
  assert.equal(await open(shelf).recall("card 2"), undefined);
});

test("what is no choice is ignored, and written over", async () => {
  const right = { of: "card 1", normInside: true, asATile: 20 };
  const shelf = await holding(JSON.stringify(right));
  assert.deepEqual(
    await open(shelf).recall("card 1"),
    { normInside: true, asATile: 20 },
    "the rest of this test is worth something",
  );
  const wrong: unknown[] = [
    null,
    [],
    { ...right, normInside: 1 },
    { ...right, of: undefined },
    { ...right, more: "x".repeat(5000) },
  ];
  for (const asATile of [1, 0, -4, 33, 20.5, 1e300, "20", null]) wrong.push({ ...right, asATile });
  for (const content of ["", "{", ...wrong.map((data) => JSON.stringify(data))]) {
    const shelf = await holding(content);
    assert.equal(await open(shelf).recall("card 1"), undefined, content.slice(0, 80));
    await open(shelf).keep("card 1", { normInside: false, asATile: 2 });
    assert.deepEqual(await open(shelf).recall("card 1"), { normInside: false, asATile: 2 });
  }
});

test("where nothing can be kept, nothing is said of it", async () => {
  const refused = new RememberedChoices(() =>
    Promise.reject(new DOMException("private", "SecurityError")),
  );
  await refused.keep("card 1", { normInside: true });
  assert.equal(await refused.recall("card 1"), undefined);
});
