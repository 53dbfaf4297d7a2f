/**
 * The text of an answer: Markdown in which each segment is tinted and underlined as its writer is.
 * A finished one by one writer has a stripe beside it instead, unless it is short. For a screen
 * reader it is one text. A press on a segment opens its round; the answer is one Tab stop, and
 * arrows move from round to round.
 */
import { copiedCode, showMarkdown, type Written } from "../library/markdown/show.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { copyText } from "../library/markdown/copy.ts";
import { el, voice } from "./dom.ts";
import { sentence } from "./figures.ts";

/** Used fields of a round. */
type Shown = Pick<RoundEvent, "round" | "text" | "drafters" | "winner" | "writers"> & {
  candidates: Pick<RoundEvent["candidates"][number], "member">[];
};

interface AnswerEvents {
  /** A round is chosen. A second press closes it, not an arrow, which comes to an open one. */
  onRound: (round: number, by: "pointer" | "key" | "arrow") => void;
}

/** An element from which the keyboard opens a round. */
interface Stop {
  element: HTMLElement;
  round: number;
}

export class AnswerView {
  readonly root = el("div", { class: "answer prose growing", dir: "auto", "aria-live": "polite" });
  readonly #voices: readonly number[];
  /**
   * Rounds whose text has no element of its own, because it is markup or lies inside a formula. The
   * key is the element that opens these rounds too.
   */
  readonly #inside = new Map<HTMLElement, Shown[]>();
  #open: number | undefined;
  /** Colour of all rounds, if they have one and the text is not short: several rounds or blocks. */
  #colour: string | undefined;
  /** Colour of the stripe beside a text that is over. */
  #stripe: string | undefined;

