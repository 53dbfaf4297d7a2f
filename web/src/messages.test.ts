import assert from "node:assert/strict";
import { test } from "node:test";
import { errorKinds, ConclaveError, DeviceLost, fromRecord, isFatal, OutOfMemory, toRecord, typed } from "./errors.ts";
import { parseReply, parseRequest } from "./messages.ts";
import { settings } from "./scripted.ts";

const ask = {
  type: "ask",
  id: 3,
  messages: [{ role: "user", content: "hello" }],
  members: ["Ada"],
  settings,
  sampling: { temperature: 0.6, topP: 0.9, topK: 0, seed: 1 },
};
const round = {
  type: "round",
  round: 1,
  active: [0],
  candidates: [{ member: "Ada", text: "a", ended: false, tokens: 1 }],
  scores: [[{ meanLogit: 1, meanLogprob: -1 }]],
  shares: [[1]],
  totals: [1],
  counts: [1],
  winner: 0,
  weights: [1],
  exited: [],
  text: "a",
  ms: { draft: 1, verify: 1 },
  counters: [{ prefix: 1, prefilled: 0, drafted: 1, verified: 1 }],
};

test("requests pass as they are", () => {
  assert.deepEqual(parseRequest(ask), ask);
  assert.deepEqual(parseRequest({ type: "stop", id: 3 }), { type: "stop", id: 3 });
  assert.deepEqual(parseRequest({ ...ask, settings: { ...settings, exit: { warmup: 3, temperature: 6, threshold: 0.5 } } }).type, "ask");
});

test("what is wrong in a request is named by its path", () => {
  const wrong: [unknown, RegExp][] = [
    [null, /request\.type/],
    [{ type: "toString", id: 1 }, /request\.type/],
    [{ ...ask, messages: [{ role: "tool", content: "" }] }, /request\.messages\[0\]\.role: expected "system" or "user" or "assistant", found "tool"/],
    [{ ...ask, settings: { ...settings, rate: "fast" } }, /request\.settings\.rate/],
    [{ ...ask, sampling: { ...ask.sampling, seed: Number.NaN } }, /request\.sampling\.seed: expected a finite number/],
    [{ ...ask, members: "Ada" }, /request\.members: expected a list/],
    [{ type: "add", id: 1, contextTokens: 10, source: { name: "x", files: ["not a file"] } }, /request\.source\.files\[0\]: expected a file/],
  ];
  for (const [data, says] of wrong) assert.throws(() => parseRequest(data), says);
});

test("a reply with a score that is no number does not pass for a vote", () => {
  const reply = { type: "event", id: 3, event: round };
  assert.deepEqual(parseReply(reply), reply);
  const broken = { ...round, scores: [[{ meanLogit: Number.NaN, meanLogprob: -1 }]] };
  assert.throws(() => parseReply({ ...reply, event: broken }), /reply\.event\.scores\[0\]\[0\]\.meanLogit/);
});

test("every kind of error crosses the boundary with its text so far", () => {
  for (const kind of errorKinds) {
    const thrown = Object.assign(new Error("Do this next."), { name: kind });
    const error = typed(thrown);
    assert.equal(error.kind, kind);
    assert.equal(error.name, kind);
    error.partial = "so far";
    error.member = "Ada";
    const back = fromRecord(structuredClone(toRecord(error)));
    assert.equal(back.constructor, error.constructor);
    assert.deepEqual(toRecord(back), { kind, message: "Do this next.", partial: "so far", member: "Ada" });
  }
});

test("traps and failed allocations of the wasm module are typed", () => {
  const trap = typed(new WebAssembly.RuntimeError("unreachable"));
  assert.equal(trap.kind, "Engine");
  assert.match(trap.message, /Reload/);
  assert.ok(isFatal(trap));
  assert.ok(typed(new RangeError("WebAssembly.Memory.grow(): Maximum memory size exceeded")) instanceof OutOfMemory);
  assert.equal(typed("a string").kind, "Engine");
  const lost = new DeviceLost("gone");
  assert.equal(typed(lost), lost);
  assert.ok(lost instanceof ConclaveError);
});
