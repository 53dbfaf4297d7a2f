/**
 * Traps in tasks of the module's own, such as futures that it polls: the browser reports one as an
 * error of the worker, and the promise of the task never settles.
 */
export class Traps {
  readonly #waiting = new Set<(trap: unknown) => void>();

  /** As the promise, but rejects also if the module traps before it settles. */
  async heard<T>(task: Promise<T>): Promise<T> {
    let hear: (trap: unknown) => void = () => undefined;
    const trapped = new Promise<never>((_, reject) => (hear = reject));
    this.#waiting.add(hear);
    try {
      return await Promise.race([task, trapped]);
    } finally {
      this.#waiting.delete(hear);
    }
  }

  /** Rejects all that waits for the module; returns whether it is a trap and anything did. */
  report(error: unknown): boolean {
    if (!(error instanceof WebAssembly.RuntimeError)) return false;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const hear of waiting) hear(error);
    return waiting.length > 0;
  }
}

/** The part of a worker's global scope that is used here. */
interface Scope {
  addEventListener(
    type: "unhandledrejection",
    listener: (event: PromiseRejectionEvent) => void,
  ): void;
  addEventListener(type: "error", listener: (event: ErrorEvent) => void): void;
}

/**
 * Lets the worker's requests hear of traps. Any other error, and a trap that no request waits for,
 * is one of the worker, which ends all that waits for it.
 */
export function listenForTraps(scope: Scope, report: (error: unknown) => boolean): void {
  // A panic in the module's own promise queue rejects no promise that has a handler.
  scope.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    reportError(event.reason);
  });
  scope.addEventListener("error", (event) => {
    if (report(event.error)) event.preventDefault();
  });
}
