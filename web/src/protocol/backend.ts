/**
 * Which backend the members run on, and which core. WebGPU needs a hardware adapter to be worth it:
 * on a software adapter the same rounds are hundreds of times slower than the CPU backend in wasm
 * SIMD.
 */
import type { Backend, Core } from "./engine.ts";
import { NoGpu } from "./errors.ts";

/** What the caller asks for; `auto` takes WebGPU where a hardware adapter answers. */
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

/** The backend taken, and in plain words why. */
export interface Choice {
  backend: Backend;
  why: string;
  /** What the browser tells of the adapter; the engine's own wgpu gets no name in a browser. */
  adapter?: { name: string; software: boolean };
}

const softwareNames = /swiftshader|llvmpipe|lavapipe|softpipe|basic render|\bwarp\b|software/i;

/** Whether an adapter is emulated on the CPU, going by the flags and names browsers give. */
export function isSoftware(adapter: GpuAdapter): boolean {
  const info = adapter.info;
  if (adapter.isFallbackAdapter || info?.isFallbackAdapter) return true;
  return softwareNames.test(
    [info?.vendor, info?.architecture, info?.device, info?.description].join(" "),
  );
}

/** The adapter's name, as far as the browser tells it. */
export function adapterName({ info }: GpuAdapter): string {
  if (info?.description) return info.description;
  return (
    [info?.vendor, info?.architecture, info?.device].filter(Boolean).join(" ") || "unnamed adapter"
  );
}

/**
 * Settles `auto`. Throws {@link NoGpu} only when `webgpu` was asked for by name and there is none.
 */
export async function chooseBackend(wanted: BackendChoice, gpu: Gpu | undefined): Promise<Choice> {
  if (wanted === "cpu") return { backend: "cpu", why: "the CPU was chosen" };
  if (!gpu) {
    if (wanted === "webgpu")
      throw new NoGpu(
        "This browser offers no WebGPU. Take the CPU backend, or a browser with WebGPU.",
      );
    return { backend: "cpu", why: "this browser offers no WebGPU" };
  }
  // Some browsers throw where others answer null.
  const adapter = await gpu
    .requestAdapter({ powerPreference: "high-performance" })
    .catch(() => null);
  if (!adapter) {
    if (wanted === "webgpu")
      throw new NoGpu(
        "WebGPU found no adapter. Take the CPU backend, or allow hardware acceleration in the browser's settings.",
      );
    return { backend: "cpu", why: "WebGPU found no graphics adapter" };
  }
  const software = isSoftware(adapter);
  const told = { name: adapterName(adapter), software };
  if (software) {
    if (wanted === "webgpu")
      return { backend: "webgpu", why: "WebGPU was chosen, on a software adapter", adapter: told };
    return {
      backend: "cpu",
      why: "WebGPU has only a software adapter here, which is far slower than the CPU backend",
    };
  }
  return {
    backend: "webgpu",
    why: wanted === "webgpu" ? "WebGPU was chosen" : "a graphics adapter was found",
    adapter: told,
  };
}

/** The choice a page's address (`?backend=`) or an attribute names; anything unknown is `auto`. */
export function backendNamed(value: string | null): BackendChoice {
  return value === "cpu" || value === "webgpu" ? value : "auto";
}

/**
 * The core that an address (`?core=`) or an attribute names; anything unknown is as if it were left
 * out.
 */
export function coreNamed(value: string | null): Core | undefined {
  return value === "fused" || value === "burn" ? value : undefined;
}
