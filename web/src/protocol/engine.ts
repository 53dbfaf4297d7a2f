/**
 * What the TypeScript sees of the engine (crates/wasm): one member's moves, the method's
 * state for one query, and the modules that make them. The names are the paper's; what crosses is
 * told by Rust (generated.ts).
 */

import type {
  Adapter,
  Begun,
  Candidate,
  Choices,
  Chosen,
  Counters,
  Draft,
  LoadOptions,
  Message,
  ModelAbout,
  RoundReport,
  Rule,
  Sampling,
  SettingRange,
  Settings,
  Stop,
  Thinking,
  Thought,
  VerifiedScore,
} from "./generated.ts";
import type { ModelFiles } from "./model-files.ts";
import type { Capability } from "./remote.ts";

export type * from "./generated.ts";

/** Members of an ensemble, at most. */
export const mostMembers = 8;

/** The two ways to run the members: WGSL kernels on the GPU, or wasm SIMD on the CPU. */
export type Backend = "webgpu" | "cpu";

/**
 * What a member's decoder is made of. `fused`: our WGSL kernels on the GPU, our products on the
 * CPU. `burn`: the open core, the decoder in burn tensor operations; a module of its own, which is
 * fetched only when it is needed.
 */
export type Core = "fused" | "burn";
export const defaultCore: Core = "fused";

/** The settings of every rule. */
export type Rules = Record<Rule, Settings>;
export const defaultRule: Rule = "harmonic";
/** What each number of the settings may be, by its name: `exit.warmup` within `exit`. */
export type Ranges = Record<string, SettingRange>;

/**
 * What a member behind a server is, or the browser's own language model: where it lives, and what
 * it can do there.
 */
export interface RemoteAbout {
  /** Who hears what is asked and answered; empty of the browser's own. */
  host: string;
  /** What the server calls it. */
  model: string;
  can: Capability;
  /** Why it can no more than that; empty where it can all. */
  note: string;
}

/** What a loaded member is, and what it runs on. */
export interface About extends ModelAbout {
  /** Left out where it runs on a server, or is the browser's own. */
  core?: Core;
  /** Where it does. */
  remote?: RemoteAbout;
}

/**
 * Hears after each step how many of the conversation's tokens a member has read, and of how many.
 * The next step waits for the answer; `false` stops.
 */
export type OnReading = (done: number, total: number) => boolean | Promise<boolean>;

/**
 * Hears what a member has thought since the last time. Thinking waits for the answer; `false`
 * stops.
 */
export type OnThinking = (text: string) => boolean | Promise<boolean>;

export type MaybePromise<T> = T | Promise<T>;
/**
 * What an answer is held to: a JSON document of this schema (JSON text), by grammars of this
 * module.
 */
export interface Form {
  compiled: WebAssembly.Module;
  schema: string;
}

/** One model and its conversation. Every call of one member must settle before its next. */
export interface Member {
  readonly name: string;
  /** Where it lives behind a server, or in the browser itself, and what it can do there. */
  readonly remote?: RemoteAbout | undefined;
  /**
   * Whether it leaves the drafting of the answer that has begun to others; left out where it
   * drafts.
   */
  readonly onlyJudges?: boolean | undefined;
  about(): ModelAbout;
  /**
   * Tokens of a conversation, of which nothing is run, where it is to be begun with `thinking`
   * (`off`). Throws ContextFull where it has no room for them.
   */
  measure(messages: Message[], thinking?: Thinking): Promise<number>;
  /**
   * What tells this model and the conversation's system prompt, or its template's own where that
   * has none, as it reads it, from all others; undefined where that is not worth keeping. From then
   * on it gives that prompt's prefix.
   */
  systemKey(messages: Message[]): MaybePromise<Uint8Array | undefined>;
  /** The prefix of that system prompt, once a conversation has begun with it. */
  giveSystem(): Promise<Uint8Array | undefined>;
  /**
   * Takes such a prefix, for conversations that begin with it. Throws where it is none, or another
   * model's.
   */
  takePrefix(prefix: Uint8Array): MaybePromise<void>;
  /**
   * Sets the conversation; of the `prefix` tokens only `run` are new to the KV cache. Members of
   * one seed draw different numbers by their `stream`. What was read before a stop is kept: the
   * same call again runs only the rest. What is drafted behind it is held to the `form`, where
   * there is one; who can't be held to any only judges that answer.
   */
  begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    onReading?: OnReading,
    form?: Form,
  ): Promise<Begun>;
  /**
   * Thinks behind the conversation, as far as the last `measure` lets it. What it thinks is its
   * own: rounds begin behind it, and the next conversation is without it.
   */
  think(onThinking: OnThinking): Promise<Thought>;
  /**
   * Undefined where it abstains: it only judges, or is late. Who waits for a server hears the
   * signal, others end at once.
   */
  draft(maxTokens: number, signal?: AbortSignal): Promise<Draft | undefined>;
  /** A score of each candidate; none where it abstains. */
  verify(
    candidates: Candidate[],
    settings: Settings,
    signal?: AbortSignal,
  ): Promise<VerifiedScore[]>;
  keep(winner: number): Promise<void>;
  counters(): Counters;
  release(): void;
  free(): void;
}

/** What drafts are held to, token by token: it follows one answer of one member. */
export interface Constraint {
  /**
   * Which tokens may follow the accepted text and those that the draft has `drawn`: of token t bit
   * t % 32 of word t / 32, and behind the last one's whether the text may end.
   */
  mask(drawn: Uint32Array): Uint32Array;
  /** Goes on behind a segment that all members have accepted. */
  accept(text: string): void;
}

