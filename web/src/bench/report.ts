/**
 * Requests and reports of the bench: the schema of the JSON that a visitor downloads ({@link
 * Report}), and of what `cargo xtask bench --report` writes (a list of {@link Run}). `conclave
 * bench --json` prints `{surroundings, workload}` of the same types. Times are in milliseconds,
 * sizes in bytes; null means unknown.
 */
import type { Backend, Sampling } from "../protocol/engine.ts";
import type { Check } from "./check.ts";
import type { GpuCounts } from "./gpu-counters.ts";
import type { BlockFormat } from "./shapes.ts";
import type { Spread } from "./statistics.ts";

/** Models of one workload: the bundled members, random weights of one shape, or GGUF files. */
export type Models =
  | { kind: "bundled" }
  | { kind: "random"; shape: string; format: BlockFormat }
  | { kind: "files"; names: string[] };

/** Drafters of a round: all members, or the leader alone, which here no member doubts. */
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
  /** Segment length L: the maximum number of tokens that a member drafts in a round. */
  segmentTokens: number;
  repeats: number;
  /**
   * Time limit of a measurement in seconds: no repeat begins after it. The first run is a warm-up
   * and always runs. If it alone takes longer, it is the only run, and the result is marked `cold`.
   */
  limitSeconds: number;
  /** Threads on the CPU, of every engine; a page that is not isolated has one for its own. */
  threads: number;
}

/** GPU calls: exact on any adapter. Some of the page's counts are unknown natively. */
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
  /** Time from the question to the first token drawn. */
  firstTokenMs: Spread | null;
  /**
   * One decode step of a draft, and its GPU calls. `microsecondsPerDispatch` is CPU time. In the
   * page it is the time of our own code, from the first to the last WebGPU call of each task,
   * without the calls themselves. Natively it is all the time until the draft first waits.
   */
  draftStep: {
    ms: Spread | null;
    tokensPerSecond: number;
    counts: Counts | null;
    dispatchesPerLayer: number | null;
    microsecondsPerDispatch: Spread | null;
  };
  /** A pass over the candidates of two others; `tokens` counts those run. */
  verify: { tokens: number; ms: Spread | null; counts: Counts | null };
}

/** An ensemble at one prefix. */
export interface RoundReport {
  members: number;
  drafting: Drafting;
  prefix: number;
  cold: boolean;
  /**
   * Time of a round after the first. Members draft and verify concurrently, but one after the other
   * natively on the CPU.
   */
  ms: Spread | null;
  draftMs?: Spread | null;
  verifyMs?: Spread | null;
  /** Time from the question to the first segment, running the whole conversation. */
  firstSegmentMs: Spread | null;
  /** Accepted tokens of the answer, by the winner's tokenizer. */
  tokensPerSecond: number;
  /** Tokens that a member ran in a round, the mean over members and rounds. */
  tokensRun: number;
  /**
   * Minimum of `tokensRun`: L − 1 tokens if the member drafted, and the other members' candidates
   * in its own tokens.
   */
  tokensDue: number;
  /** GPU calls of a later round; null on the CPU. */
  counts: Counts | null;
  gpuBytes: number | null;
}

/** A member's sizes. */
export interface Loaded {
  name: string;
  layers: number;
  /** Bytes read from the model's files. */
  bytes: number;
  /** GPU memory as the engine predicts it: weights, keys and values of the context, scratch. */
  weights: number;
  kv: number;
  scratch: number;
  /** Keys and values of one token, of all layers. */
  kvRow: number;
}

/** A machine-independent ratio, and its target. */
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
  /** Prefixes too long for a member's context; natively they are an error. */
  leftOut?: number[];
  /** Bytes of all GPU buffers after every member has run. */
  gpuBytes: number | null;
  /** Bytes of GPU memory allocated from the driver, including its rounding; natively only. */
  gpuBytesReserved?: number | null;
  loadMs: number;
  members: MemberReport[];
  rounds: RoundReport[];
  /** Derived figures; see figures.ts. */
  figures: Figure[];
}

export interface Surroundings {
  place: "page" | "native";
  /** Name of the browser; null natively. */
  browser: string | null;
  cores: number;
  /** Whether the page is cross-origin isolated, with clocks exact to microseconds. */
  isolated: boolean;
  backend: Backend;
  adapter: { name: string; software: boolean };
  /** Chosen kernels, for display; natively only, null on the CPU. */
  kernels?: string | null;
  /** Bytes read and written a second when a GPU buffer is copied; null on the CPU. */
  copyBytesPerSecond: number | null;
}

export interface Report {
  made: string;
  /** The plan; null if the GPU was checked and nothing measured. */
  plan: Plan | null;
  surroundings: Surroundings | null;
  workloads: WorkloadReport[];
  /** Logits by both engines, if requested instead. */
  check?: Check;
  /** Reason of an early end; the workloads up to then are complete. */
  failure?: string;
}

/** A report of measurements. */
export type Measured = Report & { plan: Plan };

/** Times of another engine at one prefix. */
export interface PeerSeries {
  prefix: number;
  cold: boolean;
  prefillMs: number[];
  stepMs: number[];
  stepCounts: Counts | null;
  /** Times of an ensemble's rounds; empty for one member. */
  roundMs: number[];
  roundCounts: Counts | null;
  /** Time so far of a measurement that was cut off. */
  atLeastMs: { prefill?: number; step?: number; round?: number };
  /** Reason of an early end. */
  failure?: string;
}

/** One workload: our times, then those of the other engines. */
export interface Run {
  turn: number;
  place: Surroundings["place"];
  ours: Measured;
  /** Times of the other engines, by name. */
  theirs: Record<string, PeerSeries[]>;
}

/** Message from the page to the bench's worker. */
export type BenchRequest = { type: "run"; plan: Plan };

/** Message from the bench's worker to the page. */
export type BenchReply =
  | { type: "surroundings"; surroundings: Surroundings }
  | { type: "progress"; what: string; done: number; total: number }
  | { type: "workload"; workload: WorkloadReport }
  | { type: "check"; check: Check }
  | { type: "end" }
  | { type: "failed"; message: string };
