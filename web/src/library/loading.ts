/** An ensemble on its way, for those who wait for it: how far it is, and how it is ended whatever has become of it. */
import type { Conclave, LoadOptions, Progress } from "./conclave.ts";

export class Loading {
  /** Rejects as `Conclave.load` does. */
  readonly conclave: Promise<Conclave>;
  readonly #stop = new AbortController();

  /** `onShare` hears which share of what is to be downloaded is here, from 0 to 1; it never falls. */
  constructor(load: (options: LoadOptions) => Promise<Conclave>, options: LoadOptions, onShare: (share: number) => void) {
    const { members, signal = this.#stop.signal, onProgress } = options;
    const files = new Map<string, Progress>();
    // A member that has told no size yet is not here.
    const awaited = Array.isArray(members) ? members.filter(({ files }) => files === undefined).length : 0;
    let most = 0;
    this.conclave = load({
      ...options,
      signal: AbortSignal.any([signal, this.#stop.signal]),
      onProgress: (progress) => {
        onProgress?.(progress);
        if (progress.phase !== "downloading" || progress.total === 0 || this.#stop.signal.aborted) return;
        files.set(progress.member, progress);
        const [loaded, total] = [...files.values()].reduce(([loaded, total], file) => [loaded + file.loaded, total + file.total], [0, 0]);
        const share = Math.min(1, loaded / total) * (files.size / Math.max(files.size, awaited));
        if (share <= most) return;
        most = share;
        onShare(share);
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