/** A member that an engine runs: it abstains from nothing. */
export interface EngineMember extends Member {
  draft(maxTokens: number): Promise<Draft>;
}

/** One as its engine's module has it. It knows no form: `constrain` says what it drafts. */
export interface ModuleMember extends EngineMember {
  /**
   * Holds what it drafts to a constraint, which follows the one answer that begins now; left out,
   * to nothing.
   */
  constrain(constraint?: Constraint): void;
  /**
   * What its tokens show as, for whoever makes constraints: of each two bytes of length, the low
   * one first, and its bytes.
   */
  vocabulary(): Uint8Array;
}

/** One of an engine in this very thread: its numbers can be looked at. */
export interface LocalMember extends ModuleMember {
  /** Logits of the token behind the text so far, one a token of its vocabulary. */
  nextLogits(): Promise<Float32Array>;
}

/** What an answer of some members is asked with; lists are by member. */
export interface RoundsOptions {
  settings: Settings;
  /** Strength in a vote, NaN where nothing is known of a member. */
  strengths: number[];
  /** Whether it chats; the others are base models. */
  chats: boolean[];
  /** Texts of the conversation's turns, of which the last is the question. */
  turns: string[];
  /** Most tokens of the answer, each segment's in its writer's own; texts to stop before. */
  limits: { tokens?: number | undefined; stop?: readonly string[] };
  /** Members share a GPU, whose errors may surface at another member's move. */
  onOneDevice: boolean;
}

/** A member that failed, by index. */
export interface Failure {
  member: number;
  kind: "contextFull" | "device" | "other";
}

/** What members are to do next; they are indices. */
export type RoundsMove =
  | { kind: "draft"; members: number[]; tokens: number; inTurn: boolean }
  | { kind: "verify"; members: number[]; candidates: Candidate[]; inTurn: boolean }
  | { kind: "keep"; members: number[]; winner: number; inTurn?: false }
  | { kind: "round"; round: RoundReport }
  | { kind: "leave"; member: number; round: number }
  | { kind: "fail"; member: number }
  | { kind: "done"; stop: Stop };

/**
 * What they made of the last move: drafts, undefined of a member that abstains; rows of scores,
 * empty likewise.
 */
export type RoundsEvent =
  | { begun: { drafts: boolean[]; failed: Failure[] } }
  | { drafted: (Draft | undefined)[] }
  | { verified: VerifiedScore[][] }
  | { failed: Failure[] }
  | "kept"
  | "next"
  | "stopped";

/** The rounds of one answer as a machine of moves (crates/ensemble). */
export interface Rounds {
  next(event: RoundsEvent): RoundsMove;
  /**
   * Takes a segment that was accepted before, ahead of the first move. Returns the text that is
   * certain to be in the answer.
   */
  resume(text: string, tokens: number): string;
  /** Weights of the active members. */
  weights(): Iterable<number>;
  /** Tokens of the accepted segments, each in its writer's own. */
  tokens(): number;
  /** Takes the accepted text withheld since it may begin a stop; it is in an answer that is over. */
  rest(): string;
  free(): void;
}

/** Whoever loads members as an engine does, wherever they live. */
export interface Loader {
  load(...asked: Parameters<Engine["load"]>): Promise<EngineMember>;
}

/** The device with its members, on either core. */
export interface Engine {
  readonly backend: Backend;
  adapter(): Adapter;
  /** Reads the files by ranges; `onProgress` hears the bytes of weights that are in place. */
  load(
    name: string,
    files: ModelFiles,
    options: LoadOptions,
    onProgress: (loaded: number, total: number) => void,
  ): Promise<ModuleMember>;
  /** Why the GPU device is gone; undefined while it is there. */
  lost(): string | undefined;
  free(): void;
}

/** That of the fused core, which launches kernels of its own. */
export interface FusedEngine extends Engine {
  /** Those in use on a GPU. */
  choices(): Chosen | undefined;
  /** Destroys the GPU device: the tests walk the recovery path with it. */
  loseDevice(): void;
}

/** What a wasm module of either core does, as `wasm-bindgen --target web` writes it. */
export interface CoreModule {
  /** Starts the module, on memory that it shares where that is given; `memory` is its heap. */
  default(input: {
    module_or_path: WebAssembly.Module;
    memory?: WebAssembly.Memory;
  }): Promise<{ memory: WebAssembly.Memory }>;
  Engine: { create(backend: Backend): Promise<Engine> };
}

/** The fused core's module, with the arithmetic of the method, whatever its members run on. */
export interface EngineModule extends CoreModule {
  /** `choices`: those that an earlier engine told on the same adapter; nothing is measured then. */
  Engine: { create(backend: Backend, choices?: Choices): Promise<FusedEngine> };
  Rounds: new (options: RoundsOptions) => Rounds;
  rules(): Rules;
  ranges(): Ranges;
  /** Changes with the kernels. */
  kernelsVersion(): string;
  /**
   * How many shall `help` the worker that calls with what its members compute, where its memory is
   * shared.
   */
  wantHelpers(count: number): void;
  /** Helps on shared memory; returns when more do than are wanted. */
  help(): void;
}

/** The open core's module: engines and members, nothing else. */
export type BurnModule = CoreModule;

/**
 * The grammars' module (crates/wasm-grammar), which is fetched for the first answer that has a
 * form. What it throws is named Settings.
 */
export interface GrammarModule {
  default(input: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  /** Throws where a schema is none, or can't be honoured. */
  check(schema: string): void;
  Vocabulary: new (written: Uint8Array) => Vocabulary;
}

/** What a member's tokens show as, ready for grammars. */
export interface Vocabulary {
  /** A document of a schema, of which nothing is written yet. */
  document(schema: string): Constraint & { free(): void };
  free(): void;
}
