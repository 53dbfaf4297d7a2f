/**
 * Repeats of one measurement: how many are left, and whether its time is up. The first time makes
 * what later ones use, and is not counted; where it alone takes longer than the limit it is all
 * that is measured, and told as cold.
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

  /** Hears that one took `ms`; says whether it counts. */
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
