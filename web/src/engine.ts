/**
 * What the TypeScript sees of the engine (crates/wasm): one member's five moves, the method's
 * state for one query, and the module that makes them. The names are the paper's.
 */

import type { ModelFiles } from "./model-files.ts";

/** The two ways to run the members: WGSL kernels on the GPU, or wasm SIMD on the CPU. */
export type Backend = "webgpu" | "cpu";

/** One turn of the conversation. */
export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** How a member draws its own tokens. `topK: 0` means no limit; `temperature: 0` is greedy. */
export interface Sampling {
  temperature: number;
  topP: number;
  topK: number;
  seed: number;
}

/** A segment that a member proposes. `ended`: the drafter produced an end-of-answer token after it. */
export interface Candidate {
  text: string;
  ended: boolean;
}

/**
 * A verifier's score of one candidate: means over the candidate's tokens in the verifier's tokenisation.
 * Log-probabilities need the whole vocabulary at every token, and are there only where the scoring looks at them.
 */
export interface Score {
  meanLogit: number;
  meanLogprob?: number;
}

/** Members leave a query when their keep-probability falls below `threshold`/n, after `warmup` rounds. */
export interface ExitSettings {
  warmup: number;
  temperature: number;
  threshold: number;
}

/** The settings of the method (crates/ensemble holds their meaning and their defaults). */
export interface Settings {
  segmentTokens: number;
  scoring: "logit" | "likelihood";
  alpha: number;
  rate: "code" | "printed" | "fixed-share";
  fixedShare: number;
  update: "before" | "after";
  selfVotes: boolean;
  exit: ExitSettings | null;
  fast: boolean;
  maxRounds: number;
  maxCharacters: number;
}

/** What a loaded member is. `parameters` and `bytes` count the file's weights. */
export interface About {
  name: string;
  architecture: string;
  parameters: number;
  quantisation: string;
  bytes: number;
  context: number;
  vocabulary: number;
  layers: number;
  hidden: number;
  /** What the matrices of each format in the file are kept as on a GPU; null: no kernel reads them. */
  formats: { stored: string; kept: string | null }[];
  /** Bytes that it takes of a GPU's memory. */
  memory: { weights: number; kv: number; scratch: number };
}

/** How a member is loaded. */
export interface LoadOptions {
  /** Room for the conversation, in the member's tokens. */
  contextTokens: number;
  /** What weights that come unquantised become; left out, they stay as they are. */
  quantise?: "Q8_0" | "Q4_0";
}

/** The adapter the engine runs on. `software`: it is emulated on the CPU. */
export interface Adapter {
  name: string;
  vendor: string;
  architecture: string;
  backend: string;
  software: boolean;
}

/** Tokens that went through a member since it was loaded; `prefix` is what it holds now. */
export interface Counters {
  prefix: number;
  prefillTokens: number;
  draftTokens: number;
  verifyTokens: number;
}

/** One model and its conversation. Every call of one member must settle before its next. */
export interface Member {
  readonly name: string;
  about(): About;
  /**
   * Sets the conversation; of the `prefix` tokens only `run` are new to the KV cache. Members of one
   * seed draw different numbers by their `stream`.
   */
  begin(messages: Message[], sampling: Sampling, stream: number): Promise<{ prefix: number; run: number }>;
  draft(maxTokens: number): Promise<Candidate & { tokens: number }>;
  verify(candidates: Candidate[], scoring: Settings["scoring"]): Promise<(Score & { tokens: number })[]>;
  keep(winner: number): Promise<void>;
  counters(): Counters;
  release(): void;
  free(): void;
}

/**
 * The method's state for one query (crates/ensemble): weights, exits, rounds so far. Plain lists of
 * numbers come as typed arrays.
 */
export interface Query {
  active(): Iterable<number>;
  normalise(scores: Score[][]): number[][];
  feedback(shares: number[][]): { counts: number[]; rewards: number[]; rate: number; weights: number[] };
  select(shares: number[][]): { totals: number[]; winner: number };
  exit(winner: number): Iterable<number>;
  stop(winner: Candidate): string | undefined;
  weights(): Iterable<number>;
  free(): void;
}

/** The device with its members. */
export interface Engine {
  readonly backend: Backend;
  adapter(): Adapter;
  /** Reads the files by ranges; `onProgress` hears the bytes of weights that are in place. */
  load(name: string, files: ModelFiles, options: LoadOptions, onProgress: (loaded: number, total: number) => void): Promise<Member>;
  lost(): string | undefined;
  /** Destroys the GPU device: the tests walk the recovery path with it. */
  loseDevice(): void;
  free(): void;
}

/** The wasm module, as `wasm-bindgen --target web` writes it to `pkg/conclave.js`. */
export interface EngineModule {
  /** Starts the module; `memory` is its heap. */
  default(input: { module_or_path: URL }): Promise<{ memory: WebAssembly.Memory }>;
  Engine: { create(backend: Backend): Promise<Engine> };
  Query: new (members: number, settings: Settings) => Query;
  cut(text: string, ended: boolean): string;
  defaultSettings(): Settings;
}
