/**
 * Runs in the engine's worker before it: counts its WebGPU calls and notes the counts at every
 * event that it posts. A test reads `gpuSteps` there.
 */
import { GpuCounters, since, type GpuCounts } from "../../src/bench/gpu-counters.ts";

/** What was asked of WebGPU up to an event, since the one before. */
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
