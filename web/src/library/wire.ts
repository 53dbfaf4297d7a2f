/** The library's end of the connection to the worker: matches replies to requests by id. */
import {
  BadSettings,
  EngineFailure,
  fromRecord,
  typed,
  type ConclaveError,
} from "../protocol/errors.ts";
import {
  moved,
  parseReply,
  type Progress,
  type Reply,
  type Request,
} from "../protocol/messages.ts";
import type { Port } from "../protocol/start-worker.ts";

/** Waits for the replies to one request. */
interface Listener {
  reply(reply: Reply): void;
  fail(error: ConclaveError): void;
}

export class Wire {
  readonly #port: Port;
  readonly #listeners = new Map<number, Listener>();
  #next = 1;
  #broken: ConclaveError | undefined;

  /** `address`: address of the worker's script. */
  constructor(port: Port, address: string) {
    this.#port = port;
    port.onmessage = ({ data }) => {
      try {
        const reply = parseReply(data);
        this.#listeners.get(reply.id)?.reply(reply);
      } catch (error) {
        this.#break(
          new EngineFailure(
            `The worker sent an invalid message: ${String(error)}. Reload the engine.`,
            { cause: error },
          ),
        );
      }
    };
    port.onmessageerror = () =>
      this.#break(new EngineFailure("The worker sent what can't be read here. Reload the engine."));
    port.onerror = (event) => {
      const causes =
        "Check that the file is there (where a bundler does not copy the package's files, name " +
        "their folder by `assets`), that the page's policy allows it (worker-src), and, where " +
        "the page is isolated from other origins, " +
        "that the file is sent with Cross-Origin-Embedder-Policy: require-corp.";
      this.#break(
        new EngineFailure(
          event.message
            ? `The worker failed: ${event.message}. Reload the engine.`
            : `The worker could not be started from ${address}. ${causes}`,
        ),
      );
    };
  }

  id(): number {
    return this.#next++;
  }

  post(request: Request): void {
    if (this.#broken) return;
    try {
      this.#port.postMessage(request, moved(request));
    } catch (error) {
      throw new BadSettings(
        `The request can't cross to the worker (${String(error)}). Pass plain data.`,
        { cause: error },
      );
    }
  }

  listen(id: number, listener: Listener): void {
    if (this.#broken) listener.fail(this.#broken);
    else this.#listeners.set(id, listener);
  }

  forget(id: number): void {
    this.#listeners.delete(id);
  }

  /** Sends a request and waits for its final reply. */
  request(
    request: Request,
    signal?: AbortSignal,
    onProgress?: (progress: Progress) => void,
  ): Promise<Reply> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    /** Error thrown by the caller's own function. */
    let own: { error: unknown } | undefined;
    return new Promise<Reply>((resolve, reject) => {
      const { id } = request;
      const stop = (): void => this.post({ type: "stop", id });
      const settle = (): void => {
        signal?.removeEventListener("abort", stop);
        this.forget(id);
      };
      this.listen(id, {
        reply: (reply) => {
          if (reply.type === "progress") {
            try {
              return onProgress?.(reply.progress);
            } catch (error) {
              // It ends the caller's request and nothing else.
              own = { error };
              stop();
              settle();
              return reject(error);
            }
          }
          settle();
          if (reply.type === "failed") reject(fromRecord(reply.error));
          else if (reply.type === "aborted")
            reject(signal?.reason ?? new DOMException("Aborted", "AbortError"));
          else resolve(reply);
        },
        fail: (error) => {
          settle();
          reject(error);
        },
      });
      this.post(request);
      signal?.addEventListener("abort", stop);
    }).catch((error: unknown) => {
      throw own || error === signal?.reason ? error : typed(error);
    });
  }

  /** Ends the worker; pending requests reject with `why`. */
  close(why: ConclaveError = new EngineFailure("The engine was closed. Load another.")): void {
    this.#broken = why;
    this.#break(why);
  }

  /** Error for which no request can be made any more; undefined while there is none. */
  get broken(): ConclaveError | undefined {
    return this.#broken;
  }

  #break(error: ConclaveError): void {
    this.#port.terminate();
    this.#broken ??= error;
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const listener of listeners) listener.fail(error);
  }
}
