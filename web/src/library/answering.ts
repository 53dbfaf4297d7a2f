/** Events of an answer, from the connection to the engine that writes it. */
import { fromRecord, type ConclaveError } from "../protocol/errors.ts";
import type { ConclaveEvent, EndEvent, Reply } from "../protocol/messages.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { isHandheld, type Unnumbered } from "./engine-requests.ts";
import type { Wire } from "./wire.ts";

/** Events of an answer by the engine at the other end of `wire`. */
export async function* answerOf(
  wire: Wire,
  request: Unnumbered<"ask">,
  signal: AbortSignal | undefined,
): AsyncGenerator<ConclaveEvent, void> {
  const id = wire.id();
  const inbox: Reply[] = [];
  let failure: ConclaveError | undefined;
  let wake = (): void => {};
  const stop = (): void => wire.post({ type: "stop", id });
  wire.listen(id, {
    reply: (reply) => void (inbox.push(reply), wake()),
    fail: (error) => void ((failure = error), wake()),
  });
  const pause = (): void => wire.post({ type: "pause", id, paused: document.hidden });
  let over = false;
  try {
    wire.post({ ...request, id });
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    if (isHandheld()) {
      document.addEventListener("visibilitychange", pause);
      if (document.hidden) pause();
    }
    while (!over) {
      const reply = inbox.shift();
      if (reply?.type === "event") {
        over = reply.event.type === "end";
        yield reply.event;
      } else if (reply?.type === "failed") {
        over = true;
        throw fromRecord(reply.error);
      } else if (failure) {
        over = true;
        throw failure;
      } else {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    globalThis.document?.removeEventListener("visibilitychange", pause);
    wire.forget(id);
    if (!over) stop(); // The caller left the loop.
  }
}

/** The answer as its events report it, over all engines that write it. */
export class WrittenAnswer {
  /** Segments accepted so far. */
  readonly accepted: { text: string; tokens: number }[];
  text: string;
  begun = false;
  #promptTokens = 0;
  readonly #started = performance.now();

  constructor(accepted: { text: string; tokens: number }[]) {
    this.accepted = [...accepted];
    this.text = accepted.map(({ text }) => text).join("");
  }

  /** Whether the caller has had the event: an engine that continues an answer begins again. */
  follow(event: ConclaveEvent): boolean {
    if (event.type === "begin") {
      this.#promptTokens = Math.max(...event.prefixes.map(({ prefix }) => prefix));
      if (this.begun) return true;
      this.begun = true;
    }
    if (event.type === "round") {
      const { text, tokens } = event.candidates[event.winner]!;
      this.accepted.push({ text, tokens });
      this.text += event.text;
    }
    return false;
  }

  /** The end of an answer that was stopped while no engine wrote it. */
  stopped(): EndEvent {
    return {
      type: "end",
      stop: "stopped",
      text: this.text,
      usage: {
        promptTokens: this.#promptTokens,
        answerTokens: this.accepted.reduce((sum, { tokens }) => sum + tokens, 0),
      },
      ms: performance.now() - this.#started,
    };
  }
}

/** The task's result, or `stopped` as soon as the signal aborts. */
export async function unlessStopped<T>(
  task: Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T | "stopped"> {
  if (!signal) return task;
  return unlessAborted(task, signal).catch((error: unknown) => {
    if (signal.aborted) return "stopped";
    throw error;
  });
}

/** Whether the error is the end of the engine, in place of one answer's. */
export const isEngineLost = ({ kind }: ConclaveError, wire: Wire): boolean =>
  kind === "DeviceLost" || kind === "Engine" || wire.broken !== undefined;
