/**
 * An ensemble with the interface of the browser's own `LanguageModel` (the Prompt API):
 *
 * ```ts
 * const LanguageModel = createLanguageModel();
 * const session = await LanguageModel.create({
 *   initialPrompts: [{ role: "system", content: "Be brief." }],
 * });
 * for await (const text of session.promptStreaming("What is 14 plus 28?")) show(text);
 * ```
 *
 * Sessions share one engine: the first `create` loads the members, and destroying the last session
 * ends them. Errors are DOMExceptions with the API's names; `cause` is this library's error, if
 * any. Only text is read and written. The following are refused with NotSupportedError: tools,
 * images and sounds, a `responseConstraint` that is a RegExp or an unsupported schema, an answer
 * begun by the caller (`prefix`), and an answer that follows a message of the assistant.
 */
import { chooseBackend, type Gpu } from "../protocol/backend.ts";
import { isCopy } from "../store/copy-reference.ts";
import { openShelfToRead } from "../store/shelf.ts";
import { isStored } from "../store/store.ts";
import { optional, type Fields } from "../protocol/check.ts";
import { forAnswer } from "../protocol/engine.ts";
import {
  Conclave,
  ConclaveError,
  isFatal,
  parseReference,
  typed,
  type LoadOptions,
  type Message,
  type Sampling,
} from "./conclave.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { downloadMonitor, reportProgress, type DownloadMonitor } from "./download-monitor.ts";
import { located } from "./engine-requests.ts";
import { Loading } from "./loading.ts";
import { callback, checkedOptions, loadFields } from "./options.ts";
import {
  exceptionOf,
  formatOf,
  joined,
  known,
  limits,
  messagesOf,
  needFields,
  promptFields,
  refuseNeeds,
  samplingOf,
  sessionFields,
  signalFields,
  unsupported,
} from "./prompt-arguments.ts";

/**
 * Whether a session can be made: at once, after a download, while one is under way, or not at all.
 */
export type Availability = "unavailable" | "downloadable" | "downloading" | "available";

/** Part of a message; `value` is a string, and types other than text are refused. */
export interface PromptPart {
  type: "text" | "image" | "audio";
  value: unknown;
}

/** A message of a conversation. A system message can only be the first. */
export interface PromptMessage {
  role: "system" | "user" | "assistant";
  content: string | PromptPart[];
  /** Must not be true: members draft an answer from its first word. */
  prefix?: boolean;
}

/** A question: messages, or a text of the user's. */
export type PromptInput = string | PromptMessage[];

/** Expected input or output. Any language is accepted, since the members' languages are unknown. */
export interface ExpectedContent {
  type: "text" | "image" | "audio";
  languages?: string[];
}

/** Capabilities that a session must have. */
export interface SessionNeeds {
  expectedInputs?: ExpectedContent[];
  expectedOutputs?: ExpectedContent[];
  /** Must be empty: tools are not supported. */
  tools?: object[];
  /** Temperature of the draws; at least 0. Values above 10 mean 10. */
  temperature?: number;
  /** Number of likeliest tokens to draw from: at least 1; fractions are truncated. */
  topK?: number;
  /** `balanced` is the usual sampling; others are refused: set a `temperature`. */
  samplingMode?: string;
}

export type { DownloadMonitor };

/** Options for making a session. */
export interface SessionOptions extends SessionNeeds {
  /** Messages that the conversation begins with; never left out for lack of room. */
  initialPrompts?: PromptMessage[];
  /** Called with an object that reports the progress of the download. */
  monitor?: (monitor: DownloadMonitor) => void;
  /** Aborts `create`, and destroys the session afterwards. */
  signal?: AbortSignal;
}

/** Options for a question. */
export interface PromptOptions {
  /** Stops the answer and removes the question from the conversation. */
  signal?: AbortSignal;
  /**
   * A JSON schema that the answer conforms to, unless a limit ends it early. A RegExp is refused.
   */
  responseConstraint?: object;
  /** Ignored: members never read the schema. */
  omitResponseConstraintInput?: boolean;
}

