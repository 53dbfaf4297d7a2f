/**
 * What a run of the bench is asked for, and what it tells: the schema of the JSON that a visitor
 * downloads ({@link Report}), and of what `cargo xtask bench --report` keeps (a list of {@link
 * Run}). `conclave bench --json` prints `{surroundings, workload}` of the same types. Times are in
 * milliseconds, sizes in bytes; null is what is not known there.
 */
import type { Backend, Sampling } from "../protocol/engine.ts";
import type { Check } from "./check.ts";
import type { GpuCounts } from "./gpu-counters.ts";
import type { BlockFormat } from "./shapes.ts";
import type { Spread } from "./statistics.ts";

/**
 * The models of one workload: the members that come with the page, random weights of one shape, or
 * GGUF files.
 */
export type Models =
  | { kind: "bundled" }
  | { kind: "random"; shape: string; format: BlockFormat }
  | { kind: "files"; names: string[] };

/**
 * Who drafts in a round: all members, or the leader alone, whom nobody doubts here whatever it
 * says.
 */
export type Drafting = "all" | "leader";

export interface Plan {
  /** Natively `webgpu` is wgpu on any adapter. */
  backend: Backend;
  models: Models[];
  /** Sizes of ensembles. */
  ensembles: number[];
  /** Each ensemble's rounds are measured with each of these. */
  drafting: Drafting[];
  /** Lengths of the conversation, in tokens. */
  prefixes: number[];
  /** L. */
  segmentTokens: number;
  repeats: number;
  /**
   * No repeat of a measurement begins after so many seconds. Each is done at least once: where the
   * first time, which is not counted otherwise, takes longer, it is all there is, and `cold`.
   */
  limitSeconds: number;
  /** Threads on the CPU, of every engine; a page that is not isolated has one for its own. */
  threads: number;
}

/**
 * What was asked of the GPU: exact on any adapter. Natively some of the page's counts are not
 * known.
 */
export type Counts = Pick<
  GpuCounts,
  | "readbacks"
  | "readBytes"
  | "submits"
  | "passes"
  | "dispatches"
  | "writes"
  | "buffers"
  | "bindGroups"
  | "pipelines"
> &
  Partial<GpuCounts>;

/** One member, alone. */
export interface MemberReport {
  name: string;
  prefix: number;
  cold: boolean;
  prefill: { tokens: number; ms: Spread | null; tokensPerSecond: number };
  /**
   * One decode step of a draft, and what one asks of the GPU. Microseconds a dispatch are the
   * CPU's: in the page of our own code, from the first to the last WebGPU call of each task without
   * those calls; natively all until the draft first waits.
   */
  draftStep: {
    ms: Spread | null;
    tokensPerSecond: number;
    counts: Counts | null;
    dispatchesPerLayer: number | null;
    microsecondsPerDispatch: Spread | null;
  };
  /** A pass over the candidates of two others; `tokens` are those that were run. */
  verify: { tokens: number; ms: Spread | null; counts: Counts | null };
}

/** An ensemble at one prefix. */
export interface RoundReport {
  members: number;
  drafting: Drafting;
  prefix: number;
  cold: boolean;
  /**
   * A round after the first. Members draft and verify side by side, but natively on the CPU one
   * after the other.
   */
  ms: Spread | null;
  draftMs?: Spread | null;
  verifyMs?: Spread | null;
  /** From the question to the first segment, all of the conversation run anew. */
  firstSegmentMs: Spread | null;
  /** Accepted tokens of the answer, in the winner's count. */
  tokensPerSecond: number;
  /** Tokens that a member ran in a round, the mean over members and rounds. */
  tokensRun: number;
  /**
   * Those that it had to run: L − 1 where it drafted, and the candidates of the others in its own
   * count.
   */
  tokensDue: number;
  /** What a later round asks of the GPU; null on the CPU. */
  counts: Counts | null;
  gpuBytes: number | null;
}

/** A member's sizes. */
export interface Loaded {
  name: string;
  layers: number;
  /** Read of its files. */
  bytes: number;
  /**
   * What it takes on a GPU, as the engine foretells it: weights, keys and values of the context,
   * scratch.
   */
  weights: number;
  kv: number;
  scratch: number;
  /** Keys and values of one token, of all layers. */
  kvRow: number;
}

/** A ratio that means the same on every machine, and what it should be. */
export interface Figure {
  what: string;
  of: string;
  prefix: number | null;
  value: number;
  target: string;
}

/** One set of members, loaded together. */
export interface WorkloadReport {
  models: string;
  format: string;
  sampling: Omit<Sampling, "seed">;
  loaded: Loaded[];
  /** Prefixes that are too long for the context of a member; natively they are an error. */
  leftOut?: number[];
  /** In buffers once all have run. */
  gpuBytes: number | null;
  /** Taken from the driver, with what it rounds up; natively only. */
  gpuBytesReserved?: number | null;
  loadMs: number;
  members: MemberReport[];
  rounds: RoundReport[];
  /** What follows from all that: figures.ts says how. */
  figures: Figure[];
}

export interface Surroundings {
  place: "page" | "native";
  /** null natively. */
  browser: string | null;
  cores: number;
  /** The page is alone in its process: clocks are exact to microseconds. */
  isolated: boolean;
  backend: Backend;
  adapter: { name: string; software: boolean };
  /** Which kernels ran where there is a choice, in words; natively only, null on the CPU. */
  kernels?: string | null;
  /** Bytes read and written a second when a GPU buffer is copied; null on the CPU. */
  copyBytesPerSecond: number | null;
}

export interface Report {
  made: string;
  /** null where the GPU was checked and nothing measured. */
  plan: Plan | null;
  surroundings: Surroundings | null;
  workloads: WorkloadReport[];
  /** Logits by both engines, where that was asked for instead. */
  check?: Check;
  /** Why it ended before its time; the workloads up to then are whole. */
  failure?: string;
}

/** A report of what was measured. */
export type Measured = Report & { plan: Plan };

/** Another engine at one prefix. */
export interface PeerSeries {
  prefix: number;
  cold: boolean;
  prefillMs: number[];
  stepMs: number[];
  stepCounts: Counts | null;
  /** Of an ensemble's round; empty where there is one member. */
  roundMs: number[];
  roundCounts: Counts | null;
  /** How long what was cut off had taken by then. */
  atLeastMs: { prefill?: number; step?: number; round?: number };
  /** Why there is no more. */
  failure?: string;
}

/** One workload, ours and then the others'. */
export interface Run {
  turn: number;
  place: Surroundings["place"];
  ours: Measured;
  /** By engine. */
  theirs: Record<string, PeerSeries[]>;
}

/** From the page to the bench's worker. */
export type BenchRequest = { type: "run"; plan: Plan };

/** From the bench's worker to the page. */
export type BenchReply =
  | { type: "surroundings"; surroundings: Surroundings }
  | { type: "progress"; what: string; done: number; total: number }
  | { type: "workload"; workload: WorkloadReport }
  | { type: "check"; check: Check }
  | { type: "end" }
  | { type: "failed"; message: string };
