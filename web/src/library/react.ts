/**
 * An ensemble in a React component, 18 or later:
 *
 * ```tsx
 * const { messages, status, progress, error, ask, stop } = useConclave();
 * ```
 *
 * The members load at the first question, or by `load`, and end when the component unmounts. On a
 * server the component renders its state before the first question.
 *
 * `ConclaveChat` is `<conclave-chat>` as a component. Importing this module also types the tag in
 * JSX; import `conclave/element` to define the element.
 */
import { useEffect, useState, useSyncExternalStore } from "react";
import { voteOf, type SegmentVote } from "./answer.ts";
import {
  Conclave,
  isAbort,
  isFatal,
  typed,
  type AskOptions,
  type ConclaveError,
  type ConclaveEvent,
  type LoadOptions,
  type Message,
} from "./conclave.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import * as check from "../protocol/check.ts";
import { Loading } from "./loading.ts";
import { callback, checked, checkedOptions, questionFields, stillAnswering } from "./options.ts";

export type { SegmentVote } from "./answer.ts";
export { ConclaveChat, type ConclaveChatAttributes, type ConclaveChatProps } from "./react-chat.ts";

/** Options for loading the members; read when they load. An abort of `signal` is no `error`. */
export interface UseConclaveOptions extends LoadOptions {
  /** Replaces `Conclave.load`. Its result is closed when the component unmounts. */
  load?: (options: LoadOptions) => Promise<Conclave>;
}

/**
 * Options for answering a question. If the conversation is too long, its oldest questions are left
 * out unless `overflow` says otherwise.
 */
export interface QuestionOptions extends Omit<AskOptions, "signal" | "accepted" | "drafts"> {
  /** Called with every event of the answer. */
  onEvent?: (event: ConclaveEvent) => void;
}

/** State of a component's ensemble. */
export interface ConclaveState {
  /** `idle` before the members are first needed, and after a failure that ended them. */
  status: "idle" | "loading" | "ready" | "answering";
  /** Share of the load that is done, from 0 to 1. */
  progress: number;
  /** Failure of the last question or of the loading; the text so far is kept. */
  error: ConclaveError | undefined;
  /**
   * The conversation with the current question and answer. A question without an answer is removed.
   */
  messages: readonly Message[];
  /** The last answer so far. */
  text: string;
  /** Its segments with their writers and votes. */
  segments: readonly SegmentVote[];
  /** The members, once they are loaded. */
  conclave: Conclave | undefined;
}

/** Result of {@link useConclave}; the functions are stable across renders. */
export interface UseConclave extends ConclaveState {
  /** Loads the members unless they are loaded; a failure is reported in `error`. */
  load(): Promise<void>;
  /**
   * Asks a question that continues the conversation. Resolves at the end with the answer so far; a
   * failure is reported in `error`. Throws Settings while another question is being answered.
   */
  ask(question: string, options?: QuestionOptions): Promise<string>;
  /** Stops the answer, keeping the text so far, or the loading. */
  stop(): void;
  /** Stops, and begins a new conversation; the members stay. */
  reset(): void;
}

/** Manages a component's members and its conversation with them. */
export function useConclave(options: UseConclaveOptions = {}): UseConclave {
  const [chat] = useState(() => new Chat(options));
  const state = useSyncExternalStore(chat.subscribe, chat.state, chat.state);
  useEffect(() => {
    chat.options = options;
  });
  useEffect(() => {
    chat.open();
    return () => chat.close();
  }, [chat]);
  return { ...state, load: chat.load, ask: chat.ask, stop: chat.stop, reset: chat.reset };
}

const askFields = {
  ...questionFields,
  onEvent: check.optional(callback<(event: ConclaveEvent) => void>()),
};

const silent = { text: "", segments: [] } as const;
const idle: ConclaveState = {
  status: "idle",
  progress: 0,
  error: undefined,
  messages: [],
  ...silent,
  conclave: undefined,
};

/** State of the hook. Idle until asked: strict mode makes two and uses one. */
class Chat {
  options: UseConclaveOptions;
  #state = idle;
  readonly #listeners = new Set<() => void>();
  #loading: Loading | undefined;
  /** The caller's signal of the last loading. */
  #signal: AbortSignal | undefined;
  #answering: AbortController | undefined;
  /** Whether the component is unmounted. Strict mode mounts it again. */
  #closed = false;

  constructor(options: UseConclaveOptions) {
    this.options = options;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): ConclaveState => this.#state;

  open(): void {
    this.#closed = false;
  }

