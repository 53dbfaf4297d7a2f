/**
 * Read-write locks of stored models, across the tabs of the origin by Web Locks. Browsers without
 * them keep models in the page's own memory, where a queue in the page is enough.
 */

/** Waits shorter than this, in ms, are not reported. */
const momentMs = 150;

export type Hold = "shared" | "exclusive";

export interface Locks {
  /**
   * Acquires the lock, and calls `onWait` if that takes a while; returns the function that releases
   * it.
   */
  hold(name: string, mode: Hold, signal: AbortSignal, onWait: () => void): Promise<() => void>;
  /** Acquires the lock if it is free. */
  tryHold(name: string): Promise<(() => void) | undefined>;
}

/** `null`: as in browsers without Web Locks. */
export function openLocks(
  manager: LockManager | null = globalThis.navigator?.locks ?? null,
): Locks {
  return manager ? new WebLocks(manager) : new OwnLocks();
}

class WebLocks implements Locks {
  readonly #manager: LockManager;

  constructor(manager: LockManager) {
    this.#manager = manager;
  }

  async hold(
    name: string,
    mode: Hold,
    signal: AbortSignal,
    onWait: () => void,
  ): Promise<() => void> {
    // A lock just released takes a moment to be free.
    const timer = setTimeout(onWait, momentMs);
    try {
      return (await this.#request(name, { mode, signal }))!;
    } finally {
      clearTimeout(timer);
    }
  }

  tryHold(name: string): Promise<(() => void) | undefined> {
    return this.#request(name, { mode: "exclusive", ifAvailable: true });
  }

  #request(name: string, options: LockOptions): Promise<(() => void) | undefined> {
    return new Promise((resolve, reject) => {
      // The lock is held until the promise returned by the callback settles.
      const granted = (lock: Lock | null): Promise<void> | undefined => {
        if (!lock) return void resolve(undefined);
        return new Promise((release) => resolve(release));
      };
      this.#manager.request(name, options, granted).catch(reject);
    });
  }
}

/** Exclusive locks in this page, in order of request. */
class OwnLocks implements Locks {
  /** Waiting requests by name of a held lock. */
  readonly #waiting = new Map<string, (() => void)[]>();

  async hold(
    name: string,
    _mode: Hold,
    signal: AbortSignal,
    onWait: () => void,
  ): Promise<() => void> {
    signal.throwIfAborted();
    const queue = this.#waiting.get(name);
    if (!queue) return this.#acquire(name);
    onWait();
    await new Promise<void>((resolve, reject) => {
      const stop = (): void => {
        queue.splice(queue.indexOf(turn), 1);
        reject(signal.reason);
      };
      const turn = (): void => {
        signal.removeEventListener("abort", stop);
        resolve();
      };
      queue.push(turn);
      signal.addEventListener("abort", stop, { once: true });
    });
    return () => this.#release(name);
  }

  async tryHold(name: string): Promise<(() => void) | undefined> {
    return this.#waiting.has(name) ? undefined : this.#acquire(name);
  }

  #acquire(name: string): () => void {
    this.#waiting.set(name, []);
    return () => this.#release(name);
  }

  #release(name: string): void {
    const next = this.#waiting.get(name)?.shift();
    if (next) next();
    else this.#waiting.delete(name);
  }
}
