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
class GPUQueue {
  submit(_buffers: unknown[]): void {}
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
  const { submits, writes, writtenBytes, readbacks, readBytes, buffers } = since(before, counters.read());
  assert.deepEqual({ submits, writes, writtenBytes, readbacks, readBytes, buffers }, { submits: 1, writes: 3, writtenBytes: 12 + 32 + 8, readbacks: 3, readBytes: 24 + 4 + 16, buffers: 0 });
});

test("where there is no WebGPU nothing is counted", () => {
  assert.equal(GpuCounters.install({}), undefined);
});
