/** Actions on an answer: copy, regenerate, continue, and look into its rounds. */
import { copyText } from "../library/markdown/copy.ts";
import { button, el } from "./dom.ts";

export interface ActionEvents {
  /** The plain text of the answer, in Markdown. */
  text: () => string;
  onRegenerate: () => void;
  onContinue: () => void;
  /** Opens or closes the rounds. */
  onRounds: () => void;
  onSideBySide: () => void;
  onDownload: () => void;
}

export interface Possible {
  text: boolean;
  /** Its rounds are known. */
  rounds: boolean;
  /** Several members answered. */
  compared: boolean;
  /** It ended before it was complete, and can go on. */
  unfinished: boolean;
  /** It can be downloaded as a run. */
  replayable: boolean;
}

export class AnswerActions {
  readonly root = el("div", {
    class: "answer-actions",
    role: "group",
    "aria-label": "This answer",
    hidden: true,
  });
  readonly #rounds: HTMLButtonElement;
  readonly #alone: HTMLButtonElement;
  readonly #asking: HTMLButtonElement[];
  readonly #copy: HTMLButtonElement;
  readonly #continue: HTMLButtonElement;
  readonly #download: HTMLButtonElement;

  constructor(events: ActionEvents) {
    const quiet = { class: "quiet" };
    this.#continue = button("Continue", events.onContinue, {
      class: "go-on",
      title: "Let the members write on from here",
    });
    this.#copy = button("Copy", () => copyText(events.text(), this.#copy), {
      ...quiet,
      "aria-label": "Copy the answer",
    });
    const again = button("Regenerate", events.onRegenerate, {
      ...quiet,
      title: "Ask the same question again",
    });
    this.#rounds = button("How it was written", events.onRounds, {
      ...quiet,
      "aria-expanded": "false",
    });
    this.#alone = button("Side by side", events.onSideBySide, {
      ...quiet,
      title: "Let each member answer this alone",
    });
    this.#download = button("Download the run", events.onDownload, quiet);
    this.#asking = [this.#continue, again, this.#alone];
    this.root.append(this.#continue, this.#copy, again, this.#rounds, this.#alone, this.#download);
  }

  /** The answer is over. */
  show({ text, rounds, compared, unfinished, replayable }: Possible): void {
    this.root.hidden = false;
    this.#continue.hidden = !unfinished;
    this.#copy.hidden = !text;
    this.#rounds.hidden = !rounds;
    this.#download.hidden = !replayable;
    this.#alone.hidden = !compared;
  }

  /** It goes on. */
  hide(): void {
    this.root.hidden = true;
  }

  /** Whether members can be asked now. */
  set enabled(can: boolean) {
    for (const one of this.#asking) one.disabled = !can;
  }

  set roundsOpen(open: boolean) {
    this.#rounds.setAttribute("aria-expanded", String(open));
  }

  focusSideBySide(): void {
    this.#alone.focus();
  }
}
