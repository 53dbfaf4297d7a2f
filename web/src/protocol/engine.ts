/**
 * What the TypeScript sees of the engine (crates/wasm): one member's moves, the method's
 * state for one query, and the modules that make them. The names are the paper's.
 */

import type { ModelFiles } from "./model-files.ts";

/** Members of an ensemble, at most. */
export const mostMembers = 8;

/** The two ways to run the members: WGSL kernels on the GPU, or wasm SIMD on the CPU. */
export type Backend = "webgpu" | "cpu";

/**
 * What a member's decoder is made of. `fused`: our WGSL kernels on the GPU, our products on the CPU.
 * `burn`: the open core, the decoder in burn tensor operations; a module of its own, which is fetched
 * only when it is needed.
 */
export type Core = "fused" | "burn";
export const defaultCore: Core = "fused";

/** One message of the conversation. */
export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

/** How a member draws its own tokens. `topK: 0` means no limit; `temperature: 0` is greedy. */
export interface Sampling {
  /** 0 to 10. */
  temperature: number;
  /** 0 to 1. */
  topP: number;
  topK: number;
  /** The same seed gives the same answer on the same device. */
  seed: number;
}

/** A segment that a member proposes. `ended`: the drafter produced an end-of-answer token after it. */
export interface Candidate {
  text: string;
  ended: boolean;
}

/**
 * A verifier's score of one candidate, over the candidate's tokens in the verifier's tokenisation: the
 * mean raw logit, the mean log-probability, and −ln Σ 1/p. Probabilities p need the whole vocabulary at
 * every token: what is made of them is there only where the scoring looks at them.
 */
export interface Score {
  meanLogit: number;
  meanLogprob?: number;
  harmonic?: number;
}

/** Members leave a query when their keep-probability falls below `threshold`/n, after `warmup` rounds. */
export interface ExitSettings {
  warmup: number;
  /** Of the softmax over members, 0 to 1000; higher is more patient. */
  temperature: number;
  /** 0 to 1. */
  threshold: number;
}

/** One member drafts alone, and all only what surprises a verifier by more than `doubt` nats. */
export interface LeaderSettings {
  /** 0 to 1000. */
  doubt: number;
}

/** The settings of the method (crates/ensemble holds their defaults). */
export interface Settings {
  /** L, the most tokens of its own that a member drafts in a round; 1 to 64. */
  segmentTokens: number;
  /** What a score is: one over the candidate's surprise, its mean raw logit (the paper's), or its mean log-probability. */
  scoring: "harmonic" | "logit" | "likelihood";
  /** Whether a candidate that ends the answer is scored on its end as well. */
  scoreEnd: boolean;
  /** What feedback rewards: the mean of the others' shares, or how often they prefer a candidate (the paper's). */
  reward: "shares" | "counts";
  /** α of the learning rate; 0 (no feedback) to 100. */
  alpha: number;
  /** The learning rate of round k among N members: α/(k√N) as the authors' code, α/(N√k) as the paper prints it, or the first with a share of each weight spread evenly. */
  rate: "code" | "printed" | "fixed-share";
  /** The share that `fixed-share` spreads; 0 to 1. The other rates ignore it. */
  fixedShare: number;
  /** Whether the weights change before or after the selection of the same round. */
  update: "before" | "after";
  /** Whether a member's vote for its own candidate counts in the selection; feedback never counts it. */
  selfVotes: boolean;
  /** Whether a verifier's shares are divided by its largest in the selection. */
  level: boolean;
  /** Null keeps every member to the end. */
  exit: ExitSettings | null;
  /** Null lets all draft in every round. */
  leader: LeaderSettings | null;
  /** Whether a candidate that ends the answer is accepted at once, unverified. */
  fast: boolean;
  /** The most rounds of an answer; 1 to 10,000. */
  maxRounds: number;
  /** The answer ends with the segment that brings it to this many characters; 1 to 1,000,000. */
  maxCharacters: number;
}

/** A preset of all settings: what does best where it was measured, the same with leader drafts, and the method as its authors published it. */
export type Rule = "harmonic" | "leader" | "paper";
/** The settings of every rule. */
export type Rules = Record<Rule, Settings>;
export const defaultRule: Rule = "harmonic";

/** What an engine says of a member that it has loaded. `parameters` and `bytes` count the file's weights. */
export interface ModelAbout {
  name: string;
  architecture: string;
  parameters: number;
  /** The format of most of the weights. */
  quantisation: string;
  bytes: number;
  /** Room for the conversation, in its tokens. */
  context: number;
  /** Tokens that it knows. */
  vocabulary: number;
  layers: number;
  /** Numbers of a hidden state. */
  hidden: number;
  /** It came with a chat template. One without is a base model as a rule: it is shown questions with their answers, and answers in one paragraph. */
  template: boolean;
  /** What the matrices of each format in the file are kept as on a GPU; null: no kernel reads them. */
  formats: { stored: string; kept: string | null }[];
  /** Bytes that it takes of a GPU's memory. */
  memory: { weights: number; kv: number; scratch: number };
}

