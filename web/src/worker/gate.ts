/** Gate between an answer's rounds: shut while its page is hidden, where that saves battery. */
export class Gate {
  #shut = false;
  #open: () => void = () => undefined;

  shut(shut: boolean): void {
    this.#shut = shut;
    if (!shut) this.#open();
  }

  /** Waits until it is open, or until the signal aborts. */
  async pass(signal: AbortSignal): Promise<void> {
    while (this.#shut && !signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#open = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }
}
