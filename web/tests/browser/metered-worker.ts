/** Runs before the engine's worker: lets a test read how many bytes of GPU memory it uses. */
import { GpuCounters } from "../../src/bench/gpu-counters.ts";

(globalThis as unknown as { gpuCounters: GpuCounters | undefined }).gpuCounters =
  GpuCounters.install();
