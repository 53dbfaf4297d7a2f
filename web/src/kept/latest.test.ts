/** The latest value is written. A value that becomes outdated during another write is not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Latest } from "./latest.ts";

test("values that come during a write are written once, the last of them", async () => {
  const written: number[] = [];
  let release = (): void => undefined;
  const latest = new Latest<number>(async (value) => {
    written.push(value);
    await new Promise<void>((resolve) => (release = resolve));
  });
  const first = latest.set(1);
  assert.deepEqual(written, [1], "the first at once");
  void latest.set(2);
  void latest.set(3);
  release();
  await Promise.resolve();
  await Promise.resolve();
  assert.deepEqual(written, [1, 3]);
  release();
  await first;
  void latest.set(4);
  void latest.set(5);
  latest.drop();
  release();
  await Promise.resolve();
  assert.deepEqual(written, [1, 3, 4]);
});
