import assert from "node:assert/strict";
import { test } from "node:test";
import { GpuCounters, since } from "./gpu-counters.ts";

class GPUBuffer {
  size: number;
  constructor(size: number) {
    this.size = size;
  }
  mapAsync(_mode: number, _offset?: number, _size?: number): Promise<void> {
    return Promise.resolve();
  }
  destroy(): void {}
}
function work(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

class GPUQueue {
  submit(_buffers: unknown[]): void {
    work(20);
  }
  writeBuffer(..._: unknown[]): void {}
}
class GPUDevice {
  createBuffer({ size }: { size: number }): GPUBuffer {
    return new GPUBuffer(size);
  }
}

test("what is asked of WebGPU is counted, and still done", async () => {
  const counters = GpuCounters.install({ GPUDevice, GPUQueue, GPUBuffer })!;
  const device = new GPUDevice();
  const queue = new GPUQueue();
  const [first, second] = [device.createBuffer({ size: 1000 }), device.createBuffer({ size: 24 })];
  assert.equal(first.size, 1000);
  assert.equal(counters.liveBytes, 1024);
  first.destroy();
  first.destroy();
  assert.equal(counters.liveBytes, 24);

  const before = counters.read();
  assert.equal(before.bufferBytes, 1024);
  queue.submit([]);
  queue.writeBuffer(second, 0, new Float32Array(10), 2, 3);
  queue.writeBuffer(second, 0, new Float32Array(10), 2);
  queue.writeBuffer(second, 0, new ArrayBuffer(10), 2);
  await second.mapAsync(1);
  await second.mapAsync(1, 8, 4);
  await second.mapAsync(1, 8);
  await second.mapAsync(2);
  const { submits, writes, writtenBytes, readbacks, readBytes, buffers } = since(
    before,
    counters.read(),
  );
  assert.deepEqual(
    { submits, writes, writtenBytes, readbacks, readBytes, buffers },
    {
      submits: 1,
      writes: 3,
      writtenBytes: 12 + 32 + 8,
      readbacks: 3,
      readBytes: 24 + 4 + 16,
      buffers: 0,
    },
  );
});

test("the time of the calls and the time between them are told apart", () => {
  const counters = GpuCounters.install({ GPUDevice, GPUQueue })!;
  const queue = new GPUQueue();
  queue.submit([]);
  work(30);
  queue.submit([]);
  const { recordMs, callMs } = counters.read();
  assert.ok(callMs >= 40 && recordMs - callMs >= 30, `${callMs} of ${recordMs} ms`);
  // A loaded machine may add to either, though hardly this much.
  assert.ok(callMs < 400 && recordMs - callMs < 400, `${callMs} of ${recordMs} ms`);
});

test("where there is no WebGPU nothing is counted", () => {
  assert.equal(GpuCounters.install({}), undefined);
});
