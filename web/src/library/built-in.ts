/**
 * The browser's own language model (the Prompt API) as a judge: a session that lives as long as its
 * member, and a port on which the engine's worker asks it. The model is the browser's; questions
 * stay there.
 */
import { parseAsked, type Said } from "../protocol/built-in.ts";
import {
  ConclaveError,
  ContextFull,
  isAbort,
  RemoteFailure,
  toRecord,
} from "../protocol/errors.ts";
import type { Progress } from "../protocol/messages.ts";
import { unmeasured } from "../store/meter.ts";

/** Availability of the model; `unavailable` also in browsers without one. */
export type Availability = "unavailable" | "downloadable" | "downloading" | "available";

interface Session {
  /** Size of the context in tokens. */
  readonly contextWindow?: number;
  prompt(
    question: string,
    options: {
      responseConstraint: object;
      omitResponseConstraintInput: boolean;
      signal: AbortSignal;
    },
  ): Promise<string>;
  clone(options: { signal: AbortSignal }): Promise<Session>;
  destroy(): void;
}

interface Needs {
  expectedOutputs: { type: "text"; languages: string[] }[];
  samplingMode: "most-predictable";
}

interface LanguageModel {
  availability(needs: Needs): Promise<Availability>;
  create(
    options: Needs & { signal?: AbortSignal; monitor: (monitor: EventTarget) => void },
  ): Promise<Session>;
}

/** A letter is wanted, the same each time. Browsers without sampling modes ignore the option. */
const needs: Needs = {
  expectedOutputs: [{ type: "text", languages: ["en"] }],
  samplingMode: "most-predictable",
};

const own = (): LanguageModel | undefined =>
  (globalThis as { LanguageModel?: LanguageModel }).LanguageModel;

/** Availability of the browser's model. Asks the browser, and downloads nothing. */
export async function availability(): Promise<Availability> {
  return (await own()?.availability(needs)) ?? "unavailable";
}

export class BuiltIn {
  readonly #session: Session;
  readonly #line: MessagePort;
  /** The worker's end of the port. */
  readonly port: MessagePort;
  /** Questions under way. */
  readonly #asked = new Map<number, AbortController>();

  private constructor(session: Session) {
    this.#session = session;
    const { port1, port2 } = new MessageChannel();
    this.#line = port1;
    this.port = port2;
    port1.onmessage = ({ data }) => void this.#receive(data);
  }

  /**
   * Creates a session. If the model is missing, the browser downloads it, which needs a user
   * gesture. Throws Remote, or the signal's reason.
   */
  static async create(
    name: string,
    signal: AbortSignal | undefined,
    onProgress: (progress: Progress) => void,
  ): Promise<BuiltIn> {
    try {
      const found = await availability();
      if (found === "unavailable")
        throw new RemoteFailure(
          `This browser has no language model of its own for ${name}, or not for this page. ` +
            "Take another member.",
        );
      if (found !== "available" && globalThis.navigator?.userActivation?.isActive === false)
        throw new RemoteFailure(
          `The browser has to download its language model for ${name}, ` +
            "which needs a user action. Add it on a press of a button.",
        );
      const monitor = (monitor: EventTarget): void =>
        monitor.addEventListener("downloadprogress", (event) => {
          const { loaded, total } = event as ProgressEvent;
          if (!signal?.aborted) onProgress(unmeasured("downloading", loaded, total || 1));
        });
      return new BuiltIn(await own()!.create({ ...needs, monitor, ...(signal ? { signal } : {}) }));
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof ConclaveError) throw error;
      throw new RemoteFailure(
        `The browser does not give its language model for ${name} (${reason(error)}). ` +
          "Add it again, or take another member.",
        { cause: error },
      );
    }
  }

  /** Size of its context in tokens; 0 if unknown. */
  get context(): number {
    return this.#session.contextWindow ?? 0;
  }

  /** Ends the session and aborts its questions. */
  close(): void {
    for (const stop of this.#asked.values()) stop.abort();
    this.#line.close();
    this.#session.destroy();
  }

  async #receive(data: unknown): Promise<void> {
    const asked = parseAsked(data);
    const { id } = asked;
    if (asked.type === "stop") return this.#asked.get(id)?.abort();
    const stop = new AbortController();
    this.#asked.set(id, stop);
    const answer = await this.#answer(asked.question, asked.letters, stop.signal).then(
      (text): Said => ({ type: "said", id, text }),
      (error: unknown): Said => ({ type: "failed", id, error: toRecord(failed(error)) }),
    );
    this.#asked.delete(id);
    if (!stop.signal.aborted) this.#line.postMessage(answer);
  }

  /** Uses a new session for each question, so that none sees another. */
  async #answer(question: string, letters: string[], signal: AbortSignal): Promise<string> {
    const session = await this.#session.clone({ signal });
    try {
      // The question already says what to name.
      return await session.prompt(question, {
        responseConstraint: { type: "string", enum: letters },
        omitResponseConstraintInput: true,
        signal,
      });
    } finally {
      session.destroy();
    }
  }
}

const reason = (error: unknown): string =>
  error instanceof Error ? error.message || error.name : String(error);

/** Error that says why it has not answered. */
function failed(error: unknown): ConclaveError {
  if (error instanceof Error && error.name === "QuotaExceededError")
    return new ContextFull(
      "The conversation is longer than the browser's language model has room for. " +
        "Ask less, or begin a new conversation.",
    );
  return new RemoteFailure(
    "The browser's language model did not answer " +
      `(${isAbort(error) ? "it was stopped" : reason(error)}).`,
  );
}
