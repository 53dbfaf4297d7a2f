/** Traps of the module's own tasks end what waits for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { listenForTraps, Traps } from "./traps.ts";

const never = (): Promise<string> => new Promise(() => undefined);

test("a trap ends all that waits for the module, and nothing that is over", async () => {
  const traps = new Traps();
  const trap = new WebAssembly.RuntimeError("unreachable");
  assert.equal(await traps.heard(Promise.resolve("done")), "done");
  assert.equal(traps.report(trap), false, "nothing waits");
  const waiting = [traps.heard(never()), traps.heard(never())];
  assert.equal(traps.report(new Error("not a trap")), false);
  assert.equal(traps.report(trap), true);
  for (const each of waiting) await assert.rejects(each, trap);
  assert.equal(traps.report(trap), false);
});

test("a trap that a request hears of is no error of the worker; all others are", () => {
  const scope = new EventTarget();
  const trap = new WebAssembly.RuntimeError("unreachable");
  listenForTraps(
    scope as unknown as Parameters<typeof listenForTraps>[0],
    (error) => error === trap,
  );
  const prevented = (error: unknown): boolean => {
    const event = Object.assign(new Event("error", { cancelable: true }), { error });
    return !scope.dispatchEvent(event);
  };
  assert.deepEqual([prevented(trap), prevented(new Error("another"))], [true, false]);
});
