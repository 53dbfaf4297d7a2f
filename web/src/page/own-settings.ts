/** Settings of the visitor's own: instructions for every answer, theme and text size. */
import { keepsNothing } from "../kept/nothing.ts";
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
    try {
      this.#instructions.value = localStorage.getItem(key) ?? "";
    } catch {
      // Storage is off.
    }
    // At every change, not only on leaving the field: a reload leaves it without.
    this.#instructions.addEventListener("input", () => this.#keep());
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
    try {
      localStorage.removeItem(key);
    } catch {
      // There is nothing to forget.
    }
  }

  #keep(): void {
    try {
      if (this.instructions && !keepsNothing()) localStorage.setItem(key, this.#instructions.value);
      else localStorage.removeItem(key);
    } catch {
      // Storage is off or full: they hold for this visit.
    }
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
