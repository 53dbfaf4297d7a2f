/** The line below a question while its first words are awaited: what happens, and how long yet. */
import { el } from "./dom.ts";
import type { Foretelling } from "./foretold.ts";

const stepMs = 1000;

export class WaitingLine {
  /** Shows other facts once there are words. It is no live region: it changes every second. */
  readonly root = el("p", { class: "facts" });
  #state = "";
  #telling: Foretelling | undefined;
  #steps: ReturnType<typeof setInterval> | undefined;
  /** Says the time to a screen reader, once. */
  #say: ((sentence: string) => void) | undefined;

  set state(text: string) {
    this.#state = text;
    this.#draw();
  }

  foretell(telling: Foretelling, say: (sentence: string) => void): void {
    this.end();
    this.#telling = telling;
    this.#say = say;
    this.#steps = setInterval(() => this.#draw(), stepMs);
  }

  end(): void {
    clearInterval(this.#steps);
    this.#telling = undefined;
    this.#say = undefined;
  }

  #draw(): void {
    const sentence = this.#telling?.sentence(performance.now()) ?? "";
    this.root.textContent = sentence === "" ? this.#state : `${this.#state} ${sentence}`;
    if (sentence === "") return;
    this.#say?.(sentence);
    this.#say = undefined;
  }
}
