/** Messages to the visitor above the conversation, with buttons for what to do next. */
import { button, el } from "./dom.ts";

export interface Action {
  label: string;
  run: () => void;
}

export class Notices {
  readonly #host: HTMLElement;
  readonly #onLast: () => void;

  /** `onLast`: focuses what comes next when the keyboard has closed the last notice. */
  constructor(host: HTMLElement, onLast: () => void = () => undefined) {
    this.#host = host;
    this.#onLast = onLast;
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
    const buttons = actions.map(({ label, run }) => button(label, () => this.#close(notice, run)));
    const close = button("Dismiss", () => this.#close(notice), { class: "quiet" });
    const notice: HTMLElement = el(
      "div",
      { class: `notice ${tone}`, role: tone === "error" ? "alert" : "status", "data-key": key },
      el("p", {}, text),
      el("p", { class: "actions" }, ...buttons, close),
    );
    this.#host.append(notice);
  }

  clear(key: string): void {
    this.#host.querySelector(`[data-key="${CSS.escape(key)}"]`)?.remove();
  }

  /**
   * Removes a notice by one of its buttons. The keyboard's focus goes to the next notice, where it
   * is on “Dismiss”: a key held too long must do nothing else.
   */
  #close(notice: HTMLElement, run?: () => void): void {
    // A tap has no such focus, and must not open a phone's keyboard.
    const byKeyboard = notice.querySelector(":focus-visible") !== null;
    const next = notice.nextElementSibling;
    notice.remove();
    run?.();
    if (!byKeyboard || document.activeElement !== document.body) return;
    const dismiss = (next?.isConnected ? next : this.#host).querySelector<HTMLElement>(".quiet");
    if (dismiss) dismiss.focus();
    else this.#onLast();
  }
}
