/** Actions on an answer: copy, regenerate, continue, and look into its rounds. */
import { copyText } from "../library/markdown/copy.ts";
import { button, el } from "./dom.ts";

interface ActionEvents {
  /** The plain text of the answer, in Markdown. */
  text: () => string;
  onRegenerate: () => void;
  onContinue: () => void;
  /** Opens or closes the rounds. */
  onRounds: () => void;
  /** `strongest`: lets only the strongest member answer. */
  onSideBySide: (strongest: boolean) => void;
  onDownload: () => void;
  /** Rejects if no picture can be made. */
  onPicture: () => Promise<void>;
}

interface Possible {
  text: boolean;
  /** Whether the rounds of the answer are known. */
  rounds: boolean;
  /** Whether several members answered. */
  compared: boolean;
  /** Name of the strongest of these members. */
  strongest: string | undefined;
  /** Whether the answer ended before it was complete and can be continued. */
  unfinished: boolean;
  /** Whether the answer can be downloaded as a run. */
  replayable: boolean;
}

/** Ways to ask again that are open now. */
interface Askable {
  /** Whether members can be asked at all. */
  asking: boolean;
  /** Text on why those that would answer can't go on with this answer, if they can't. */
  unable: string | undefined;
  /** Whether all members of the answer are there. */
  alone: boolean;
  /** Whether its strongest member is. */
  strongest: boolean;
}

const goOnTitle = "Let the members write on from here";
/** Counts the answers, to tell their elements apart. */
let made = 0;

export class AnswerActions {
  readonly root = el("div", {
    class: "answer-actions",
    role: "group",
    "aria-label": "This answer",
    hidden: true,
  });
  readonly #rounds: HTMLButtonElement;
  readonly #alone: HTMLButtonElement;
  readonly #strongest: HTMLButtonElement;
  /** Button that was pressed last, of `#alone` and `#strongest`. */
  #compared: HTMLButtonElement;
  readonly #asking: HTMLButtonElement[];
  readonly #copy: HTMLButtonElement;
  readonly #continue: HTMLButtonElement;
  /** Text on why it can't be pressed now. */
  readonly #whyNot = el("span", { class: "why-not", id: `answer-${++made}-why-not` });
  readonly #download: HTMLButtonElement;
  readonly #picture: HTMLButtonElement;

  constructor(events: ActionEvents) {
    const quiet = { class: "quiet" };
    this.#continue = button("Continue", events.onContinue, {
      class: "go-on",
      title: goOnTitle,
      "aria-describedby": this.#whyNot.id,
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
    const compare = (label: string, title: string, strongest: boolean): HTMLButtonElement => {
      const one = button(
        label,
        () => {
          this.#compared = one;
          events.onSideBySide(strongest);
        },
        { ...quiet, title },
      );
      return one;
    };
    this.#alone = compare("Side by side", "Let each member answer this alone", false);
    this.#strongest = compare("", "Let the strongest member answer this alone", true);
    this.#compared = this.#alone;
    this.#download = button("Download the run", events.onDownload, quiet);
    this.#picture = button(
      "Save as picture",
      () =>
        events.onPicture().catch(() => {
          this.#picture.textContent = "No picture can be made here";
        }),
      quiet,
    );
    this.#asking = [this.#continue, again, this.#alone, this.#strongest];
    this.root.append(
      ...[this.#continue, this.#whyNot, this.#copy, again, this.#rounds],
      ...[this.#strongest, this.#alone, this.#picture, this.#download],
    );
  }

  /** The answer is over. */
  show({ text, rounds, compared, strongest, unfinished, replayable }: Possible): void {
    this.root.hidden = false;
    this.#continue.hidden = this.#whyNot.hidden = !unfinished;
    this.#copy.hidden = this.#picture.hidden = !text;
    this.#rounds.hidden = !rounds;
    this.#download.hidden = !replayable;
    this.#alone.hidden = !compared;
    this.#strongest.hidden = !compared || strongest === undefined;
    this.#strongest.textContent = `Ask ${strongest ?? ""} alone`;
  }

  /** Hides all actions, since the answer continues. */
  hide(): void {
    this.root.hidden = true;
  }

  /** Sets what can be asked of the members that are there now. */
  enable({ asking, unable, ...can }: Askable): void {
    for (const one of this.#asking) one.disabled = !asking;
    this.#continue.disabled = !asking || unable !== undefined;
    // While the members are busy all that they could do is disabled, which passes: the text is then
    // for screen readers, so that nothing moves.
    const whyNot = unable ?? (asking ? "" : "The members are busy now.");
    this.#whyNot.textContent = whyNot;
    this.#whyNot.classList.toggle("hidden", unable === undefined);
    this.#continue.title = whyNot || goOnTitle;
    if (!can.alone) this.#alone.disabled = true;
    if (!can.strongest) this.#strongest.disabled = true;
  }

  set roundsOpen(open: boolean) {
    this.#rounds.setAttribute("aria-expanded", String(open));
  }

  /** Focuses the button that opens the rounds; returns whether it could. */
  focusRounds(): boolean {
    this.#rounds.focus();
    return document.activeElement === this.#rounds;
  }

  focusSideBySide(): void {
    this.#compared.focus();
  }
}
