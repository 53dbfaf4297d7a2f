/** What a run of the bench is asked for, and what it tells: the JSON that a visitor downloads. */
import type { Backend, Sampling } from "../engine.ts";
import type { GpuCounts } from "./gpu-counters.ts";
import type { BlockFormat } from "./shapes.ts";
import type { Spread } from "./statistics.ts";

/** The models of one workload: the members that come with the page, or random weights of one shape. */
export type Models = { kind: "bundled" } | { kind: "random"; shape: string; format: BlockFormat };

export interface Plan {
  backend: Backend;
  models: Models[];
  /** Sizes of ensembles. */
  ensembles: number[];
  /** Lengths of the conversation, in tokens. */
  prefixes: number[];
  /** L. */
  segmentTokens: number;
  repeats: number;
}

/** One member, alone. Times are in milliseconds. */
export interface MemberReport {
  name: string;
  prefix: number;
  prefill: { tokens: number; ms: Spread | null; tokensPerSecond: number };
  /** One decode step of a draft, and what one asks of WebGPU. */
  draftStep: { ms: Spread | null; tokensPerSecond: number; counts: GpuCounts | null; dispatchesPerLayer: number | null };
  /** A pass over the candidates of two others. */
  verify: { tokens: number; ms: Spread | null; counts: GpuCounts | null };
  /** A verify pass over as many decode steps as it has tokens. */
  verifyOverSteps: number;
}

/** An ensemble at one prefix. */
export interface RoundReport {
  members: number;
  prefix: number;
  ms: Spread | null;
  draftMs: Spread | null;
  verifyMs: Spread | null;
  /** From the question to the first segment, all of the conversation run anew. */
  firstSegmentMs: number;
  /** A round over the sum of its members' own L decode steps. */
  overSteps: number;
  /** Accepted tokens of the answer, in the winner's count. */
  tokensPerSecond: number;
  /** What a later round asks of WebGPU; null on the CPU. */
  counts: GpuCounts | null;
  gpuBytes: number | null;
}

/** One set of members, loaded together. */
export interface WorkloadReport {
  models: string;
  format: string;
  sampling: Omit<Sampling, "seed">;
  layers: number[];
  weightBytes: number;
  /** Bytes that the engine says it takes. */
  memory: { weights: number; kv: number; scratch: number };
  gpuBytes: number | null;
  loadMs: number;
  members: MemberReport[];
  rounds: RoundReport[];
}

export interface Surroundings {
  browser: string;
  cores: number;
  /** The page is alone in its process: clocks are exact to microseconds. */
  isolated: boolean;
  backend: Backend;
  adapter: { name: string; software: boolean };
  /** Bytes read and written a second when a GPU buffer is copied; null on the CPU. */
  copyBytesPerSecond: number | null;
}

export interface Report {
  made: string;
  plan: Plan;
  surroundings: Surroundings | null;
  workloads: WorkloadReport[];
  /** Why it ended before its time; the workloads up to then are whole. */
  failure?: string;
}

/** From the page to the bench's worker. */
export type BenchRequest = { type: "run"; plan: Plan };

/** From the bench's worker to the page. */
export type BenchReply =
  | { type: "surroundings"; surroundings: Surroundings }
  | { type: "progress"; what: string; done: number; total: number }
  | { type: "workload"; workload: WorkloadReport }
  | { type: "end" }
  | { type: "failed"; message: string };
