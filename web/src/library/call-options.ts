/** Options of the library's calls, with their defaults. */
import type { BackendChoice } from "../protocol/backend.ts";
import type { Core, Rule, Sampling, Settings, Thinking } from "../protocol/engine.ts";
import type { MemberSource, Progress } from "../protocol/messages.ts";
import type { ResponseFormat } from "./response-format.ts";

/** Options for starting an engine. */
export interface OpenOptions {
  /** `auto` (the default) uses WebGPU if there is a hardware adapter, else the CPU. */
  backend?: BackendChoice;
  /** Hub for `hf:` references instead of huggingface.co, such as a mirror. */
  hub?: string;
  /**
   * Limit on the threads of the CPU backend; the number of cores by default. Each member has a
   * thread; in a cross-origin isolated page the remaining threads help them. With 1, all members
   * run in turn in one worker.
   */
  threads?: number;
  /**
   * Inference core: `fused` (this engine's own kernels) or `burn` (the open core: the same decoder
   * in burn tensor operations, a separate module fetched for the first member that needs it, whose
   * members share one thread). Both can take part in one ensemble. By default a member runs on the
   * fused core, or on the open one if the fused core does not support its model; with a core named
   * here, loading fails instead. A member's own `core` takes precedence. `About` reports the
   * core in use.
   */
  core?: Core;
  /**
   * Keeps the members' state after reading a system prompt in the origin's private files, so that
   * the next visit need not read it again (the default); without a system prompt, the state after
   * the chat template's preamble. The state depends on that text alone, never on a question or an
   * answer; see `Conclave.deletePrompts`.
   */
  keepPrompts?: boolean;
  /**
   * Address of a folder with the package's files in the package's layout, on this origin or on
   * another that allows it by CORS. By default they lie beside the scripts. A relative address is
   * resolved once, by the document's base.
   */
  assets?: string | URL;
  /** Aborts the start or the loading. */
  signal?: AbortSignal;
}

/** Options for loading a member. */
export interface AddOptions {
  /** Context size in the member's tokens; at most the size that the model was trained for. */
  contextTokens?: number;
  /** Name of a present member that the new one replaces once it is loaded. */
  replace?: string;
  /** Called with the progress of each member. */
  onProgress?: (progress: Progress & { member: string }) => void;
  /** Aborts the download or the loading; downloaded data is kept. */
  signal?: AbortSignal;
}

/** Options for keeping picked files. */
export interface KeepOptions {
  /** Called with the progress of the copy. */
  onProgress?: (progress: Progress) => void;
  /** Aborts the copy; nothing of it is kept. */
  signal?: AbortSignal;
}

/** Options for starting an engine and loading its members. */
export interface LoadOptions extends OpenOptions, Omit<AddOptions, "replace"> {
  /** The members, or the address of a list of them; the bundled members by default. */
  members?: MemberSource[] | string | URL;
  /**
   * Called with the progress of the load, from 0 to 1, over the engine's module, the downloads and
   * their transfer to the engine. It never falls, is reported at most ten times a second, and is 1
   * once everything is loaded.
   */
  onShare?: (share: number) => void;
}

/** Options for answering a question. */
export interface AskOptions {
  /** Stops the answer; the text so far is kept, and the last event says `stopped`. */
  signal?: AbortSignal;
  /**
   * A preset of all settings: `harmonic` (the default, best where measured); `leader`, the same,
   * but one member drafts for all while no member doubts it; `paper`, the method as published.
   */
  rule?: Rule;
  /** Changes to the rule's settings (`Conclave.rules`). */
  settings?: Partial<Settings>;
  /** Changes to `defaultSampling`; without a seed each answer uses a new one. */
  sampling?: Partial<Sampling>;
  /** Names of the members that take part; all by default. */
  members?: string[];
  /**
   * Lets members that can think do so before they answer: `off` (the default), `on`, or `auto`, as
   * each model's chat template decides. Thoughts are reported as events. Each stays with its
   * member: it is not part of the answer nor of the next question, and no other member sees it.
   */
  thinking?: Thinking;
  /**
   * Maximum number of tokens of the answer, each segment counted by its writer's tokenizer; the
   * answer then ends as `tokens`.
   */
  maxTokens?: number;
  /**
   * Texts that end the answer, as `stop`, and are left out of it. Text that could begin one is
   * reported a round later, or in `end`.
   */
  stop?: string[];
  /**
   * Handling of a conversation too long for a member: `error` (the default) throws ContextFull;
   * `drop-oldest` leaves out the oldest questions with their answers until the answer has a quarter
   * of the context (or `maxTokens`, if less). The system message and the last question are always
   * kept. `begin` reports the number of messages left out.
   */
  overflow?: "error" | "drop-oldest";
  /**
   * Form of the whole answer: `text` (the default), `json_object`, or `json_schema` with a
   * `schema`. The module that constrains members is fetched for the first such answer. Throws
   * Settings for an unsupported schema, with the part of it and the reason. On the GPU every token
   * then waits for the CPU.
   */
  responseFormat?: ResponseFormat;
  /**
   * Segments of an answer that was broken off: of each `round` the winner's `text` and `tokens`, in
   * order. The answer continues after them; they count towards its limits and are part of the text
   * that `end` reports.
   */
  accepted?: { text: string; tokens: number }[];
  /**
   * Reports a `draft` for each draft as it arrives and a `vote` when all are there, before the
   * `round` that they become. Off by default.
   */
  drafts?: boolean;
}

/** Options for a conversation whose rounds the caller drives. */
export type BeginOptions = Pick<
  AskOptions,
  "signal" | "rule" | "settings" | "sampling" | "members" | "responseFormat"
>;

/** Options for measuring a conversation. */
export interface MeasureOptions {
  /** Names of the members to measure with; all by default. */
  members?: string[];
  /** As in {@link AskOptions}. */
  thinking?: Thinking;
}

/** Default context size of `add` and `load`, in a member's tokens. */
export const defaultContextTokens = 1024;
