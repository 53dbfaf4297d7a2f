/**
 * Runs before the engine's worker: counts its WebGPU calls and records the counts at every event it
 * posts, in `gpuSteps` for tests.
 */
import { GpuCounters, since, type GpuCounts } from "../../src/bench/gpu-counters.ts";

/** WebGPU calls since the event before. */
export interface GpuStep extends GpuCounts {
  event: string;
  liveBytes: number;
}

const scope = globalThis as unknown as { postMessage(data: unknown): void; gpuSteps: GpuStep[] };
scope.gpuSteps = [];
const counters = GpuCounters.install();
if (counters) {
  const post = scope.postMessage.bind(scope);
  let before = counters.read();
  scope.postMessage = (data) => {
    const { type, event } = data as { type: string; event?: { type: string } };
    if (type !== "progress") {
      const now = counters.read();
      scope.gpuSteps.push({
        event: event?.type ?? type,
        ...since(before, now),
        liveBytes: counters.liveBytes,
      });
      before = now;
    }
    post(data);
  };
}
