/** Whether models will fit, said before anything is fetched: on the disk, in wasm's memory, on the graphics card. */
import type { Backend } from "../engine.ts";
import { bytes } from "./figures.ts";

export interface Machine {
  backend: Backend;
  /** Bytes the browser still lets this page keep; undefined where it does not tell. */
  free: number | undefined;
  /** Gigabytes of main memory, as roughly as `navigator.deviceMemory` tells them: never more than 8. */
  deviceMemory: number | undefined;
}

export interface Need {
  /** Bytes yet to be fetched. */
  download: number;
  /** Bytes of memory while the models run, on this backend. */
  memory: number;
}

export interface Verdict {
  /** `no`: it can't work here. `warning`: it may not. */
  tone: "no" | "warning";
  text: string;
}

/** A 32-bit wasm module addresses 4 GiB; some of it is the engine's own. */
const wasmLimit = 2 ** 32 - 200e6;
/** From here on a graphics card is worth a look: many have no more than 4 GB. */
const large = 3e9;

/** Undefined where nothing speaks against it. */
export function verdict(need: Need, machine: Machine): Verdict | undefined {
  const running = whileRunning(need.memory, machine);
  if (running?.tone === "no") return running;
  const { free } = machine;
  if (free !== undefined && need.download > free) {
    return { tone: "no", text: `Too large for the storage here: ${bytes(need.download)} are yet to come, and the browser lets this page keep ${bytes(free)} more. Delete stored models, or make room on the disk.` };
  }
  return running;
}

function whileRunning(memory: number, { backend, deviceMemory }: Machine): Verdict | undefined {
  if (backend === "cpu" && memory > wasmLimit) {
    return { tone: "no", text: "Too large for the CPU path, which holds 4 GB at most. It needs a graphics card with WebGPU." };
  }
  if (deviceMemory !== undefined && deviceMemory < 8 && memory > deviceMemory * 0.5e9) {
    return { tone: "warning", text: `May be too large: it takes ${bytes(memory)} of memory, and this machine has about ${deviceMemory} GB in all.` };
  }
  if (backend === "cpu") return memory > 1e9 ? { tone: "warning", text: "Slow on the CPU: without a graphics card expect a word in seconds rather than words in a second." } : undefined;
  return memory > large ? { tone: "warning", text: `Needs a graphics card with ${bytes(memory)} of free memory; browsers don't tell how much there is.` } : undefined;
}
