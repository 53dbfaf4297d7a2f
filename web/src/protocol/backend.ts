/**
 * Choice of backend and core. WebGPU is only worth it with a hardware adapter: on a software
 * adapter the same rounds are hundreds of times slower than on the CPU backend in wasm SIMD.
 */
import type { Backend, Core } from "./engine.ts";
import { NoGpu } from "./errors.ts";

/** The caller's choice; `auto` uses WebGPU if there is a hardware adapter. */
export type BackendChoice = Backend | "auto";

/** The part of `navigator.gpu` that the choice needs. */
export interface Gpu {
  requestAdapter(options?: { powerPreference?: "high-performance" }): Promise<GpuAdapter | null>;
}
export interface GpuAdapter {
  readonly isFallbackAdapter?: boolean;
  readonly info?: {
    readonly vendor?: string;
    readonly architecture?: string;
    readonly device?: string;
    readonly description?: string;
    readonly isFallbackAdapter?: boolean;
  };
}

/** The chosen backend, and the reason for display. */
export interface Choice {
  backend: Backend;
  why: string;
  /** The browser's description of the adapter; the engine's wgpu gets no name in a browser. */
  adapter?: { name: string; software: boolean };
}

const softwareNames = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b|software/i;

/** Whether an adapter is emulated on the CPU, by the flags and names that browsers give. */
export function isSoftware(adapter: GpuAdapter): boolean {
  const info = adapter.info;
  if (adapter.isFallbackAdapter || info?.isFallbackAdapter) return true;
  return softwareNames.test(
    [info?.vendor, info?.architecture, info?.device, info?.description].join(" "),
  );
}

/** The adapter's name, if the browser gives one. */
export function adapterName({ info }: GpuAdapter): string {
  if (info?.description) return info.description;
  return (
    [info?.vendor, info?.architecture, info?.device].filter(Boolean).join(" ") || "unnamed adapter"
  );
}

/** Resolves `auto`. Throws {@link NoGpu} only if `webgpu` was requested and there is none. */
export async function chooseBackend(wanted: BackendChoice, gpu: Gpu | undefined): Promise<Choice> {
  if (wanted === "cpu") return { backend: "cpu", why: "the CPU was chosen" };
  if (!gpu) {
    if (wanted === "webgpu")
      throw new NoGpu(
        "This browser offers no WebGPU. Take the CPU backend, or a browser with WebGPU.",
      );
    return { backend: "cpu", why: "this browser offers no WebGPU" };
  }
  // Some browsers throw instead of returning null.
  const adapter = await gpu
    .requestAdapter({ powerPreference: "high-performance" })
    .catch(() => null);
  if (!adapter) {
    if (wanted === "webgpu")
      throw new NoGpu(
        "WebGPU found no adapter. Take the CPU backend, " +
          "or allow hardware acceleration in the browser's settings.",
      );
    return { backend: "cpu", why: "WebGPU found no graphics adapter" };
  }
  const software = isSoftware(adapter);
  const description = { name: adapterName(adapter), software };
  if (software) {
    if (wanted === "webgpu")
      return {
        backend: "webgpu",
        why: "WebGPU was chosen, on a software adapter",
        adapter: description,
      };
    return {
      backend: "cpu",
      why: "WebGPU has only a software adapter here, which is far slower than the CPU backend",
    };
  }
  return {
    backend: "webgpu",
    why: wanted === "webgpu" ? "WebGPU was chosen" : "a graphics adapter was found",
    adapter: description,
  };
}

/** The choice in a page's address (`?backend=`) or an attribute; unknown values mean `auto`. */
export function backendNamed(value: string | null): BackendChoice {
  return value === "cpu" || value === "webgpu" ? value : "auto";
}

/** The core in an address (`?core=`) or an attribute; unknown values are ignored. */
export function coreNamed(value: string | null): Core | undefined {
  return value === "fused" || value === "burn" ? value : undefined;
}