  close(): void {
    this.#closed = true;
    this.#answering?.abort();
    this.#unload();
  }

  readonly load = async (): Promise<void> => {
    try {
      await this.#loaded();
    } catch (error) {
      this.#fail(error);
    }
  };

  readonly ask = async (
    question: string,
    questionOptions: QuestionOptions = {},
  ): Promise<string> => {
    // Passed directly as an event handler, it would receive the event.
    checked("The question", question, check.text);
    const { onEvent, ...options } = checkedOptions(
      "ask",
      questionOptions,
      askFields,
    ) as QuestionOptions;
    if (this.#answering && !this.#answering.signal.aborted) throw stillAnswering();
    const controller = new AbortController();
    const { signal } = controller;
    this.#answering = controller;
    // A question stopped just now may have no answer yet.
    const before =
      this.#state.messages.at(-1)?.role === "user"
        ? this.#state.messages.slice(0, -1)
        : this.#state.messages;
    const messages: readonly Message[] = [...before, { role: "user", content: question }];
    const isCurrent = (): boolean => this.#answering === controller;
    let text = "";
    /** Error thrown by the caller's own function. */
    let own: { error: unknown } | undefined;
    /** Publishes the answer so far, unless another has begun. */
    const publish = (segments: readonly SegmentVote[]): void => {
      if (isCurrent())
        this.#set({
          text,
          segments,
          messages: text === "" ? messages : [...messages, { role: "assistant", content: text }],
        });
    };
    try {
      this.#set({ ...silent, error: undefined, messages });
      const conclave = await unlessAborted(this.#loaded(), signal);
      if (!conclave) return text;
      this.#set({});
      let members: string[] = [];
      for await (const event of conclave.ask([...messages], {
        overflow: "drop-oldest",
        ...options,
        signal,
      })) {
        if (event.type === "begin") members = event.members;
        if (event.type === "round") {
          text += event.text;
          publish([...this.#state.segments, voteOf(event, members)]);
        }
        if (event.type === "end") {
          // It may bring text withheld so far.
          text = event.text;
          publish(this.#state.segments);
        }
        try {
          onEvent?.(event);
        } catch (error) {
          own = { error };
          throw error;
        }
      }
    } catch (error) {
      // The caller's own error is not the engine's.
      if (own) throw own.error;
      if (isCurrent()) this.#fail(error);
    } finally {
      if (isCurrent()) {
        this.#answering = undefined;
        this.#set(text === "" ? { messages: before } : {});
      }
    }
    return text;
  };

  readonly stop = (): void => {
    this.#answering?.abort();
    if (!this.#state.conclave) this.#unload();
  };

  readonly reset = (): void => {
    this.stop();
    this.#answering = undefined;
    this.#set({ ...silent, error: undefined, messages: [] });
  };

  /** The members, loaded if necessary; undefined once unmounted. */
  async #loaded(): Promise<Conclave | undefined> {
    // Effects of a component's children run before its own.
    await Promise.resolve();
    if (this.#closed) return undefined;
    this.#loading ??= this.#begin();
    return this.#loading.conclave;
  }

  #begin(): Loading {
    const { load = (options: LoadOptions) => Conclave.load(options), ...options } = this.options;
    const isCurrent = (): boolean => this.#loading === loading;
    const loading = new Loading(load, options, (progress) => {
      if (isCurrent()) this.#set({ progress });
    });
    loading.conclave.then(
      (conclave) => isCurrent() && this.#set({ conclave, progress: 1 }),
      () => isCurrent() && this.#unload(),
    );
    this.#loading = loading;
    this.#signal = options.signal;
    this.#set({ error: undefined });
    return loading;
  }

  /** Ends the engine, or its loading. */
  #unload(): void {
    this.#loading?.close();
    this.#loading = undefined;
    this.#set({ conclave: undefined, progress: 0 });
  }

  #fail(thrown: unknown): void {
    // A timeout's reason is a TimeoutError, and the caller's own may be anything.
    if (isAbort(thrown) || (this.#signal?.aborted && thrown === this.#signal.reason)) return;
    const error = typed(thrown);
    if (isFatal(error)) this.#unload();
    this.#set({ error });
  }

  #set(change: Partial<ConclaveState>): void {
    const state = { ...this.#state, ...change };
    const status = state.conclave
      ? this.#answering
        ? "answering"
        : "ready"
      : this.#loading
        ? "loading"
        : "idle";
    this.#state = { ...state, status };
    for (const listener of this.#listeners) listener();
  }
}
