/** A queue of tasks that use the engine. */
export class Turns {
  #tail: Promise<unknown> = Promise.resolve();
  /**
   * The end of what was asked before those that run side by side, while one more would run beside
   * them.
   */
  #before: Promise<unknown> | undefined;

  /** Runs a task behind all that was asked before, and before all that is asked from now on. */
  alone<T>(task: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(task);
    this.#tail = turn.catch(() => undefined);
    this.#before = undefined;
    return turn;
  }

  /**
   * The same, but beside those that were asked as this one just before it, and will be just behind
   * it.
   */
  beside<T>(task: () => Promise<T>): Promise<T> {
    this.#before ??= this.#tail;
    const turn = this.#before.then(task);
    this.#tail = Promise.all([this.#tail, turn.catch(() => undefined)]);
    return turn;
  }
}