/** Default and maximum sampling parameters. */
export interface SamplingLimits {
  defaultTopK: number;
  maxTopK: number;
  defaultTemperature: number;
  maxTemperature: number;
}

/** Options for loading the members that all sessions share. */
export interface LanguageModelOptions extends LoadOptions {
  /** Replaces `Conclave.load`. Its result is closed with the last session. */
  load?: (options: LoadOptions) => Promise<Conclave>;
}

/** The interface of the global `LanguageModel`. */
export interface ConclaveLanguageModel {
  /**
   * Whether `create` with the same options would succeed: `available` if no model has to be
   * downloaded (files beside the page, such as the bundled members, count as present). Starts no
   * engine and asks no host.
   */
  availability(options?: SessionNeeds): Promise<Availability>;
  /**
   * Makes a session; the first one loads the members. Rejects with NotSupportedError, NetworkError,
   * OperationError, QuotaExceededError, AbortError.
   */
  create(options?: SessionOptions): Promise<LanguageModelSession>;
  /** Default and maximum sampling parameters. */
  params(): Promise<SamplingLimits>;
}

/** Makes a counterpart of the global `LanguageModel` whose sessions these members answer. */
export function createLanguageModel(options: LanguageModelOptions = {}): ConclaveLanguageModel {
  const valid = checkedOptions("createLanguageModel", options, {
    ...loadFields,
    load: optional(callback<NonNullable<LanguageModelOptions["load"]>>()),
  }) as LanguageModelOptions;
  // A server has no base for relative addresses, and loads no members.
  const { load = (options: LoadOptions) => Conclave.load(options), ...loadOptions } =
    globalThis.location ? located(valid) : valid;
  let current: Ensemble | undefined;
  const enter = (): Ensemble => {
    if (!current) {
      const entered = new Ensemble(load, loadOptions, () => {
        if (current === entered) current = undefined;
      });
      current = entered;
    }
    current.enter();
    return current;
  };
  return {
    async availability(sessionNeeds) {
      try {
        const needs = known("availability", sessionNeeds, needFields) as SessionNeeds;
        samplingOf(needs);
        refuseNeeds(needs);
      } catch (error) {
        if (error instanceof DOMException) return "unavailable";
        throw error;
      }
      return current?.availability ?? availabilityOf(options);
    },
    async create(sessionOptions) {
      const wanted = known("create", sessionOptions, sessionFields) as SessionOptions;
      refuseNeeds(wanted);
      const { initialPrompts = [], monitor, signal = new AbortController().signal } = wanted;
      const sampling = samplingOf(wanted);
      const initial = initialPrompts.length === 0 ? [] : messagesOf(initialPrompts, false);
      signal.throwIfAborted();
      const downloads = downloadMonitor();
      monitor?.(downloads);
      const ensemble = enter();
      try {
        ensemble.follow(downloads);
        const conclave = await unlessAborted(ensemble.conclave, signal);
        const { usage } = await unlessAborted(fillOf(conclave, initial), signal);
        if (ensemble.share < 1) reportProgress(downloads, 1);
        // A listener may have aborted.
        signal.throwIfAborted();
        const session = new LanguageModelSession(
          { ensemble, conclave, sampling },
          { messages: initial, initial: initial.length, usage },
        );
        signal.addEventListener("abort", () => session.destroy(signal.reason), { once: true });
        return session;
      } catch (error) {
        ensemble.leave();
        throw exceptionOf(error);
      } finally {
        ensemble.unfollow(downloads);
      }
    },
    params: async () => ({ ...limits }),
  };
}

/**
 * Members shared by several sessions, from the first that waits for them until the last is
 * destroyed.
 */
class Ensemble {
  availability: Availability = "downloading";
  readonly conclave: Promise<Conclave>;
  readonly #loading: Loading;
  readonly #onEnd: () => void;
  readonly #monitors = new Set<DownloadMonitor>();
  /** Share of the load, from 0 to 1. */
  share = 0;
  #sessions = 0;

