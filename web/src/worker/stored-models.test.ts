/** Requests about stored models, which need no engine. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reply } from "../protocol/messages.ts";
import type { Listed } from "../store/store.ts";
import { Service } from "./service.ts";
import { Traps } from "./traps.ts";

test("a trap of a module fails no request about what is stored", async () => {
  const listed: Listed = { models: [], keeps: true, used: 1, free: 2, persisted: true };
  let list = (_: Listed): void => undefined;
  const posted: Reply[] = [];
  const traps = new Traps();
  const around = {
    openStore: async () => ({ list: () => new Promise<Listed>((resolve) => (list = resolve)) }),
    prompts: { list: async () => [] },
    post: (reply: Reply) => posted.push(reply),
    traps,
  };
  const service = new Service(around as unknown as ConstructorParameters<typeof Service>[0]);
  const answered = service.receive({ type: "models", id: 3 });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(traps.report(new WebAssembly.RuntimeError("unreachable")), false);
  list(listed);
  await answered;
  assert.deepEqual(posted, [{ type: "models", id: 3, stored: { ...listed, prompts: 0 } }]);
});
