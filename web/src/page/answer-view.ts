/**
 * The text of an answer: Markdown in which each segment is tinted and underlined as its writer is.
 * For a screen reader it is one text. A press on a segment opens its round; the answer is one Tab
 * stop, and arrows move from round to round.
 */
import { copiedCode, showMarkdown, type Written } from "../library/markdown/show.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { copyText } from "../library/markdown/copy.ts";
import { el, voice } from "./dom.ts";
import { sentence } from "./figures.ts";

/** Used fields of a round. */
export type Shown = Pick<RoundEvent, "round" | "text" | "drafters" | "winner" | "writers"> & {
  candidates: Pick<RoundEvent["candidates"][number], "member">[];
};

export interface AnswerEvents {
  /** A round is chosen; `toggle`: a second press closes it. */
  onRound: (round: number, toggle: boolean) => void;
  /** Whether a round is open. */
  isOpen: () => boolean;
}

export class AnswerView {
  readonly root = el("div", { class: "answer prose growing", dir: "auto", "aria-live": "polite" });
  readonly #voices: readonly number[];

  /** Without events its rounds can't be opened. */
  constructor(voices: readonly number[], events?: AnswerEvents) {
    this.#voices = voices;
    this.root.addEventListener("click", ({ target }) => {
      const code = copiedCode(target);
      if (code !== undefined) return void copyText(code, target as HTMLElement);
      if (!events || !(target instanceof Element) || target.closest("a, button")) return;
      // A selection ends with a click as well.
      const round = target.closest<HTMLElement>(".segment")?.dataset["round"];
      if (round !== undefined && (getSelection()?.isCollapsed ?? true))
        events.onRound(Number(round), true);
    });
    if (events) this.root.addEventListener("keydown", (event) => this.#moveFocus(event, events));
  }

  show(rounds: readonly Shown[]): void {
    showMarkdown(
      this.root,
      rounds.filter(({ text }) => text !== "").map((round) => this.#of(round)),
    );
    const starts = this.#starts();
    if (!starts.some((start) => start.tabIndex === 0)) starts[0]?.setAttribute("tabindex", "0");
  }

  /** Shows a text whose writers are unknown. */
  showText(text: string): void {
    showMarkdown(this.root, [{ text, attributes: { class: "whole" } }]);
  }

  /** Ends it; `none`: shown if there is no text. */
  settle(none: string): void {
    this.root.classList.remove("growing");
    if (!this.root.hasChildNodes()) this.root.append(el("em", { class: "hint" }, none));
  }

  /** It goes on. */
  resume(): void {
    this.root.classList.add("growing");
    this.root.querySelector(":scope > em.hint")?.remove();
  }

  /** Marks the segment of an open round. */
  mark(round: number | undefined): void {
    for (const part of this.root.querySelectorAll<HTMLElement>(".segment"))
      part.toggleAttribute("data-open", part.dataset["round"] === String(round));
  }

  focus(round: number): void {
    this.#starts()
      .find((start) => start.dataset["round"] === String(round))
      ?.focus();
  }

  #of({ round, text, drafters, winner, writers, candidates }: Shown): Written {
    const member = drafters[winner] ?? 0;
    const names = writers.map((place) => candidates[place]?.member ?? "");
    // Text that several wrote alike is nobody's alone.
    const colour = names.length > 1 ? "alike" : voice(this.#voices[member] ?? member);
    return {
      text,
      attributes: {
        class: `segment ${colour}`,
        "data-round": String(round),
        title: `Round ${round}, by ${sentence(names)}`,
      },
    };
  }

  /** The first element of each round; others continue it. */
  #starts(): HTMLElement[] {
    const seen = new Set<string | undefined>();
    return [...this.root.querySelectorAll<HTMLElement>(".segment")].filter(
      ({ dataset, textContent }) =>
        textContent?.trim() !== "" && !seen.has(dataset["round"]) && seen.add(dataset["round"]),
    );
  }

  #moveFocus(event: KeyboardEvent, { onRound, isOpen }: AnswerEvents): void {
    const starts = this.#starts();
    const here = starts.indexOf(event.target as HTMLElement);
    if (here < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return onRound(Number(starts[here]?.dataset["round"]), true);
    }
    const steps: Record<string, number> = {
      ArrowRight: here + 1,
      ArrowLeft: here - 1,
      Home: 0,
      End: starts.length - 1,
    };
    const next = starts[steps[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    for (const start of starts) start.tabIndex = start === next ? 0 : -1;
    next.focus();
    if (isOpen()) onRound(Number(next.dataset["round"]), false);
  }
}