  constructor(
    load: (options: LoadOptions) => Promise<Conclave>,
    options: LoadOptions,
    onEnd: () => void,
  ) {
    this.#onEnd = onEnd;
    this.#loading = new Loading(load, options, (share) => {
      if (share <= this.share) return;
      this.share = share;
      for (const monitor of this.#monitors) reportProgress(monitor, share);
    });
    this.conclave = this.#loading.conclave.then((conclave) => {
      this.availability = "available";
      return conclave;
    });
    this.conclave.catch(() => this.end());
  }

  follow(monitor: DownloadMonitor): void {
    this.#monitors.add(monitor);
    reportProgress(monitor, 0);
    if (this.share > 0) reportProgress(monitor, this.share);
  }

  unfollow(monitor: DownloadMonitor): void {
    this.#monitors.delete(monitor);
  }

  enter(): void {
    this.#sessions++;
  }

  leave(): void {
    if (--this.#sessions === 0) this.end();
  }

  /** Makes the next session load members again. */
  end(): void {
    this.#onEnd();
    this.#loading.close();
  }
}

/** State that a session shares with its clones. */
interface Shared {
  ensemble: Ensemble;
  conclave: Conclave;
  sampling: Pick<Sampling, "temperature" | "topK">;
}

/** State of a conversation. */
interface State {
  messages: readonly Message[];
  /** Number of messages that the session was made with. */
  initial: number;
  /** Tokens used in the context window. */
  usage: number;
}

/** Tokens that the conversation may have, by the member with the least room. */
const windowOf = ({ members }: Conclave): number =>
  Math.min(...members.map(({ context }) => context));

/** How full a conversation makes the members' contexts. */
interface Fill {
  /** Tokens of the context window, by the fullest member. */
  usage: number;
  /** Whether an answer has a quarter of each context. */
  roomy: boolean;
}

async function fillOf(conclave: Conclave, messages: readonly Message[]): Promise<Fill> {
  if (messages.length === 0) return { usage: 0, roomy: true };
  // Chat templates only know conversations that end with a question.
  const asked: readonly Message[] =
    messages.at(-1)?.role === "user" ? messages : [...messages, { role: "user", content: "" }];
  const measured = await conclave.measure(joined(asked));
  const fullest = Math.max(...measured.map(({ tokens, room }) => tokens / room));
  return {
    usage: Math.ceil(fullest * windowOf(conclave)),
    // A server that reports no context has a room of 0.
    roomy: measured.every(({ tokens, room }) => room === 0 || tokens + room * forAnswer <= room),
  };
}

/**
 * A conversation. Its methods reject with NotSupportedError for unsupported requests,
 * QuotaExceededError if the members have no room, InvalidStateError after `destroy`, AbortError if
 * destroyed or aborted meanwhile, and OperationError if the engine fails. A request during another
 * answer waits for it.
 */
class LanguageModelSession extends EventTarget {
  /**
   * Dispatched as `contextoverflow`, and by its older name as `quotaoverflow`, when the oldest
   * questions and answers were left out for lack of room.
   */
  oncontextoverflow: ((event: Event) => void) | null = null;
  onquotaoverflow: ((event: Event) => void) | null = null;
  readonly #shared: Shared;
  readonly #destruction = new AbortController();
  #state: State;
  #queue: Promise<unknown> = Promise.resolve();

  /** @internal Made by `create` and `clone`. */
  constructor(shared: Shared, state: State) {
    super();
    this.#shared = shared;
    this.#state = state;
  }

