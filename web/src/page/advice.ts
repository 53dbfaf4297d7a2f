/**
 * Advice below a conversation: names a member whose vote alone decided many rounds against all
 * others, with a reversible offer to continue without it.
 */
import type { RoundEvent } from "../protocol/messages.ts";
import { isTurnedBy } from "./credits.ts";
import { button, el } from "./dom.ts";

/** Minimum number of voted rounds. */
const fewest = 5;
/** Minimum share of the voted rounds. */
const part = 1 / 3;
/** A member whose starting weight exceeds the others' by this factor is meant to decide. */
const stronger = 1.1;

/** An answer of a conversation: `start` has the members' weights before its first round. */
export interface Voted {
  members: string[];
  start: number[];
  rounds: Pick<RoundEvent, "active" | "shares" | "turnedBy">[];
}

interface Overruling {
  member: string;
  /** Rounds that its vote alone decided, of the rounds it voted in. */
  turned: number;
  voted: number;
}

/**
 * Members whose vote alone decided at least a third of the rounds that they voted in, of five or
 * more; excludes the one trusted most at the start. Worst first.
 */
export function overruling(answers: Voted[]): Overruling[] {
  const found = new Map<string, Overruling>();
  for (const { members, start, rounds } of answers) {
    members.forEach((member, index) => {
      const others = start.filter((_, other) => other !== index);
      if (
        (start[index] ?? 0) >
        (stronger * others.reduce((sum, weight) => sum + weight, 0)) / Math.max(1, others.length)
      )
        return;
      const own = rounds.filter(
        ({ active, shares }) => (shares[active.indexOf(index)]?.length ?? 0) > 0,
      );
      const known = found.get(member) ?? { member, turned: 0, voted: 0 };
      found.set(member, {
        member,
        turned: known.turned + own.filter((round) => isTurnedBy(round, index)).length,
        voted: known.voted + own.length,
      });
    });
  }
  const rate = ({ turned, voted }: Overruling): number => turned / voted;
  return [...found.values()]
    .filter((one) => one.voted >= fewest && rate(one) >= part)
    .sort((a, b) => rate(b) - rate(a));
}

interface AdviceEvents {
  /** Whether the member is present and takes part, and others would be left that can answer. */
  canGo: (member: string) => boolean;
  /** Sets whether the member takes part from the next question on. */
  onTakesPart: (member: string, takesPart: boolean) => void;
}

export class Advice {
  readonly #events: AdviceEvents;
  readonly #text = el("p", { role: "status" });
  readonly #actions = el("p", { class: "actions" });
  /** Members that the visitor decided to keep; not offered again. */
  readonly #kept = new Set<string>();
  /** Member that the advice is about, and whether it was left out. */
  #about: { member: string; out: boolean } | undefined;

  constructor(host: HTMLElement, events: AdviceEvents) {
    this.#events = events;
    host.append(this.#text, this.#actions);
  }

  /** Checks the conversation so far, and shows an offer if there is one. */
  consider(answers: Voted[]): void {
    const found = overruling(answers).find(
      ({ member }) => !this.#kept.has(member) && this.#events.canGo(member),
    );
    if (!found) return this.clear();
    const { member, turned, voted } = found;
    this.#about = { member, out: false };
    this.#show(
      `In this conversation ${member}'s vote alone decided ${turned} of ${voted} rounds ` +
        "against all the others.",
      button(`Answer without ${member}`, () => this.#leaveOut(member)),
      button(`Keep ${member}`, () => this.#keep(member), { class: "quiet" }),
    );
  }

  /** Withdraws outdated advice after members were added, removed or ticked. */
  heed(takesPart: (member: string) => boolean | undefined): void {
    const about = this.#about;
    if (!about) return;
    const now = takesPart(about.member);
    // Ticked again by hand after it was left out: kept.
    if (about.out && now === true) this.#kept.add(about.member);
    if (now !== !about.out) this.clear();
  }

  /** Begins a new conversation. */
  reset(): void {
    this.#kept.clear();
    this.clear();
  }

  clear(): void {
    this.#about = undefined;
    this.#text.textContent = "";
    this.#actions.replaceChildren();
  }

  #leaveOut(member: string): void {
    this.#about = { member, out: true };
    this.#events.onTakesPart(member, false);
    const undo = button(`Let ${member} take part again`, () => {
      this.#events.onTakesPart(member, true);
      this.#keep(member);
    });
    this.#show(`${member} takes no part from the next question on.`, undo);
    undo.focus();
  }

  #keep(member: string): void {
    this.#kept.add(member);
    this.#about = undefined;
    this.#show(`${member} takes part.`);
    document.getElementById("question")?.focus();
  }

  #show(text: string, ...buttons: HTMLElement[]): void {
    this.#text.textContent = text;
    this.#actions.replaceChildren(...buttons);
  }
}
