/**
 * Memory copy bandwidth of an adapter: an upper bound for a product that reads all weights once.
 */

/** The part of WebGPU that copying needs. */
export interface CopyingGpu {
  requestAdapter(options?: {
    powerPreference?: "high-performance";
  }): Promise<CopyingAdapter | null>;
}
interface CopyingAdapter {
  requestDevice(): Promise<CopyingDevice>;
}
interface Buffer {
  destroy(): void;
}
interface CopyingDevice {
  createBuffer(descriptor: { size: number; usage: number }): Buffer;
  createCommandEncoder(): {
    copyBufferToBuffer(from: Buffer, at: number, to: Buffer, toAt: number, bytes: number): void;
    finish(): unknown;
  };
  queue: { submit(buffers: unknown[]): void; onSubmittedWorkDone(): Promise<void> };
  destroy(): void;
}

const copySource = 4;
const copyTarget = 8;
/** Bytes of the copied buffer, more than any cache of today's GPUs holds. */
const bytes = 128 << 20;
const longEnoughMs = 100;

/** Bytes read plus bytes written per second; null without an adapter. */
export async function copyBytesPerSecond(gpu: CopyingGpu | undefined): Promise<number | null> {
  const adapter = await gpu
    ?.requestAdapter({ powerPreference: "high-performance" })
    .catch(() => null);
  if (!adapter) return null;
  const device = await adapter.requestDevice();
  try {
    const [from, to] = [copySource, copyTarget].map((usage) =>
      device.createBuffer({ size: bytes, usage }),
    ) as [Buffer, Buffer];
    const copy = async (times: number): Promise<number> => {
      const started = performance.now();
      const encoder = device.createCommandEncoder();
      for (let time = 0; time < times; time++) encoder.copyBufferToBuffer(from, 0, to, 0, bytes);
      device.queue.submit([encoder.finish()]);
      await device.queue.onSubmittedWorkDone();
      return performance.now() - started;
    };
    await copy(1);
    for (let times = 1; ; times *= 4) {
      const ms = await copy(times);
      if (ms < longEnoughMs) continue;
      from.destroy();
      to.destroy();
      return (2 * bytes * times * 1000) / ms;
    }
  } finally {
    device.destroy();
  }
}
