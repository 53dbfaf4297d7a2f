/**
 * Runs in the engine's worker before it: a test reads there how many bytes of GPU memory it has.
 */
import { GpuCounters } from "../../src/bench/gpu-counters.ts";

(globalThis as unknown as { gpuCounters: GpuCounters | undefined }).gpuCounters =
  GpuCounters.install();
