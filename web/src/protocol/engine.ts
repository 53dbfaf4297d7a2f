/**
 * TypeScript interface of the engine (crates/wasm): a member's moves, the method's state for one
 * query, and the modules that implement them. Names follow the paper; the data types come from Rust
 * (generated.ts).
 */

import type {
  Adapter,
  Begun,
  Candidate,
  Choices,
  Chosen,
  Counters,
  Draft,
  Feedback,
  LoadOptions,
  Message,
  ModelAbout,
  Rule,
  Sampling,
  Score,
  Selection,
  SettingRange,
  Settings,
  Thinking,
  Thought,
  VerifiedScore,
} from "./generated.ts";
import type { ModelFiles } from "./model-files.ts";
import type { Capability } from "./remote.ts";

export type * from "./generated.ts";

/** Maximum number of members. */
export const mostMembers = 8;

/** Backend of the members: WGSL kernels on the GPU, or wasm SIMD on the CPU. */
export type Backend = "webgpu" | "cpu";

/**
 * Implementation of a member's decoder. `fused`: our WGSL kernels on the GPU, our products on the
 * CPU. `burn`: the open core, the decoder in burn tensor operations; a separate module, fetched
 * only when needed.
 */
export type Core = "fused" | "burn";
export const defaultCore: Core = "fused";

/** The settings of every rule. */
export type Rules = Record<Rule, Settings>;
export const defaultRule: Rule = "harmonic";
/** Valid range of each numeric setting, by its name: `exit.warmup` for `warmup` in `exit`. */
export type Ranges = Record<string, SettingRange>;

/** Host and capabilities of a member behind a server, or of the browser's own language model. */
export interface RemoteAbout {
  /** Host that receives questions and answers; empty for the browser's own. */
  host: string;
  /** The server's name for it. */
  model: string;
  can: Capability;
  /** Reason for limited capabilities; empty if there is no limit. */
  note: string;
}

/** Description of a loaded member, with its core. */
export interface About extends ModelAbout {
  /** Undefined for a member on a server or the browser's own. */
  core?: Core;
  /** Set for a member on a server or the browser's own. */
  remote?: RemoteAbout;
}

/**
 * Called after each step with the number of tokens read and their total. The next step awaits the
 * result; `false` stops.
 */
export type OnReading = (done: number, total: number) => boolean | Promise<boolean>;

/** Called with new text of a thought. Thinking awaits the result; `false` stops. */
export type OnThinking = (text: string) => boolean | Promise<boolean>;

export type MaybePromise<T> = T | Promise<T>;
/** Constraint of an answer: a JSON document of this schema (JSON text), by this grammar module. */
export interface Form {
  compiled: WebAssembly.Module;
  schema: string;
}

/** One model and its conversation. Calls to a member must not overlap. */
export interface Member {
  readonly name: string;
  /** Host and capabilities, if it is behind a server or in the browser itself. */
  readonly remote?: RemoteAbout | undefined;
  /** Whether it drafts nothing in the current answer; undefined if it drafts. */
  readonly onlyJudges?: boolean | undefined;
  about(): ModelAbout;
  /**
   * Number of tokens of a conversation begun with `thinking` (`off`); runs nothing. Throws
   * ContextFull if it has no room for them.
   */
  measure(messages: Message[], thinking?: Thinking): Promise<number>;
  /**
   * Key of this model together with the conversation's system prompt (or the template's own
   * preamble) as it reads it; undefined if that is not worth keeping. Afterwards `giveSystem`
   * returns that prompt's prefix.
   */
  systemKey(messages: Message[]): MaybePromise<Uint8Array | undefined>;
  /** Prefix of that system prompt, once a conversation has begun with it. */
  giveSystem(): Promise<Uint8Array | undefined>;
  /**
   * Imports such a prefix, for conversations that begin with it. Throws if it is invalid or another
   * model's.
   */
  takePrefix(prefix: Uint8Array): MaybePromise<void>;
  /**
   * Sets the conversation; of the `prefix` tokens only `run` are new to the KV cache. Members with
   * the same seed draw different numbers by their `stream`. Tokens read before a stop are kept:
   * repeating the call runs only the rest. Drafts conform to `form`, if given; a member that can't
   * be constrained only judges that answer.
   */
  begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    onReading?: OnReading,
    form?: Form,
  ): Promise<Begun>;
  /**
   * Thinks after the conversation, up to the limit of the last `measure`. The thought stays with
   * the member: rounds begin after it, and the next conversation is without it.
   */
  think(onThinking: OnThinking): Promise<Thought>;
  /**
   * Undefined if it abstains: it only judges, or is late. A member that waits for a server obeys
   * the signal; others end at once.
   */
  draft(maxTokens: number, signal?: AbortSignal): Promise<Draft | undefined>;
  /** A score of each candidate; none if it abstains. */
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

/** Token-by-token constraint on drafts, for one answer of one member. */
export interface Constraint {
  /**
   * Tokens that may follow the accepted text and the draft's tokens `drawn`: token t is bit t % 32
   * of word t / 32; the bit after the last token's says whether the text may end.
   */
  mask(drawn: Uint32Array): Uint32Array;
  /** Advances over a segment that all members have accepted. */
  accept(text: string): void;
}

