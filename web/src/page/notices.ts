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
   * Shows a notice, replacing one with the same `key`, whose focus goes to “Dismiss” or the first
   * button. Errors interrupt a screen reader, hints wait. `onDismiss`: called when it is dismissed;
   * null if it can't be.
   */
  show(
    key: string,
    tone: "error" | "warning" | "hint",
    text: string,
    actions: Action[] = [],
    onDismiss?: (() => void) | null,
  ): void {
    const old = this.#find(key);
    const focused = old?.querySelector(":focus");
    old?.remove();
    const buttons = actions.map(({ label, run }) => button(label, () => this.#close(notice, run)));
    const close = button("Dismiss", () => this.#close(notice, onDismiss ?? undefined), {
      class: "quiet",
    });
    const notice: HTMLElement = el(
      "div",
      { class: `notice ${tone}`, role: tone === "error" ? "alert" : "status", "data-key": key },
      el("p", {}, text),
      el("p", { class: "actions" }, ...buttons, onDismiss === null ? "" : close),
    );
    this.#host.append(notice);
    if (focused) (onDismiss === null ? (buttons[0] ?? close) : close).focus();
  }

  /** Shows how far a notice's task is, from 0 to 1. */
  progress(key: string, share: number, label: string): void {
    const notice = this.#find(key);
    let bar = notice?.querySelector("progress");
    if (notice && !bar) {
      bar = el("progress", { max: 1, "aria-label": label });
      notice.lastElementChild?.before(bar);
    }
    if (bar) bar.value = share;
  }

  clear(key: string): void {
    const notice = this.#find(key);
    if (notice) this.#close(notice);
  }

  #find(key: string): HTMLElement | null {
    return this.#host.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
  }

  /**
   * Removes a notice, as by one of its buttons. The keyboard's focus goes to the next notice, where
   * it is on “Dismiss”: a key held too long must do nothing else.
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
