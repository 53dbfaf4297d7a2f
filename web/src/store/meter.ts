/** Progress, rate and remaining time of a download. */
import type { Progress } from "../protocol/messages.ts";

/** Time constant of the smoothed rate, in ms. */
const memoryMs = 5000;
/** Minimum interval between reports, in ms. */
const reportMs = 100;

/** Progress at an unknown rate. */
export const unmeasured = (phase: Progress["phase"], loaded = 0, total = 0): Progress => ({
  phase,
  loaded,
  total,
  rate: null,
  secondsLeft: null,
});

export class Meter {
  readonly #total: number;
  readonly #report: (progress: Progress) => void;
  #phase: Progress["phase"] = "checking";
  #note: string | undefined;
  #loaded = 0;
  #rate: number | undefined;
  /** Bytes received since `#since`; the rate excludes bytes that were only verified. */
  #fresh = 0;
  #since = performance.now();
  #reported = -Infinity;

  constructor(total: number, report: (progress: Progress) => void) {
    this.#total = total;
    this.#report = report;
  }

  phase(phase: Progress["phase"], loaded = this.#loaded): void {
    this.#phase = phase;
    this.#loaded = loaded;
    this.#rate = undefined;
    this.#fresh = 0;
    this.#since = performance.now();
    this.#publish();
  }

  /** Sets the reason for a pause; undefined when it continues. */
  note(note: string | undefined): void {
    this.#note = note;
    this.#publish();
  }

  /** Counts bytes received, or read for verification. */
  add(bytes: number): void {
    this.#loaded += bytes;
    this.#fresh += bytes;
    const now = performance.now();
    const passed = now - this.#since;
    if (passed >= reportMs) {
      const rate = (this.#fresh / passed) * 1000;
      const weight = 1 - Math.exp(-passed / memoryMs);
      this.#rate = this.#rate === undefined ? rate : this.#rate + (rate - this.#rate) * weight;
      this.#fresh = 0;
      this.#since = now;
    }
    if (now - this.#reported >= reportMs) this.#publish();
  }

  /** Subtracts bytes that turned out invalid. */
  takeBack(bytes: number): void {
    this.#loaded -= bytes;
    this.#publish();
  }

  #publish(): void {
    this.#reported = performance.now();
    const rate = this.#phase === "downloading" ? (this.#rate ?? null) : null;
    this.#report({
      phase: this.#phase,
      loaded: this.#loaded,
      total: this.#total,
      rate,
      secondsLeft: rate === null || rate === 0 ? null : (this.#total - this.#loaded) / rate,
      ...(this.#note === undefined ? {} : { note: this.#note }),
    });
  }
}
