import assert from "node:assert/strict";
import { test } from "node:test";
import { verdict, type Machine } from "./fit.ts";

const gpu: Machine = { backend: "webgpu", cores: 4, free: 10e9, deviceMemory: 8 };
const tone = (download: number, memory: number | number[], machine: Partial<Machine> = {}) =>
  verdict({ download, memory: [memory].flat() }, { ...gpu, ...machine })?.tone;

test("what can't fit is refused, what may not is warned of, all else passes in silence", () => {
  assert.equal(tone(1e9, 1.5e9), undefined);
  assert.equal(tone(11e9, 1.5e9), "no", "disk");
  assert.equal(tone(11e9, 1.5e9, { free: undefined }), undefined, "an unknown disk is no reason");
  assert.equal(tone(0, 7e9), "warning", "a large one on an unknown card");
  assert.equal(tone(1e9, 2.5e9, { deviceMemory: 4 }), "warning");
  assert.equal(tone(1e9, 4.5e9, { backend: "cpu" }), "no", "beyond a 32-bit module");
  assert.equal(tone(1e9, 1.1e9, { backend: "cpu" }), undefined);
  assert.equal(tone(1e9, 2e9, { backend: "cpu" }), "warning", "slow");
  assert.equal(tone(4e6, 20e6, { backend: "cpu" }), undefined);
});

test("on the CPU members have own heaps while there are cores, in the machine's memory", () => {
  const cpu = (memory: number[], machine: Partial<Machine> = {}) =>
    tone(0, memory, { backend: "cpu", ...machine });
  const three = [2.2e9, 2.2e9, 2.2e9];
  assert.equal(cpu(three), "warning", "large and slow, but it fits");
  assert.equal(cpu(three, { deviceMemory: undefined }), "warning");
  assert.equal(cpu([1e9, 4.2e9]), "no", "one is beyond its own heap");
  assert.equal(cpu(three, { cores: 3 }), "warning");
  assert.equal(cpu(three, { cores: 2 }), "no", "two share one");
  assert.equal(cpu([2.2e9, 2.2e9, 1e9], { cores: 2 }), "warning");
  assert.equal(cpu([2.2e9, 1e9, 2.2e9], { cores: 2 }), "warning", "files arrive in any order");
  assert.equal(
    cpu([3.2e9, 1e9, 0.5e9, 2.4e9], { cores: 2 }),
    "warning",
    "the largest beside the smallest",
  );
  assert.equal(cpu(three, { cores: 1 }), "no");
  assert.equal(cpu(three, { deviceMemory: 4 }), "no", "more than the machine has");
  assert.equal(cpu([2.5e9, 2.5e9], { deviceMemory: 4 }), "warning", "4 may be 6");
  assert.equal(
    tone(0, three, { deviceMemory: 4 }),
    "warning",
    "a graphics card may have memory of its own",
  );
});

test("a refusal says how much is needed, how much there is, and what to do", () => {
  assert.match(
    verdict({ download: 11e9, memory: [1] }, gpu)!.text,
    /11\sGB are yet to come.*keep 10\sGB more\. Delete/,
  );
  const onCpu = (memory: number[], machine: Partial<Machine> = {}) =>
    verdict({ download: 1, memory }, { ...gpu, backend: "cpu", ...machine })!.text;
  assert.match(
    onCpu([1e9, 5e9]),
    /a model holds 4 GB at most: one would take 5\.0\sGB\. Take a smaller.*graphics card/,
  );
  assert.match(
    onCpu([2.5e9, 2.5e9], { cores: 1 }),
    /fewer cores than models.*4 GB at most.*5\.0\sGB.*fewer/,
  );
  assert.match(onCpu([3.5e9, 3.5e9], { deviceMemory: 4 }), /7\.0\sGB of memory.*about 4 GB.*fewer/);
});
