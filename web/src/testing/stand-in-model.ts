/**
 * A stand-in for the browser's own `LanguageModel`, with the used part of the documented interface:
 * no browser of the tests has such a model. It answers by a function and records its sessions.
 */

interface Prompted {
  question: string;
  options: {
    responseConstraint?: unknown;
    omitResponseConstraintInput?: boolean;
    signal?: AbortSignal;
  };
}

export class StandInModel {
  available: "unavailable" | "downloadable" | "downloading" | "available" = "available";
  contextWindow = 6144;
  /** Answers a question with one of the letters A to `letters`; a test may make it hang or fail. */
  says: (question: string, letters: string[]) => string | Promise<string> = (_, letters) =>
    JSON.stringify(letters[0]);
  readonly asked: Prompted[] = [];
  /** Options that sessions were created with. */
  readonly created: object[] = [];
  /** Number of open sessions and clones. */
  open = 0;
  /** Number of questions aborted by their signal. */
  stopped = 0;

  async availability(): Promise<string> {
    return this.available;
  }

  async create(options: {
    signal?: AbortSignal;
    monitor?: (monitor: EventTarget) => void;
  }): Promise<object> {
    options.signal?.throwIfAborted();
    this.created.push(options);
    if (this.available !== "available") {
      const monitor = new EventTarget();
      options.monitor?.(monitor);
      for (const loaded of [0, 0.5, 1]) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        options.signal?.throwIfAborted();
        monitor.dispatchEvent(Object.assign(new Event("downloadprogress"), { loaded, total: 1 }));
      }
      this.available = "available";
    }
    return this.#session(true);
  }

  #session(empty: boolean): object {
    this.open++;
    let here = true;
    const whereGone = (): void => {
      if (!here) throw new DOMException("The session is destroyed.", "InvalidStateError");
    };
    return {
      contextWindow: this.contextWindow,
      clone: async () => {
        whereGone();
        return this.#session(empty);
      },
      prompt: (question: string, options: Prompted["options"] = {}) => {
        whereGone();
        if (!empty) throw new Error("This session has heard another question.");
        empty = false;
        this.asked.push({ question, options });
        const { enum: letters = [] } = (options.responseConstraint ?? {}) as { enum?: string[] };
        const stopped = new Promise<never>((_, reject) => {
          options.signal?.addEventListener("abort", () => {
            this.stopped++;
            reject(new DOMException("Aborted", "AbortError"));
          });
        });
        return Promise.race([
          Promise.resolve(question).then((question) => this.says(question, letters)),
          stopped,
        ]);
      },
      destroy: () => {
        if (here) this.open--;
        here = false;
      },
    };
  }
}
