/** A question above its answer, which can be edited and asked again. */
import { button, el } from "./dom.ts";
import { isComposing } from "./input-method.ts";

interface QuestionEvents {
  /** Asks the edited question, and calls `onAsked` if that could be done. */
  onAsk: (question: string, onAsked: () => void) => void;
  /** The edited question so far; undefined: it was asked or given up. */
  onEdited: (text: string | undefined) => void;
}

export class QuestionLine {
  readonly root = el("div", { class: "question-line", dir: "auto" });
  readonly #title: HTMLElement;
  readonly #edit: HTMLButtonElement;
  readonly #form: HTMLFormElement;
  readonly #area = el("textarea", { dir: "auto", rows: 1, "aria-label": "The question, edited" });
  readonly #ask = el("button", { type: "submit" }, "Ask again");

  readonly #onEdited: QuestionEvents["onEdited"];

  constructor(question: string, { onAsk, onEdited }: QuestionEvents) {
    this.#onEdited = onEdited;
    this.#title = el("h2", { class: "question" }, question);
    this.#edit = button("Edit", () => (this.open(question), this.#area.focus()), {
      class: "quiet edit",
      "aria-label": "Edit the question and ask again",
    });
    this.#form = el(
      "form",
      { class: "question-form", hidden: true },
      this.#area,
      el(
        "p",
        { class: "actions" },
        this.#ask,
        button("Cancel", () => this.#close(), { class: "quiet" }),
      ),
    );
    const send = (): void => {
      const text = this.#area.value.trim();
      if (text === "" || this.#ask.disabled) return;
      onAsk(text, () => this.#close());
    };
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      send();
    });
    this.#area.addEventListener("input", () => onEdited(this.#area.value));
    this.#area.addEventListener("keydown", (event) => {
      if (isComposing(event)) return; // Its keys are the input method's.
      if (event.key === "Escape") {
        event.stopPropagation(); // It would also stop an answer.
        return this.#close();
      }
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      send();
    });
    this.root.append(this.#title, this.#edit, this.#form);
  }

  /** Whether it can be asked now. */
  set enabled(can: boolean) {
    this.#edit.disabled = !can;
    this.#ask.disabled = !can;
  }

  /** Opens the form with a text. */
  open(text: string): void {
    this.#area.value = text;
    this.#show(true);
  }

  #close(): void {
    this.#onEdited(undefined);
    this.#show(false);
    this.#edit.focus();
  }

  #show(editing: boolean): void {
    this.#form.hidden = !editing;
    this.#edit.hidden = editing;
    // For a screen reader it still heads the answer.
    this.#title.classList.toggle("hidden", editing);
  }
}
