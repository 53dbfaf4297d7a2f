/** Room for a conversation: the most that the machine's memory allows, and never less than some. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { mostRoom, type RoomNeed } from "./room.ts";

const model = (perToken: number, context = 32_768): RoomNeed => {
  const need = { weights: 1, kv: 1, scratch: 1, perToken: { weights: 0, kv: perToken } };
  return { bundled: false, model: { memory: { cpu: need, webgpu: need }, shape: { context } } };
};
const toy: RoomNeed = { bundled: true, model: undefined };
const machine = (deviceMemory: number | undefined) => ({ backend: "cpu" as const, deviceMemory });

test("an eighth of the memory holds keys and values, for 8,192 tokens at most", () => {
  assert.equal(mostRoom([toy, toy], machine(0.5)), 8192);
  assert.equal(mostRoom([model(24_000), model(43_000)], machine(8)), 8192);
  assert.equal(mostRoom([model(200_000)], machine(8)), 4096);
  assert.equal(mostRoom([model(200_000)], machine(undefined)), 2048, "as on 4 GB");
  assert.equal(mostRoom([model(200_000), model(200_000)], machine(1)), 1024, "never less");
});

test("a member takes no more than its own context, and an unknown one is taken to be large", () => {
  assert.equal(mostRoom([model(200_000, 2048)], machine(4)), 8192);
  assert.equal(mostRoom([{ bundled: false, model: undefined }], machine(4)), 4096);
});