  /** Without events its rounds can't be opened. */
  constructor(voices: readonly number[], events?: AnswerEvents) {
    this.#voices = voices;
    this.root.addEventListener("click", ({ target }) => {
      const code = copiedCode(target);
      if (code !== undefined) return void copyText(code, target as HTMLElement);
      if (!events || !(target instanceof Element) || target.closest("a, button")) return;
      // A selection ends with a click as well.
      const segment = target.closest<HTMLElement>(".segment");
      if (!segment || !(getSelection()?.isCollapsed ?? true)) return;
      const stop = this.#stops().find(({ round }) => round === roundOf(segment));
      // Keys go on from here, and nothing scrolls to it.
      if (stop) this.#focus(stop.element, { preventScroll: true });
      this.#press([roundOf(segment), ...this.#roundsInside(segment)], "pointer", events);
    });
    if (events) this.root.addEventListener("keydown", (event) => this.#moveFocus(event, events));
  }

  show(rounds: readonly Shown[]): void {
    const written = rounds.filter(({ text }) => text !== "");
    showMarkdown(
      this.root,
      written.map((round) => this.#of(round)),
    );
    const [colour, ...others] = new Set(written.map((round) => this.#colourOf(round)));
    const short = written.length === 1 && this.root.childElementCount === 1;
    this.#colour = others.length === 0 && !short ? colour : undefined;
    if (this.#stripe) this.#showStripe(this.#colour);
    this.#findInside(rounds);
    const stops = this.#stops();
    if (!stops.some(({ element }) => element.tabIndex === 0))
      stops[0]?.element.setAttribute("tabindex", "0");
  }

  /** Finds an element for each round that has none: the last one before the round's text. */
  #findInside(rounds: readonly Shown[]): void {
    this.#inside.clear();
    const last = new Map(this.#segments().map((segment) => [roundOf(segment), segment]));
    let before = last.values().next().value;
    for (const shown of rounds) {
      const own = last.get(shown.round);
      if (own) before = own;
      else if (before && shown.text.trim() !== "")
        this.#inside.set(before, [...(this.#inside.get(before) ?? []), shown]);
    }
    for (const [element, inside] of this.#inside)
      element.title = [element.title, ...inside.map((shown) => titleOf(shown))].join("; ");
  }

  /** Shows a text whose writers are unknown. */
  showText(text: string): void {
    showMarkdown(this.root, [{ text, attributes: { class: "whole" } }]);
  }

  /** Marks the answer as over. Shows `none` if the answer has no text. */
  settle(none: string): void {
    this.root.classList.remove("growing");
    this.#showStripe(this.#colour);
    if (!this.root.hasChildNodes()) this.root.append(el("em", { class: "hint" }, none));
  }

  /** Marks the answer as growing again. */
  resume(): void {
    this.root.classList.add("growing");
    this.#showStripe(undefined);
    this.root.querySelector(":scope > em.hint")?.remove();
  }

  #showStripe(colour: string | undefined): void {
    if (this.#stripe) this.root.classList.remove("striped", this.#stripe);
    if (colour) this.root.classList.add("striped", colour);
    this.#stripe = colour;
  }

  /** Marks the segment of an open round. */
  mark(round: number | undefined): void {
    this.#open = round;
    for (const part of this.#segments())
      part.toggleAttribute(
        "data-open",
        round !== undefined && [roundOf(part), ...this.#roundsInside(part)].includes(round),
      );
  }

  /** Focuses a round's text; of a round without text the text before it, or else the first. */
  focus(round: number): void {
    const stops = this.#stops();
    const stop = stops.findLast((stop) => stop.round <= round) ?? stops[0];
    if (stop) this.#focus(stop.element);
  }

  /** Focuses an element, which becomes the answer's Tab stop. */
  #focus(element: HTMLElement, options?: FocusOptions): void {
    for (const stop of this.#stops()) stop.element.tabIndex = stop.element === element ? 0 : -1;
    element.focus(options);
  }

  #colourOf(shown: Shown): string {
    const member = shown.drafters[shown.winner] ?? 0;
    // Text that several wrote alike is nobody's alone.
    return writersOf(shown).length > 1 ? "alike" : voice(this.#voices[member] ?? member);
  }

  #of(shown: Shown): Written {
    const { round, text } = shown;
    return {
      text,
      attributes: {
        class: `segment ${this.#colourOf(shown)}`,
        "data-round": String(round),
        title: titleOf(shown),
      },
    };
  }

  #segments(): HTMLElement[] {
    return [...this.root.querySelectorAll<HTMLElement>(".segment")];
  }

  #roundsInside(element: HTMLElement): number[] {
    return (this.#inside.get(element) ?? []).map(({ round }) => round);
  }

  /** The first element of each round, in their order; others continue it. */
  #stops(): Stop[] {
    const seen = new Set<number>();
    return this.#segments().flatMap((element) => {
      const round = roundOf(element);
      const starts = element.textContent?.trim() !== "" && !seen.has(round);
      if (starts) seen.add(round);
      const rounds = [...(starts ? [round] : []), ...this.#roundsInside(element)];
      return rounds.map((round) => ({ element, round }));
    });
  }

  /** Opens the first of an element's rounds, the one after the open one, or closes the last. */
  #press(rounds: readonly number[], by: "pointer" | "key", { onRound }: AnswerEvents): void {
    const here = rounds.indexOf(this.#open ?? -1);
    const next = rounds[here + 1] ?? rounds[here];
    if (next !== undefined) onRound(next, by);
  }

  #moveFocus(event: KeyboardEvent, events: AnswerEvents): void {
    const stops = this.#stops();
    const own = stops.filter(({ element }) => element === event.target);
    const [first] = own;
    if (!first) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.#press(
        own.map(({ round }) => round),
        "key",
        events,
      );
    }
    const here = own.find(({ round }) => round === this.#open) ?? first;
    // Within an element a step only shows while a round is open.
    const steps =
      this.#open === undefined
        ? stops.filter((stop, place) => stop.element !== stops[place - 1]?.element)
        : stops;
    const place = steps.indexOf(this.#open === undefined ? first : here);
    const places: Record<string, number> = {
      ArrowRight: place + 1,
      ArrowLeft: place - 1,
      Home: 0,
      End: steps.length - 1,
    };
    const next = steps[places[event.key] ?? -1];
    if (!next) return;
    event.preventDefault();
    this.#focus(next.element);
    if (this.#open !== undefined) events.onRound(next.round, "arrow");
  }
}

const roundOf = ({ dataset }: HTMLElement): number => Number(dataset["round"]);

const writersOf = ({ writers, candidates }: Shown): string[] =>
  writers.map((place) => candidates[place]?.member ?? "");

const titleOf = (shown: Shown): string => `Round ${shown.round}, by ${sentence(writersOf(shown))}`;
