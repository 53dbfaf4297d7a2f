/**
 * What an answer passes between its rounds: shut while its page is out of sight, where that saves a
 * battery.
 */
export class Gate {
  #shut = false;
  #open: () => void = () => undefined;

  /** Shuts or opens it. */
  shut(shut: boolean): void {
    this.#shut = shut;
    if (!shut) this.#open();
  }

  /** Waits until it is open, or the signal says that nobody waits any more. */
  async pass(signal: AbortSignal): Promise<void> {
    while (this.#shut && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#open = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }
}
