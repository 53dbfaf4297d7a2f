/** Environment of a run of the bench. */
import { adapterName, isSoftware, type Gpu } from "../protocol/backend.ts";
import type { Adapter, Backend } from "../protocol/engine.ts";
import { copyBytesPerSecond, type CopyingGpu } from "./copy-speed.ts";
import type { Surroundings } from "./report.ts";

/** `reported`: the engine's adapter; a browser may know more. */
export async function surroundings(backend: Backend, reported: Adapter): Promise<Surroundings> {
  const { userAgent, hardwareConcurrency, gpu } = navigator as Navigator & {
    gpu?: Gpu & CopyingGpu;
  };
  const found =
    backend === "webgpu"
      ? await gpu?.requestAdapter({ powerPreference: "high-performance" })
      : undefined;
  return {
    place: "page",
    browser: userAgent,
    cores: hardwareConcurrency,
    isolated: globalThis.crossOriginIsolated,
    backend,
    adapter: {
      name: found ? adapterName(found) : reported.name,
      software: reported.software || (found ? isSoftware(found) : false),
    },
    copyBytesPerSecond: backend === "webgpu" ? await copyBytesPerSecond(gpu) : null,
  };
}
