/**
 * Repeats of one measurement: how many are left, and the time limit. The first is a warm-up and not
 * counted; if it alone exceeds the limit it is the only one, and reported as cold.
 */
export class Repeats {
  #left: number;
  #first = true;
  #spentMs = 0;
  readonly #limitMs: number;
  cold = false;

  constructor(count: number, limitSeconds: number) {
    this.#left = count;
    this.#limitMs = 1000 * limitSeconds;
  }

  /** Whether one more is due. */
  get due(): boolean {
    return this.#first || this.#left > 0;
  }

  /** Records a repeat of `ms`; returns whether it counts. */
  counts(ms: number): boolean {
    this.#spentMs += ms;
    const late = this.#spentMs > this.#limitMs;
    if (this.#first) {
      this.#first = false;
      this.cold = late;
      if (late) this.#left = 0;
      return late;
    }
    this.#left = late ? 0 : this.#left - 1;
    return true;
  }
}
