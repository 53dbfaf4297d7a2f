/**
 * Kept turns on the page: shown again from their events, and continued, possibly by other members
 * than began them.
 */
import { acceptedOf, isOver, messagesOf, type KeptEvent, type KeptTurn } from "../kept/records.ts";
import { fromRecord } from "../protocol/errors.ts";
import type { BeginEvent, RoundEvent } from "../protocol/messages.ts";
import { el } from "./dom.ts";
import { isWhole, pagesOf } from "./extent.ts";
import { Exchange, type ExchangeContext } from "./exchange.ts";

/** Context of an exchange besides its turn. */
type Surroundings = Pick<ExchangeContext, "messages" | "note" | "onEdited" | keyof Reactions>;

/** Reactions to what is done with an exchange. */
export type Reactions = Pick<
  ExchangeContext,
  "onInspect" | "onSideBySide" | "onAgain" | "onContinue"
>;

/** The exchange of a turn; `kept`: with all that is kept of it. */
export function exchangeOf(turn: KeptTurn, around: Surroundings, kept: boolean): Exchange {
  const { question, members, cores, voices, backend, adapter } = turn;
  const exchange = new Exchange({
    question,
    // The same lists: members that join later are added to both.
    members,
    cores,
    voices,
    backend,
    adapter,
    kept,
    ...(turn.continued && { continued: true }),
    ...around,
    messages: messagesOf(turn, around.messages),
  });
  const { attached } = turn;
  if (attached) note(exchange, attachedText(attached));
  if (kept) replay(exchange, turn);
  return exchange;
}

function replay(exchange: Exchange, turn: KeptTurn): void {
  if (turn.events.length === 0 && turn.members.length === 0) return exchange.showText(turn.answer);
  for (const event of turn.events) {
    if (event.type === "begin") {
      exchange.begin(event);
      noteDropped(exchange, event);
    } else if (event.type === "thought") exchange.thought(event);
    else if (event.type === "left") exchange.leave(event, []);
    else if (event.type === "round") exchange.add(event);
    else exchange.end(event, []);
  }
  if (!isOver(turn)) return;
  if (turn.failure) exchange.fail(fromRecord(turn.failure), []);
}

/** Adds a line below the question. */
function note(exchange: Exchange, text: string): void {
  exchange.root
    .querySelector(".question-line")
    ?.after(el("p", { class: "hint about-question" }, text));
}

/** Shows how many messages were left out for lack of room. */
export function noteDropped(exchange: Exchange, { dropped }: Pick<BeginEvent, "dropped">): void {
  const turns = Math.ceil(dropped / 2);
  if (turns === 0) return;
  const oldest =
    turns === 1
      ? "oldest question was left out, with its answer"
      : `oldest ${turns} questions were left out, with their answers`;
  note(
    exchange,
    `There is no room for all that was said before: the ${oldest}. ` +
      "“Room for a conversation” under “Change” sets how much there is.",
  );
}

function attachedText(attached: NonNullable<KeptTurn["attached"]>): string {
  const { name, text, whole, pages } = attached;
  const rest = isWhole(attached) ? "." : "; the rest had no room.";
  if (pages) return `With ${name}: ${pagesOf(text, pages)}${rest}`;
  return isWhole(attached)
    ? `With ${name}.`
    : `With ${name}: its first ${text.length.toLocaleString("en")} ` +
        `of ${whole.toLocaleString("en")} characters${rest}`;
}

/** A member that is asked. */
export type Asked = Pick<KeptTurn, "members" | "cores" | "voices">;

/** A turn under way, whose events may come from other members than began it. */
export class Turning {
  readonly turn: KeptTurn;
  /** Segments from which the answer goes on. */
  readonly accepted: { text: string; tokens: number }[];
  /** Index among the turn's members of each member that is asked. */
  readonly places: readonly number[];

  constructor(turn: KeptTurn, by: Asked) {
    this.turn = turn;
    this.accepted = acceptedOf(turn);
    this.places = by.members.map((name, index) => {
      const known = turn.members.indexOf(name);
      if (known >= 0) return known;
      turn.cores.push(by.cores[index]!);
      turn.voices.push(by.voices[index]!);
      return turn.members.push(name) - 1;
    });
    if (this.accepted.length > 0) turn.continued = true;
    // The answer continues, so that an earlier error or stop no longer holds.
    delete turn.failure;
    turn.events = turn.events.filter(({ type }) => type !== "end");
  }

  /** Adds an event to the turn; returns it in terms of the turn's members. */
  take<E extends KeptEvent>(event: E): E {
    const { events } = this.turn;
    if (event.type === "begin") {
      const at = events.findIndex(({ type }) => type === "begin");
      const begin = merged(events[at] as BeginEvent | undefined, event, {
        members: this.turn.members,
        places: this.places,
      });
      if (at >= 0) events[at] = begin;
      else events.push(begin);
      return begin as E;
    }
    const mine = event.type === "round" ? placed(event, this.places) : event;
    events.push(mine);
    if (mine.type === "round") this.turn.answer += mine.text;
    return mine as E;
  }
}

/** A round in terms of other indices. */
export function placed(round: RoundEvent, places: readonly number[]): RoundEvent {
  const all = (members: number[]): number[] => members.map((member) => places[member] ?? member);
  return {
    ...round,
    active: all(round.active),
    remote: all(round.remote),
    abstained: all(round.abstained),
    drafters: all(round.drafters),
    exited: all(round.exited),
  };
}

/** The beginning of a turn, with the facts of members that joined it later. */
function merged(
  first: BeginEvent | undefined,
  now: BeginEvent,
  { members, places }: { members: readonly string[]; places: readonly number[] },
): BeginEvent {
  if (!first && now.members.length === members.length) return now;
  const known = first ?? now;
  const each = <T>(list: "prefixes" | "strengths" | "chats" | "weights", without: T): T[] =>
    members.map((_, index) => {
      const before = (first?.[list] as T[] | undefined)?.[index];
      return before ?? (now[list] as T[])[places.indexOf(index)] ?? without;
    });
  return {
    ...known,
    settings: now.settings, // with limits that allow more
    members: [...members],
    prefixes: each("prefixes", { prefix: 0, run: 0 }),
    strengths: each<number | null>("strengths", null),
    chats: each("chats", true),
    weights: each("weights", 0),
  };
}
