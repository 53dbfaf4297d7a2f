/** Messages to the visitor above the conversation, with buttons for what to do next. */
import { button, el } from "./dom.ts";

export interface Action {
  label: string;
  run: () => void;
}

export class Notices {
  readonly #host: HTMLElement;

  constructor(host: HTMLElement) {
    this.#host = host;
  }

  /**
   * Shows a notice, replacing one with the same `key`. Errors interrupt a screen reader, hints
   * wait.
   */
  show(
    key: string,
    tone: "error" | "warning" | "hint",
    text: string,
    actions: Action[] = [],
  ): void {
    this.clear(key);
    const buttons = actions.map(({ label, run }) => button(label, () => (this.clear(key), run())));
    const close = button("Dismiss", () => this.clear(key), { class: "quiet" });
    this.#host.append(
      el(
        "div",
        { class: `notice ${tone}`, role: tone === "error" ? "alert" : "status", "data-key": key },
        el("p", {}, text),
        el("p", { class: "actions" }, ...buttons, close),
      ),
    );
  }

  clear(key: string): void {
    this.#host.querySelector(`[data-key="${CSS.escape(key)}"]`)?.remove();
  }
}