  /** Tokens that the conversation may have, by the member with the least room. */
  get contextWindow(): number {
    return windowOf(this.#shared.conclave);
  }

  /** Tokens of `contextWindow` that the conversation uses, by the fullest member. */
  get contextUsage(): number {
    return this.#state.usage;
  }

  /** Older name of `contextWindow`. */
  get inputQuota(): number {
    return this.contextWindow;
  }

  /** Older name of `contextUsage`. */
  get inputUsage(): number {
    return this.contextUsage;
  }

  get temperature(): number {
    return this.#shared.sampling.temperature;
  }

  get topK(): number {
    return this.#shared.sampling.topK || limits.maxTopK;
  }

  /** Answers, and adds the question and the answer to the conversation. */
  async prompt(input: PromptInput, options: PromptOptions = {}): Promise<string> {
    let answer = "";
    await this.#answer(input, options, (text) => {
      answer += text;
    });
    return answer;
  }

  /** Answers as `prompt` does, in pieces: each is a segment that the members selected. */
  promptStreaming(input: PromptInput, options: PromptOptions = {}): ReadableStream<string> {
    const cancelled = new AbortController();
    return new ReadableStream<string>({
      start: async (controller) => {
        const { signal } = known("promptStreaming", options, promptFields) as PromptOptions;
        await this.#answer(
          input,
          {
            ...options,
            signal: signal ? AbortSignal.any([signal, cancelled.signal]) : cancelled.signal,
          },
          (text) => {
            if (!cancelled.signal.aborted) controller.enqueue(text);
          },
        );
        controller.close();
      },
      cancel: (reason) => cancelled.abort(reason),
    });
  }

  /** Adds to the conversation without an answer. The members read it with the next question. */
  append(input: PromptInput, options: Pick<PromptOptions, "signal"> = {}): Promise<undefined> {
    return this.#inTurn("append", options, signalFields, async (signal) => {
      const kept = await this.#fitting(messagesOf(input, this.#state.messages.length > 0), "added");
      signal.throwIfAborted();
      this.#state = { ...this.#state, ...kept };
      return undefined;
    });
  }

  /**
   * Tokens of `contextWindow` that a question takes by itself, with the chat template's additions.
   * Rejects with QuotaExceededError if it is too long for a member.
   */
  async measureContextUsage(input: PromptInput, options: PromptOptions = {}): Promise<number> {
    options = known("measureContextUsage", options, promptFields) as PromptOptions;
    formatOf(options);
    this.#refuseDestroyed();
    const measuring = fillOf(this.#shared.conclave, messagesOf(input, false));
    const { usage } = await unlessAborted(measuring, this.#until(options)).catch(
      (error: unknown) => {
        throw exceptionOf(error);
      },
    );
    return usage;
  }

  /** Older name of `measureContextUsage`. */
  measureInputUsage(input: PromptInput, options: PromptOptions = {}): Promise<number> {
    return this.measureContextUsage(input, options);
  }

  /** Makes another session that continues from here. */
  async clone(options: Pick<PromptOptions, "signal"> = {}): Promise<LanguageModelSession> {
    options = known("clone", options, signalFields) as PromptOptions;
    this.#refuseDestroyed();
    options.signal?.throwIfAborted();
    this.#shared.ensemble.enter();
    return new LanguageModelSession(this.#shared, this.#state);
  }

  /**
   * Ends the session, and with the last one the engine. Pending calls reject with `reason`, or
   * AbortError.
   */
  destroy(
    reason: unknown = new DOMException("The session was destroyed.", "AbortError"),
  ): undefined {
    if (this.#destruction.signal.aborted) return;
    this.#destruction.abort(reason);
    this.#shared.ensemble.leave();
  }

  #answer(input: PromptInput, options: PromptOptions, tell: (text: string) => void): Promise<void> {
    return this.#inTurn("prompt", options, promptFields, async (signal) => {
      const format = formatOf(options);
      const added = messagesOf(input, this.#state.messages.length > 0);
      if (added.at(-1)?.role !== "user")
        throw unsupported("An ensemble answers the user. Let the last message be the user's.");
      const { messages, usage } = await this.#fitting(added, "asked");
      signal.throwIfAborted();
      const { conclave, sampling } = this.#shared;
      let sent = "";
      for await (const event of conclave.ask(joined(messages), { signal, sampling, ...format })) {
        if (event.type !== "round" && event.type !== "end") continue;
        if (event.type === "end" && event.stop === "stopped") signal.throwIfAborted();
        // The end may bring text withheld so far.
        const text = event.type === "round" ? event.text : event.text.slice(sent.length);
        sent += text;
        if (text !== "") tell(text);
        if (event.type !== "end") continue;
        const answered: Message[] = [...messages, { role: "assistant", content: event.text }];
        this.#state = {
          ...this.#state,
          messages: answered,
          usage: Math.min(usage + event.usage.answerTokens, this.contextWindow),
        };
      }
    });
  }

  /** Runs tasks in turn; an abort rejects a waiting one at once. */
  async #inTurn<T>(
    method: string,
    options: PromptOptions,
    fields: Fields,
    task: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const promptOptions = known(method, options, fields) as PromptOptions;
    this.#refuseDestroyed();
    const signal = this.#until(promptOptions);
    const turn = this.#queue.then(() => {
      signal.throwIfAborted();
      return task(signal);
    });
    this.#queue = turn.catch(() => undefined);
    try {
      return await unlessAborted(turn, signal);
    } catch (error) {
      if (error instanceof ConclaveError && isFatal(error)) this.#shared.ensemble.end();
      throw exceptionOf(error);
    }
  }

  /** Signal aborted by the caller or with the session. */
  #until({ signal }: PromptOptions): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#destruction.signal]) : this.#destruction.signal;
  }

  #refuseDestroyed(): void {
    if (this.#destruction.signal.aborted)
      throw new DOMException("The session was destroyed. Create another one.", "InvalidStateError");
  }

  /**
   * The conversation with `added`. If it is too long, the oldest questions and their answers are
   * dropped; if dropping them is not enough, none are. If it is `asked`, they are also dropped
   * until the answer has room, as by `overflow: "drop-oldest"` of `Conclave.ask`.
   */
  async #fitting(
    added: Message[],
    purpose: "added" | "asked",
  ): Promise<Pick<State, "messages" | "usage">> {
    const { initial } = this.#state;
    for (let before = this.#state.messages; ; ) {
      const messages = [...before, ...added];
      const last = before.length === initial;
      const fill = await fillOf(this.#shared.conclave, messages).catch((error: unknown) => {
        if (last || typed(error).kind !== "ContextFull") throw error;
        return undefined;
      });
      if (fill && (last || fill.roomy || purpose === "added")) {
        if (before.length < this.#state.messages.length) this.#overflow(before);
        return { messages, usage: fill.usage };
      }
      const next = before.findIndex(({ role }, index) => index > initial && role === "user");
      before = before.toSpliced(initial, (next < 0 ? before.length : next) - initial);
    }
  }

  #overflow(messages: readonly Message[]): void {
    this.#state = { ...this.#state, messages };
    for (const [name, handler] of [
      ["contextoverflow", this.oncontextoverflow],
      ["quotaoverflow", this.onquotaoverflow],
    ] as const) {
      const event = new Event(name);
      this.dispatchEvent(event);
      handler?.call(this, event);
    }
  }
}
export type { LanguageModelSession };

async function availabilityOf({
  backend,
  members,
  hub,
  load,
}: LanguageModelOptions): Promise<Availability> {
  // With its own `load`, the caller decides where members run.
  if (load === undefined && typeof Worker === "undefined") return "unavailable";
  try {
    const { gpu } = (globalThis.navigator ?? {}) as Navigator & { gpu?: Gpu };
    if (load === undefined && backend === "webgpu") await chooseBackend(backend, gpu);
    const refs = Array.isArray(members) ? members.flatMap(({ ref }) => ref ?? []) : [];
    for (const ref of refs) if (!isCopy(ref)) parseReference(ref);
    const shelf = await openShelfToRead();
    const stored = await Promise.all(refs.map((ref) => shelf && isStored(shelf, ref, hub)));
    if (stored.every(Boolean)) return "available";
    // Picked files can't be fetched.
    const isLost = refs.some((ref, index) => isCopy(ref) && !stored[index]);
    return isLost ? "unavailable" : "downloadable";
  } catch (error) {
    const { kind } = typed(error);
    if (kind === "NoGpu" || kind === "Reference") return "unavailable";
    throw error;
  }
}
