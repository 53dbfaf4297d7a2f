/** Storage that the browser refuses: what is not kept is told. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { turnOf } from "../testing/kept-turn.ts";
import { Keeper } from "./keeper.ts";

test("storing and deleting tell that the browser refuses, and try again next time", async () => {
  let opened = 0;
  const refuse = (): never => {
    opened++;
    throw new DOMException("It is switched off.", "SecurityError");
  };
  const stand = {
    localStorage: { getItem: () => null },
    indexedDB: { open: refuse },
    BroadcastChannel: undefined, // It would keep the process alive.
  };
  for (const [name, value] of Object.entries(stand))
    Object.defineProperty(globalThis, name, { value, configurable: true });
  const failures: string[] = [];
  const keeper = new Keeper(
    () => assert.fail("nothing has changed"),
    (message) => failures.push(message),
  );
  const conversation = { id: "one", title: "One", created: 1, changed: 1 };
  assert.equal(await keeper.put({ conversation, turns: [turnOf("How many?", ["Two"])] }), false);
  const before = opened;
  assert.equal(await keeper.deleteAll(), false);
  assert.ok(opened > before);
  assert.equal(await keeper.delete("one"), undefined);
  assert.equal(failures.length, 1);
  assert.match(failures[0]!, /^This browser keeps no conversations .*\(It is switched off\.\)/);
});