/** What a loaded member is, and what it runs on. */
export interface About extends ModelAbout {
  core: Core;
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

/** What became of a conversation's beginning, in tokens. `stopped`: it did not come to its end. */
export interface Begun {
  prefix: number;
  run: number;
  stopped: boolean;
}

/**
 * Hears after each step how many of the conversation's tokens a member has read, and of how many.
 * The next step waits for the answer; `false` stops.
 */
export type OnReading = (done: number, total: number) => boolean | Promise<boolean>;

/**
 * Whether members that can think aloud do so before they answer; `auto`: as each model's chat
 * template has it.
 */
export type Thinking = "off" | "on" | "auto";

/** What a member thought. `text` has not the marks around it, which `tokens` count. */
export interface Thought {
  text: string;
  tokens: number;
  stopped: boolean;
}

/** Hears what a member has thought since the last time. Thinking waits for the answer; `false` stops. */
export type OnThinking = (text: string) => boolean | Promise<boolean>;

/** One model and its conversation. Every call of one member must settle before its next. */
export interface Member {
  readonly name: string;
  about(): ModelAbout;
  /**
   * Tokens of a conversation, of which nothing is run, where it is to be begun with `thinking`
   * (`off`). Throws ContextFull where it has no room for them.
   */
  measure(messages: Message[], thinking?: Thinking): Promise<number>;
  /**
   * Sets the conversation; of the `prefix` tokens only `run` are new to the KV cache. Members of one
   * seed draw different numbers by their `stream`. What was read before a stop is kept: the same
   * call again runs only the rest.
   */
  begin(messages: Message[], sampling: Sampling, stream: number, onReading?: OnReading): Promise<Begun>;
  /**
   * Thinks behind the conversation, as far as the last `measure` lets it. What it thinks is its own:
   * rounds begin behind it, and the next conversation is without it.
   */
  think(onThinking: OnThinking): Promise<Thought>;
  draft(maxTokens: number): Promise<Candidate & { tokens: number }>;
  verify(candidates: Candidate[], settings: Settings): Promise<(Score & { tokens: number })[]>;
  keep(winner: number): Promise<void>;
  counters(): Counters;
  release(): void;
  free(): void;
}

/** A member of an engine in this very thread: its numbers can be looked at. */
export interface LocalMember extends Member {
  /** Logits of the token behind the text so far, one a token of its vocabulary. */
  nextLogits(): Promise<Float32Array>;
}

/**
 * The method's state for one query (crates/ensemble): weights, exits, rounds so far. Plain lists of
 * numbers come as typed arrays.
 */
export interface Query {
  active(): Iterable<number>;
  /** The place among the active of the member that drafts alone now; undefined where all draft. */
  leader(): number | undefined;
  /** Whether all verifiers (a score each, of the leader's candidate) take it as it is. */
  trusts(scores: Score[]): boolean;
  /** In fast mode the first candidate that ends the answer, which is accepted unverified. */
  fastWinner(candidates: Candidate[]): number | undefined;
  normalise(scores: Score[][]): number[][];
  feedback(shares: number[][]): { counts: number[]; rewards: number[]; rate: number; weights: number[] };
  select(shares: number[][]): { totals: number[]; winner: number };
  exit(winner: number): Iterable<number>;
  /** Takes a member out that failed; throws where no other would be left. */
  leave(member: number): void;
  stop(winner: Candidate): string | undefined;
  weights(): Iterable<number>;
  free(): void;
}

/**
 * Which kernels a GPU launches where the faster is told by measure (crates/kernels holds their
 * meaning). `asATile` is left out where tiles have failed their self-test.
 */
export interface Choices {
  normInside: boolean;
  asATile?: number;
}

/** The device with its members, on either core. */
export interface Engine {
  readonly backend: Backend;
  adapter(): Adapter;
  /** Reads the files by ranges; `onProgress` hears the bytes of weights that are in place. */
  load(name: string, files: ModelFiles, options: LoadOptions, onProgress: (loaded: number, total: number) => void): Promise<Member>;
  /** Why the GPU device is gone; undefined while it is there. */
  lost(): string | undefined;
  free(): void;
}

/** That of the fused core, which launches kernels of its own. */
export interface FusedEngine extends Engine {
  /** Those in use on a GPU. `measured`: with its first model, or at the visit that they come from. */
  choices(): (Choices & { measured: boolean }) | undefined;
  /** Destroys the GPU device: the tests walk the recovery path with it. */
  loseDevice(): void;
}

/** What a wasm module of either core does, as `wasm-bindgen --target web` writes it. */
export interface CoreModule {
  /** Starts the module; `memory` is its heap. */
  default(input: { module_or_path: WebAssembly.Module }): Promise<{ memory: WebAssembly.Memory }>;
  Engine: { create(backend: Backend): Promise<Engine> };
}

/** The fused core's module, `pkg/conclave.js`: with the arithmetic of the method, whatever its members run on. */
export interface EngineModule extends CoreModule {
  /** `choices`: those that an earlier engine told on the same adapter; nothing is measured then. */
  Engine: { create(backend: Backend, choices?: Choices): Promise<FusedEngine> };
  Query: new (members: number, settings: Settings) => Query;
  cut(text: string, ended: boolean): string;
  rules(): Rules;
  /** Changes with the kernels. */
  kernelsVersion(): string;
}

/** The open core's module, `pkg-burn/conclave_burn.js`: engines and members, nothing else. */
export type BurnModule = CoreModule;

export interface Modules {
  fused: EngineModule;
  burn: BurnModule;
}
