/**
 * An ensemble on its way, for those who wait for it: how far it is, and how it is ended whatever
 * has become of it.
 */
import type { Conclave, LoadOptions } from "./conclave.ts";

export class Loading {
  /** Rejects as `Conclave.load` does. */
  readonly conclave: Promise<Conclave>;
  readonly #stop = new AbortController();

  /** `onShare` hears which share of the load is done, from 0 to 1; it never falls. */
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
        // Nothing is here before anything has begun.
        if (share > 0 && !this.#stop.signal.aborted) onShare(share);
      },
    });
    // Told to whoever waits for it.
    this.conclave.catch(() => undefined);
  }

  /** Stops the loading, or ends what was loaded. */
  close(): void {
    this.#stop.abort();
    void this.conclave.then(
      (conclave) => conclave.close(),
      () => undefined,
    );
  }
}
