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

/** Maximum number of members. */
export const mostMembers = 8;

/** Share of a member's context that is left for the answer. */
export const forAnswer = 1 / 4;

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

/** Host and capabilities of a member on a server, or of the browser's own language model. */
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
  /** Host and capabilities, if it is on a server or in the browser itself. */
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
  /** Prefix of the system prompt of the last `systemKey`, once a conversation has begun with it. */
  giveSystem(): Promise<Uint8Array | undefined>;
  /**
   * Imports a prefix that `giveSystem` returned, for conversations that begin with its system
   * prompt. Throws if it is invalid or another model's.
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
   * Undefined if it abstains: it only judges, or is late. With a second draft if the probabilities
   * of two tokens differ by less than `branch`. A member that waits for a server obeys the signal;
   * others end at once.
   */
  draft(
    maxTokens: number,
    branch?: number,
    novel?: boolean,
    signal?: AbortSignal,
  ): Promise<Draft | undefined>;
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
  draft(maxTokens: number, branch?: number, novel?: boolean): Promise<Draft>;
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

/** Options of an answer; lists are by member. */
export interface RoundsOptions {
  settings: Settings;
  /** Strength in a vote, NaN if unknown. */
  strengths: number[];
  /** Whether each member is a chat model; the others are base models. */
  chats: boolean[];
  /** Texts of the conversation's turns, the last being the question. */
  turns: string[];
  /**
   * Limits of the answer: its maximum number of tokens, each segment counted in its writer's own
   * tokenisation, and the texts that stop it.
   */
  limits: { tokens?: number | undefined; stop?: readonly string[] };
  /** Whether members share a GPU, whose errors may surface in another member's move. */
  onOneDevice: boolean;
}

/** A member that failed, by index. */
export interface Failure {
  member: number;
  kind: "contextFull" | "device" | "other";
}

/** Next task of the members, which are indices. */
export type RoundsMove =
  | {
      kind: "draft";
      members: number[];
      tokens: number;
      branch: number;
      novel: boolean;
      inTurn: boolean;
    }
  | { kind: "verify"; members: number[]; candidates: Candidate[]; inTurn: boolean }
  | { kind: "keep"; members: number[]; winner: number; inTurn?: false }
  | { kind: "round"; round: RoundReport }
  | { kind: "leave"; member: number; round: number }
  | { kind: "fail"; member: number }
  | { kind: "done"; stop: Stop };

/**
 * Results of the last move. A member that abstains has an undefined draft and an empty row of
 * scores.
 */
export type RoundsEvent =
  | { begun: { drafts: boolean[]; failed: Failure[] } }
  | { drafted: (Draft | undefined)[] }
  | { verified: VerifiedScore[][] }
  | { failed: Failure[] }
  | "kept"
  | "next"
  | "stopped";

/** The rounds of one answer as a state machine (crates/ensemble). */
export interface Rounds {
  next(event: RoundsEvent): RoundsMove;
  /**
   * Adds a segment that was accepted earlier, before the first move. Returns the text that is now
   * final.
   */
  resume(text: string, tokens: number): string;
  /** Weights of the active members. */
  weights(): Iterable<number>;
  /** Tokens of the accepted segments, each in its writer's own tokenisation. */
  tokens(): number;
  /**
   * Takes the accepted text that is withheld because it may begin a stop text. After the end of the
   * answer this text belongs to it.
   */
  rest(): string;
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
  /**
   * Loads a member from `files`, which are read by ranges. `onProgress` is called with the bytes of
   * weights in place.
   */
  load(
    name: string,
    files: ModelFiles,
    options: LoadOptions,
    onProgress: (loaded: number, total: number) => void,
  ): Promise<ModuleMember>;
  /** Reason why the GPU device is lost; undefined while it works. */
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
  /**
   * `choices`: kernel choices that an earlier engine on the same adapter reported. With them the
   * engine skips the measurement.
   */
  Engine: { create(backend: Backend, choices?: Choices): Promise<FusedEngine> };
  Rounds: new (options: RoundsOptions) => Rounds;
  rules(): Rules;
  ranges(): Ranges;
  /** Version of the kernels. */
  kernelsVersion(): string;
  /**
   * Computes parts of products on shared memory, until there are none for a while, or the first
   * number of `wanted` is not above the calling helper's `number`.
   */
  help(wanted: Int32Array<SharedArrayBuffer>, number: number): void;
  /** Must be called when `help` has trapped: members that wait for it fail. */
  helpTrapped(): void;
}

/** The open core's module: engines and members only. */
export type BurnModule = CoreModule;

/**
 * The grammar module (feature `grammar` of crates/wasm), fetched for the first answer with a form.
 * Its errors are named Settings.
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

/** Response to a request, or the reason why there is none. `retryAfter` in ms. */
export type Sent =
  | { status: number; retryAfter?: number | undefined; body: Uint8Array }
  | { failed: "late" | "stopped" | "large" | "passing"; why?: string };

/** Sends the requests of one move; a rejection stops the move. */
export interface Wire {
  /** GET without a `body`, else POST of JSON; within `ms`, and of at most `mostBytes`. */
  send(
    url: string,
    body: string | undefined,
    authorization: string | undefined,
    ms: number,
    mostBytes: number,
  ): Promise<Sent>;
  pause(ms: number): Promise<void>;
}

/**
 * The module of remote members (feature `remote` of crates/wasm), fetched when the first is added.
 * Structured values are JSON. Its errors are named Remote, ContextFull, Settings or
 * Reference.
 */
export interface RemoteModule {
  default(input: { module_or_path: WebAssembly.Module }): Promise<unknown>;
  RemoteMember: { connect(options: string, wire: Wire): Promise<RemoteConversation> };
}

/** A server's model in a conversation. A move is undefined if the member abstains. */
export interface RemoteConversation {
  about(): string;
  /** `drawing`: `options` by their names in requests, and a `seed`. */
  begin(messages: string, drawing: string, onlyJudges: boolean): void;
  /** Has the server render the conversation, which the first move does otherwise. */
  read(wire: Wire): Promise<void>;
  draft(tokens: number, wire: Wire): Promise<string | undefined>;
  verify(candidates: string, scoreEnd: boolean, wire: Wire): Promise<string | undefined>;
  keep(winner: number): void;
  /** Appends a segment that was accepted earlier. */
  take(text: string): void;
  release(): void;
  free(): void;
}
