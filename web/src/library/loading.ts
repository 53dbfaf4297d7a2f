/** An ensemble while it loads: its progress, and how to end it in any state. */
import type { Conclave, LoadOptions } from "./conclave.ts";

export class Loading {
  /** The loaded ensemble; rejects as `Conclave.load` does. */
  readonly conclave: Promise<Conclave>;
  readonly #stop = new AbortController();

  /** `onShare`: called with the progress of the load, from 0 to 1; it never falls. */
  constructor(
    load: (options: LoadOptions) => Promise<Conclave>,
    options: LoadOptions,
    onShare: (share: number) => void,
  ) {
    const { signal = this.#stop.signal } = options;
    this.conclave = load({
      ...options,
      signal: AbortSignal.any([signal, this.#stop.signal]),
      onShare: (share) => {
        options.onShare?.(share);
        // 0 before anything has begun.
        if (share > 0 && !this.#stop.signal.aborted) onShare(share);
      },
    });
    // Reported to callers that await it.
    this.conclave.catch(() => undefined);
  }

  /** Aborts the loading, or closes the loaded ensemble. */
  close(): void {
    this.#stop.abort();
    void this.conclave.then(
      (conclave) => conclave.close(),
      () => undefined,
    );
  }
}