/** A member run by an engine; never abstains. */
export interface EngineMember extends Member {
  draft(maxTokens: number): Promise<Draft>;
}

/** A member as its engine's module exports it. It takes a constraint in place of a form. */
export interface ModuleMember extends EngineMember {
  /** Constrains drafts of the answer that begins now; undefined removes the constraint. */
  constrain(constraint?: Constraint): void;
  /**
   * Texts of its tokens, for making constraints: for each a two-byte little-endian length and its
   * bytes.
   */
  vocabulary(): Uint8Array;
}

/** A member of an engine in this thread, whose numbers can be inspected. */
export interface LocalMember extends ModuleMember {
  /** Logits of the token after the text so far, one for each token of its vocabulary. */
  nextLogits(): Promise<Float32Array>;
}

/**
 * The method's state for one query (crates/ensemble): weights, exits, rounds so far. Plain lists of
 * numbers are typed arrays.
 */
export interface Query {
  active(): Iterable<number>;
  /** Index among the active members of the one that drafts alone now; undefined if all draft. */
  leader(): number | undefined;
  /**
   * Sets each member's strength before the first round, NaN if unknown, and whether it is a chat
   * model (1) or a base model (0).
   */
  trust(strengths: Float64Array, chats: Uint8Array): void;
  /**
   * Sets the texts of the conversation's turns before the first round; the last is the question.
   */
  ask(turns: string[]): void;
  /**
   * Sets the drafters of this round's candidates, as ascending indices among the active; all by
   * default.
   */
  drafted(places: Uint32Array, candidates: Candidate[]): void;
  /**
   * Whether the verifiers accept the leader's candidate as it is. `scores` has a row of one score
   * each, empty for one that abstains.
   */
  trusts(scores: Score[][]): boolean;
  /** In fast mode, the first candidate that ends the answer, which is accepted unverified. */
  fastWinner(candidates: Candidate[]): number | undefined;
  /** Shares of each verifier's row; an empty row abstains. */
  normalise(scores: Score[][]): number[][];
  feedback(shares: number[][]): Feedback;
  select(shares: number[][]): Selection;
  exit(winner: number): Iterable<number>;
  /** Removes a failed member; throws if no other would be left. */
  leave(member: number): void;
  stop(winner: Candidate): "ended" | "rounds" | "length" | "silence" | undefined;
  weights(): Iterable<number>;
  free(): void;
}

/** Loads members, wherever they run. */
export interface Loader {
  load(...asked: Parameters<Engine["load"]>): Promise<EngineMember>;
}

/** The device with its members, on either core. */
export interface Engine {
  readonly backend: Backend;
  adapter(): Adapter;
  /** Reads the files by ranges; `onProgress` is called with the bytes of weights in place. */
  load(
    name: string,
    files: ModelFiles,
    options: LoadOptions,
    onProgress: (loaded: number, total: number) => void,
  ): Promise<ModuleMember>;
  /** Why the GPU device is lost; undefined while it works. */
  lost(): string | undefined;
  free(): void;
}

/** Engine of the fused core, which launches kernels of its own. */
export interface FusedEngine extends Engine {
  /** Kernel choices in use on a GPU. */
  choices(): Chosen | undefined;
  /** Destroys the GPU device, to test recovery. */
  loseDevice(): void;
}

/** A wasm module of either core, as `wasm-bindgen --target web` writes it. */
export interface CoreModule {
  /** Starts the module, on shared memory if given; `memory` is its heap. */
  default(input: {
    module_or_path: WebAssembly.Module;
    memory?: WebAssembly.Memory;
  }): Promise<{ memory: WebAssembly.Memory }>;
  Engine: { create(backend: Backend): Promise<Engine> };
}

/** The fused core's module; includes the arithmetic of the method for any core. */
export interface EngineModule extends CoreModule {
  /** `choices`: reported by an earlier engine on the same adapter; skips the measurement. */
  Engine: { create(backend: Backend, choices?: Choices): Promise<FusedEngine> };
  Query: new (members: number, settings: Settings) => Query;
  cut(text: string, ended: boolean): string;
  rules(): Rules;
  ranges(): Ranges;
  /** Changes with the kernels. */
  kernelsVersion(): string;
  /**
   * Sets how many helpers the calling worker wants for its members' computation, on shared memory.
   */
  wantHelpers(count: number): void;
  /** Helps on shared memory; returns when more help than are wanted. */
  help(): void;
}

/** The open core's module: engines and members only. */
export type BurnModule = CoreModule;

/**
 * The grammar module (crates/wasm-grammar), fetched for the first answer with a form. Its errors
 * are named Settings.
 */
export interface GrammarModule {
  default(input: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  /** Throws for an invalid or unsupported schema. */
  check(schema: string): void;
  Vocabulary: new (written: Uint8Array) => Vocabulary;
}

/** Texts of a member's tokens, prepared for grammars. */
export interface Vocabulary {
  /** Begins a document of a schema. */
  document(schema: string): Constraint & { free(): void };
  free(): void;
}
