/**
 * An ensemble in a React component, 18 or later:
 *
 * ```tsx
 * const { messages, status, progress, error, ask, stop } = useConclave();
 * ```
 *
 * The members load at the first question, or by `load`, and go when the component does. A component
 * is rendered on a server as before its first question.
 *
 * `ConclaveChat` is `<conclave-chat>` as a component, and whoever imports this has the tag in JSX
 * as well; the element itself comes with `conclave/element`.
 */
import { useEffect, useState, useSyncExternalStore } from "react";
import { voteOf, type SegmentVote } from "./answer.ts";
import {
  BadSettings,
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
import { callback, checked, checkedOptions, questionFields } from "./options.ts";

export type { SegmentVote } from "./answer.ts";
export { ConclaveChat, type ConclaveChatAttributes, type ConclaveChatProps } from "./react-chat.ts";

/** How the members are loaded; read when they are. */
export interface UseConclaveOptions extends LoadOptions {
  /**
   * Loads them in the place of `Conclave.load`. What it gives is closed when the component goes.
   */
  load?: (options: LoadOptions) => Promise<Conclave>;
}

/**
 * How a question is answered. Where the conversation has become too long, its oldest questions are
 * left out, unless `overflow` says otherwise.
 */
export interface QuestionOptions extends Omit<AskOptions, "signal"> {
  /** Hears every event of the answer. */
  onEvent?: (event: ConclaveEvent) => void;
}

/** Where a component's ensemble is. */
export interface ConclaveState {
  /** `idle` until the members are asked for, and after a failure that ended them. */
  status: "idle" | "loading" | "ready" | "answering";
  /** Which share of the load is done, from 0 to 1. */
  progress: number;
  /** Why the last question, or the loading, failed; the text so far stays. */
  error: ConclaveError | undefined;
  /**
   * The conversation, with the question and the answer that are under way. A question that gets no
   * answer leaves it.
   */
  messages: readonly Message[];
  /** The last answer, as far as it is there. */
  text: string;
  /** Its segments: who wrote each, and how the members voted. */
  segments: readonly SegmentVote[];
  /** The members, once they are loaded. */
  conclave: Conclave | undefined;
}

/** What {@link useConclave} gives; the functions are the same at every render. */
export interface UseConclave extends ConclaveState {
  /** Loads the members, if they are not there; a failure is told in `error`. */
  load(): Promise<void>;
  /**
   * Asks a question that continues the conversation. Resolves with the answer as far as it came
   * when it is over; a failure is told in `error`. While a question is answered, others are refused
   * as Settings.
   */
  ask(question: string, options?: QuestionOptions): Promise<string>;
  /** Stops the answer, of which the text so far stays, or the loading. */
  stop(): void;
  /** Stops, and begins a new conversation; the members stay. */
  reset(): void;
}

/** The members of a component, and its conversation with them. */
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

/** Makes nothing until it is asked: strict components make two, and use one. */
class Chat {
  options: UseConclaveOptions;
  #state = idle;
  readonly #listeners = new Set<() => void>();
  #loading: Loading | undefined;
  #answering: AbortController | undefined;
  /** The component is gone; a strict one comes back. */
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

  readonly ask = async (question: string, given: QuestionOptions = {}): Promise<string> => {
    // Handed over as a handler itself, it would be given the event.
    checked("The question", question, check.text);
    const { onEvent, ...options } = checkedOptions("ask", given, askFields) as QuestionOptions;
    if (this.#answering && !this.#answering.signal.aborted)
      throw new BadSettings("A question is being answered. Wait for its end, or stop it.");
    const controller = new AbortController();
    const { signal } = controller;
    this.#answering = controller;
    // One that was stopped just now may have no answer yet.
    const before =
      this.#state.messages.at(-1)?.role === "user"
        ? this.#state.messages.slice(0, -1)
        : this.#state.messages;
    const messages: readonly Message[] = [...before, { role: "user", content: question }];
    const isCurrent = (): boolean => this.#answering === controller;
    let text = "";
    /** What the caller's own function threw. */
    let own: { error: unknown } | undefined;
    /** Tells the answer so far, unless another one has begun. */
    const tell = (segments: readonly SegmentVote[]): void => {
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
          tell([...this.#state.segments, voteOf(event, members)]);
        }
        if (event.type === "end") {
          // It may bring what was held back.
          text = event.text;
          tell(this.#state.segments);
        }
        try {
          onEvent?.(event);
        } catch (error) {
          own = { error };
          throw error;
        }
      }
    } catch (error) {
      // The caller's own is the caller's, and no fault of the engine.
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

  /** The members, loaded first if they are not there; none where the component is gone. */
  async #loaded(): Promise<Conclave | undefined> {
    // Effects of a component's children come before its own.
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
    if (isAbort(thrown)) return;
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
