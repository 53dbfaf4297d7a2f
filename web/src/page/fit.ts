/**
 * Predicts whether models fit before anything is fetched: on the disk, in wasm memory, on the
 * graphics card.
 */
import type { Backend } from "../protocol/engine.ts";
import { bytes } from "./figures.ts";

export interface Machine {
  backend: Backend;
  /** Number of hardware threads: on the CPU, that many members have a wasm heap each. */
  cores: number;
  /** Bytes of storage left for this page; undefined if unknown. */
  free: number | undefined;
  /** Main memory in gigabytes from `navigator.deviceMemory`: rough, at most 8. */
  deviceMemory: number | undefined;
}

interface Need {
  /** Bytes still to be fetched that have no room of their own yet: `toReserve` of plans. */
  download: number;
  /** Bytes of memory of each model while it runs, on this backend. */
  memory: number[];
}

export interface Verdict {
  /** `no`: impossible here. `warning`: possibly. */
  tone: "no" | "warning";
  text: string;
}

/** Words for a verdict on one model. */
export const badge = (against: Verdict | undefined): string =>
  against === undefined ? "fits" : against.tone === "no" ? "too large here" : "may be too large";

/** A 32-bit wasm heap addresses 4 GiB; the engine itself takes some of it. */
const heapLimit = 2 ** 32 - 200e6;
/**
 * Total bytes of models above which the CPU is slow: it reads all of them for each token, which
 * takes a good part of a second.
 */
const slow = 1.2e9;
/** From this size on, free memory matters: many graphics cards have no more than 4 GB. */
const large = 3e9;

/** Verdict on whether the models fit this machine; undefined if they fit. */
export function verdict(need: Need, machine: Machine): Verdict | undefined {
  const running = whileRunning(need.memory, machine);
  if (running?.tone === "no") return running;
  const { free } = machine;
  if (free !== undefined && need.download > free) {
    return {
      tone: "no",
      text:
        `Too large for the storage here: ${bytes(need.download)} are yet to come, ` +
        `and the browser lets this page keep ${bytes(free)} more. ` +
        "Delete stored models, or make room on the disk.",
    };
  }
  return running;
}

function whileRunning(memory: number[], machine: Machine): Verdict | undefined {
  const all = sum(memory);
  if (machine.backend === "cpu") {
    const text = beyondTheCpu(memory, machine);
    if (text !== undefined) return { tone: "no", text };
  }
  const there = memoryGigabytes(machine);
  if (there !== undefined && all > there * 0.5e9) {
    return {
      tone: "warning",
      text:
        `May be too large: it takes ${bytes(all)} of memory, ` +
        `and this machine has about ${there} GB in all.`,
    };
  }
  if (machine.backend === "cpu") {
    if (all <= slow) return undefined;
    const free = all > large ? `Needs ${bytes(all)} of free memory. ` : "";
    return {
      tone: "warning",
      text:
        `${free}Slow on the CPU: without a graphics card ` +
        "expect a word in seconds rather than words in a second.",
    };
  }
  return all > large
    ? {
        tone: "warning",
        text:
          `Needs a graphics card with ${bytes(all)} of free memory; ` +
          "browsers don't tell how much there is.",
      }
    : undefined;
}

/** Why models can't run on the CPU here, if they can't. */
function beyondTheCpu(memory: number[], machine: Machine): string | undefined {
  const largest = Math.max(...memory);
  if (largest > heapLimit) {
    return (
      "Too large for the CPU path, where a model holds 4 GB at most: " +
      `one would take ${bytes(largest)}. Take a smaller one, or use a graphics card with WebGPU.`
    );
  }
  const fullest = fullestHeap(memory, machine.cores);
  if (fullest > heapLimit) {
    return (
      "Too large for the CPU path: there are fewer cores than models, " +
      "and those that share a thread hold 4 GB at most together, " +
      `of which they would take ${bytes(fullest)}. ` +
      "Take fewer or smaller ones, or use a graphics card with WebGPU."
    );
  }
  const there = memoryGigabytes(machine);
  const all = sum(memory);
  // The browser rounds it to a power of two.
  if (there !== undefined && all > there * 1.5e9) {
    return (
      `Too large for this machine: it takes ${bytes(all)} of memory, ` +
      `and there are about ${there} GB in all. Take fewer or smaller models.`
    );
  }
  return undefined;
}

/** Main memory in gigabytes, if the browser reports it: 8 means that or more. */
const memoryGigabytes = ({ deviceMemory }: Machine): number | undefined =>
  deviceMemory !== undefined && deviceMemory < 8 ? deviceMemory : undefined;

/**
 * Bytes in the fullest heap, if members are dealt out evenly among threads (member-threads.ts) and
 * large ones share with small ones. The order of arrival is unknown, so it may be more.
 */
function fullestHeap(memory: number[], cores: number): number {
  const heaps: number[] = Array.from({ length: cores }, () => 0);
  for (const [member, size] of [...memory].sort((a, b) => b - a).entries()) {
    const [round, place] = [Math.floor(member / cores), member % cores];
    heaps[round % 2 === 0 ? place : cores - 1 - place]! += size;
  }
  return Math.max(...heaps);
}

const sum = (numbers: number[]): number => numbers.reduce((all, number) => all + number, 0);
