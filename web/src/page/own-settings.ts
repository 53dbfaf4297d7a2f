/** Settings of the visitor's own: instructions for every answer, theme and text size. */
import { keepText, keptText } from "../kept/kept-text.ts";
import {
  forgetAppearance,
  recallAppearance,
  rememberAppearance,
  sizes,
  themes,
  type Appearance,
} from "./appearance.ts";
import { el } from "./dom.ts";

const key = "conclave instructions";

export class OwnSettings {
  readonly root = el("div", {});
  readonly #instructions = el("textarea", {
    id: "setting-instructions",
    rows: 3,
    dir: "auto",
    "aria-describedby": "help-instructions",
    placeholder: "For example: Answer briefly, in plain words.",
  });
  #appearance = recallAppearance();

  constructor() {
    this.#instructions.value = keptText(key) ?? "";
    // At every change, not only on leaving the field: a reload leaves it without.
    this.#instructions.addEventListener("input", () =>
      keepText(key, this.instructions && this.#instructions.value),
    );
    this.root.append(
      el(
        "fieldset",
        {},
        el("legend", {}, "Instructions"),
        el(
          "div",
          { class: "field wide" },
          el("label", { for: "setting-instructions" }, "System prompt"),
          this.#instructions,
          el(
            "small",
            { id: "help-instructions" },
            "All members read it before the conversation, from the next question on.",
          ),
        ),
      ),
      el(
        "fieldset",
        {},
        el("legend", {}, "Appearance"),
        this.#select("theme", "Theme", themes),
        this.#select("size", "Text size", sizes),
      ),
    );
  }

  /** The visitor's instructions for every answer; undefined if there are none. */
  get instructions(): string | undefined {
    return this.#instructions.value.trim() || undefined;
  }

  /** Deletes what is kept of them; they hold for this visit. */
  forget(): void {
    forgetAppearance();
    keepText(key, undefined);
  }

  #select<K extends keyof Appearance>(
    name: K,
    label: string,
    options: Record<Appearance[K], string>,
  ): HTMLElement {
    const id = `setting-${name}`;
    const entries = Object.entries<string>(options);
    const select = el(
      "select",
      { id },
      ...entries.map(([value, text]) =>
        el("option", { value, selected: value === this.#appearance[name] }, text),
      ),
    );
    select.addEventListener("change", () => {
      this.#appearance = { ...this.#appearance, [name]: select.value };
      rememberAppearance(this.#appearance);
    });
    return el("div", { class: "field" }, el("label", { for: id }, label), select);
  }
}
