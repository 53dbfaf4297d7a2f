/**
 * A round while it happens: each member's draft grows in its colour, then the votes are drawn, then
 * one draft is kept. A screen reader hears the answer instead.
 */
import type { RoundEvent } from "../protocol/messages.ts";
import { el, voice } from "./dom.ts";

/** Used fields of a round. */
type Decided = Pick<RoundEvent, "drafters" | "winner" | "writers" | "totals"> & {
  candidates: Pick<RoundEvent["candidates"][number], "text" | "ended">[];
};

/** Time in which a draft that arrives whole is shown letter by letter. */
const growMs = 450;
/** A decision stays in view so long; rounds that are decided meanwhile are left out. */
const holdMs = 900;
/**
 * Time in ms before drafts are shown. A faster answer shows none, since they would only flicker.
 */
const patienceMs = 500;

interface Row {
  root: HTMLElement;
  text: HTMLElement;
  bar: HTMLElement;
  state: HTMLElement;
}

export class Drafting {
  readonly root = el("div", { class: "drafting", hidden: true, "aria-hidden": "true" });
  readonly #names: readonly string[];
  readonly #voices: readonly number[];
  /** Rows by drafting member. */
  #rows = new Map<number, Row>();
  readonly #list = el("ol", {});
  readonly #title = el("p", { class: "drafting-title" });
  readonly #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #waiting: ReturnType<typeof setTimeout> | undefined;
  #holding: ReturnType<typeof setTimeout> | undefined;
  /** The round under way is shown, waits until the last decision was seen, or has no draft yet. */
  #round: "shown" | "held" | "over" = "over";
  /** Time at which the last round was decided. */
  #decided = Number.NEGATIVE_INFINITY;
  /** Steps of the round that waits. */
  #held: (() => void)[] = [];

  constructor(names: readonly string[], voices: readonly number[]) {
    this.#names = names;
    this.#voices = voices;
    this.root.append(this.#title, this.#list);
    this.of([...names.keys()]);
  }

  /** Sets the places of the members that draft. */
  of(members: readonly number[]): void {
    this.#rows = new Map(
      members.map((member) => [
        member,
        row(this.#names[member] ?? "", voice(this.#voices[member] ?? member)),
      ]),
    );
    this.#list.replaceChildren(...[...this.#rows.values()].map(({ root }) => root));
  }

  /**
   * Shows drafts from now on, after a delay. Does nothing for a single member, whose drafts are the
   * answer.
   */
  begin(): void {
    if (this.#rows.size < 2) return;
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => (this.root.hidden = false), patienceMs);
    this.#next();
  }

  /** Shows a draft that has arrived. The first draft of a round begins the round. */
  draft(member: number, text: string, ended: boolean): void {
    if (this.#round === "over") this.#next();
    this.#step(() => {
      const shown = this.#rows.get(member);
      if (!shown) return;
      shown.root.dataset["state"] = "drafted";
      this.#grow(shown, wordsOf(text, ended));
    });
  }

  /** Removes the row of a member that drafts no more. */
  leave(member: number): void {
    this.#rows.get(member)?.root.remove();
    this.#rows.delete(member);
  }

  /** All drafts are there, and members score them. */
  vote(): void {
    this.#step(() => (this.#title.textContent = "All members score all drafts…"));
  }

  /** The round is decided. */
  decide(round: Decided): void {
    const shown = this.#round === "shown";
    this.#round = "over";
    clearTimeout(this.#holding);
    if (!shown) return;
    this.#decided = performance.now();
    const { drafters, candidates, totals, winner, writers } = round;
    const votes = (place: number): number => totals[place] ?? 0;
    const most = Math.max(...totals, 0);
    this.#title.textContent =
      totals.length > 0 ? "The draft with the most votes is kept." : "Nobody doubted this draft.";
    // A member's row shows its candidate with the most votes.
    const order = drafters.map((_, place) => place).sort((a, b) => votes(a) - votes(b));
    for (const place of [...order, winner]) {
      const [row, candidate] = [this.#rows.get(drafters[place] ?? -1), candidates[place]];
      if (!row || !candidate) continue;
      row.text.textContent = wordsOf(candidate.text, candidate.ended);
      row.bar.style.inlineSize = `${most > 0 ? (votes(place) / most) * 100 : 0}%`;
      const kept = place === winner;
      row.state.textContent = kept ? "kept" : writers.includes(place) ? "the same" : "";
      row.root.dataset["state"] = kept || writers.includes(place) ? "kept" : "lost";
    }
  }

  end(): void {
    clearTimeout(this.#waiting);
    clearTimeout(this.#holding);
    this.#round = "over";
    this.#decided = Number.NEGATIVE_INFINITY;
    this.root.hidden = true;
  }

  /** Begins another round: shows it at once, or holds it while the last decision stays in view. */
  #next(): void {
    const left = this.#decided + holdMs - performance.now();
    if (left <= 0) return this.#open();
    this.#round = "held";
    this.#held = [];
    clearTimeout(this.#holding);
    this.#holding = setTimeout(() => this.#open(), left);
  }

  /** Shows the round under way, with its steps so far. */
  #open(): void {
    const steps = this.#round === "held" ? this.#held : [];
    this.#round = "shown";
    this.#title.textContent = "Each member drafts the next words…";
    for (const row of this.#rows.values()) {
      row.root.dataset["state"] = "drafting";
      row.text.textContent = "";
      row.state.textContent = "";
      row.bar.style.inlineSize = "0";
    }
    for (const step of steps) step();
  }

  #step(step: () => void): void {
    if (this.#round === "shown") step();
    else if (this.#round === "held") this.#held.push(step);
  }

  #grow({ text }: Row, whole: string): void {
    if (this.#calm.matches) return void (text.textContent = whole);
    const began = performance.now();
    let last = "";
    const step = (now: number): void => {
      // Another text has come.
      if (text.textContent !== last || !text.isConnected) return;
      const part = Math.min(1, Math.max(0, now - began) / growMs);
      last = whole.slice(0, Math.round(whole.length * part));
      text.textContent = last;
      if (part < 1) requestAnimationFrame(step);
    };
    text.textContent = "";
    requestAnimationFrame(step);
  }
}

function row(name: string, colour: string): Row {
  const made = {
    root: el("li", { class: colour }),
    text: el("span", { class: "draft", dir: "auto" }),
    bar: el("span", {}),
    state: el("span", { class: "mark" }),
  };
  made.root.append(
    el("span", { class: "name" }, name),
    made.text,
    el("span", { class: "tally" }, el("span", { class: "meter" }, made.bar), made.state),
  );
  return made;
}

/** A draft as a line; one without words says what it does. */
function wordsOf(text: string, ended: boolean): string {
  const words = text.replace(/\s+/g, " ").trim();
  if (words === "") return ended ? "(ends the answer)" : "…";
  return words + (ended ? " ■" : "");
}
