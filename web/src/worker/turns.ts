/** A queue of tasks that use the engine. */
export class Turns {
  #tail: Promise<unknown> = Promise.resolve();
  /** End of the tasks before the current parallel group, as long as one more may join the group. */
  #before: Promise<unknown> | undefined;

  /** Runs a task after all earlier tasks, and before all later ones. */
  alone<T>(task: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(task);
    this.#tail = turn.catch(() => undefined);
    this.#before = undefined;
    return turn;
  }

  /**
   * Runs a task in parallel with adjacent tasks that were also queued by `beside`; after all
   * earlier tasks queued by `alone`, and before all later ones.
   */
  beside<T>(task: () => Promise<T>): Promise<T> {
    this.#before ??= this.#tail;
    const turn = this.#before.then(task);
    this.#tail = Promise.all([this.#tail, turn.catch(() => undefined)]);
    return turn;
  }
}
