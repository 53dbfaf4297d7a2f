import assert from "node:assert/strict";
import { test } from "node:test";
import { verdict, type Machine } from "./fit.ts";

const gpu: Machine = { backend: "webgpu", free: 10e9, deviceMemory: 8 };
const tone = (download: number, memory: number, machine: Partial<Machine> = {}) => verdict({ download, memory }, { ...gpu, ...machine })?.tone;

test("what can't fit is refused, what may not is warned of, all else passes in silence", () => {
  assert.equal(tone(1e9, 1.5e9), undefined);
  assert.equal(tone(11e9, 1.5e9), "no", "disk");
  assert.equal(tone(11e9, 1.5e9, { free: undefined }), undefined, "an unknown disk is no reason");
  assert.equal(tone(0, 7e9), "warning", "a large one on an unknown card");
  assert.equal(tone(1e9, 2.5e9, { deviceMemory: 4 }), "warning");
  assert.equal(tone(1e9, 4.5e9, { backend: "cpu" }), "no", "beyond a 32-bit module");
  assert.equal(tone(1e9, 2e9, { backend: "cpu" }), "warning", "slow");
  assert.equal(tone(4e6, 20e6, { backend: "cpu" }), undefined);
});

test("a refusal says how much is needed, how much there is, and what to do", () => {
  assert.match(verdict({ download: 11e9, memory: 1 }, gpu)!.text, /11\sGB are yet to come.*keep 10\sGB more\. Delete/);
  assert.match(verdict({ download: 1, memory: 5e9 }, { ...gpu, backend: "cpu" })!.text, /4 GB at most.*graphics card/);
});
