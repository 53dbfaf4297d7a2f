/** The answers on the page: asks the members, and shows and keeps what they answer. */
import type { AskOptions, Conclave } from "../library/conclave.ts";
import type { Settings } from "../protocol/engine.ts";
import { typed } from "../protocol/errors.ts";
import { stoppedEnd } from "../protocol/messages.ts";
import type { Advice } from "./advice.ts";
import { byId, isInView } from "./dom.ts";
import type { Exchange } from "./exchange.ts";
import type { FirstWords } from "./first-words.ts";
import type { MembersPanel, Slot } from "./members-panel.ts";
import type { Remedies } from "./remedies.ts";
import type { Roster } from "./roster.ts";
import type { Session } from "./session.ts";
import { SideBySide } from "./side-by-side.ts";
import { noteDropped, type Asked } from "./turns.ts";
import type { WeightsChart } from "./weights-chart.ts";

interface AnswersContext {
  session: Session;
  roster: Roster;
  members: MembersPanel;
  chart: WeightsChart;
  advice: Advice;
  remedies: Remedies;
  /** Forecast of the time to first words; undefined until it is loaded. */
  firstWords: () => FirstWords | undefined;
  /** An answer begins, stops or ends. */
  onState: () => void;
  /** The engine failed and was replaced. */
  onReopened: (conclave: Conclave) => void;
  onFatal: (message: string) => void;
  /** Text for a screen reader. */
  onNews: (text: string) => void;
}

/** Members that are asked, and how. */
export interface Answering extends Omit<AskOptions, "members" | "signal"> {
  slots: Slot[];
}

export class Answers {
  readonly #context: AnswersContext;
  #under: AbortController | undefined;
  /** Exchange whose weights the chart shows. */
  #charted: Exchange | undefined;
  /** Its members as their cards show them: slots, with what they were loaded from. */
  #seated: unknown[] = [];
  /** The last that was asked or continued in this visit. */
  #latest: Exchange | undefined;
  /** Members that answered in this visit, in the order of their exchange. */
  readonly #seats = new WeakMap<Exchange, Slot[]>();

  constructor(context: AnswersContext) {
    this.#context = context;
  }

  /** Whether an answer is under way, and whether it is about to stop. */
  get state(): "idle" | "answering" | "stopping" {
    if (!this.#under) return "idle";
    return this.#under.signal.aborted ? "stopping" : "answering";
  }

  /** Requests a stop; the step under way ends first. */
  stop(): void {
    this.#under?.abort();
    this.#context.onState();
  }

  /** Stops an answer; without one, closes the open round. */
  escape(): void {
    if (this.#under) return this.stop();
    this.#context.session.exchanges.find(({ open }) => open !== undefined)?.close();
  }

  /** Runs a task during which nothing else is asked. */
  async #alone<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { roster, onState } = this.#context;
    const controller = new AbortController();
    this.#under = controller;
    roster.busy = true;
    onState();
    try {
      return await task(controller.signal);
    } finally {
      this.#under = undefined;
      roster.busy = false;
      onState();
    }
  }

  /** Asks the members, and shows and keeps what they answer. */
  async answer(conclave: Conclave, exchange: Exchange, how: Answering): Promise<void> {
    const { members, advice } = this.#context;
    const seats = this.#seats.get(exchange) ?? [];
    for (const slot of how.slots) seats[exchange.context.members.indexOf(slot.source.name)] = slot;
    this.#seats.set(exchange, seats);
    this.#latest = exchange;
    this.#closeOthers(exchange);
    this.#await(exchange, () => members.begin(how.slots));
    advice.clear();
    await this.#alone((signal) => this.#answer(conclave, exchange, { ...how, signal }));
    this.#advise(exchange);
  }

  async #answer(
    conclave: Conclave,
    exchange: Exchange,
    { slots, signal, ...options }: Answering & { signal: AbortSignal },
  ): Promise<void> {
    const { session, roster, members, remedies, onReopened, onNews } = this.#context;
    const firstWords = this.#context.firstWords();
    const names = slots.map(({ source }) => source.name);
    const risk = roster.risk(slots);
    const { messages } = exchange.context;
    const read = { messages, members: slots, thinking: options.thinking };
    const telling = firstWords?.await(conclave, read, !options.accepted?.length);
    if (telling) exchange.foretell(telling, onNews);
    let heard = false;
    try {
      risk.enter("read");
      for await (const event of conclave.ask(messages, {
        overflow: "drop-oldest",
        drafts: slots.length > 1,
        ...options,
        members: names,
        signal,
      })) {
        telling?.take(event, performance.now());
        if (event.type === "reading") exchange.reading(event);
        else if (event.type === "begin") {
          risk.enter("round");
          exchange.begin(session.take(exchange, event));
          noteDropped(exchange, event);
          this.#await(exchange, () => {
            members.weigh(slots, event.weights);
            this.#draw(exchange);
          });
        } else if (event.type === "thinking") follow(exchange, () => exchange.thinking(event));
        else if (event.type === "thought") exchange.thought(session.take(exchange, event));
        else if (event.type === "draft") {
          const place = exchange.context.members.indexOf(names[event.member] ?? "");
          follow(exchange, () => exchange.draft(place, event));
        } else if (event.type === "vote") exchange.vote();
        else if (event.type === "left") {
          const left = session.take(exchange, event);
          follow(exchange, () => exchange.leave(left, remedies.removal(event.member, slots)));
        } else if (event.type === "reopened") onReopened(conclave);
        else if (event.type === "end") {
          const end = session.take(exchange, event);
          follow(exchange, () => exchange.end(end, remedies.afterEnd(event)));
        } else {
          heard = true;
          risk.enter("later");
          const round = session.take(exchange, event);
          follow(exchange, () => exchange.add(round));
          this.#showVotes();
        }
      }
    } catch (thrown) {
      // Switching the engine during an answer stops it too.
      if (signal.aborted)
        return exchange.end(session.take(exchange, stoppedEnd(exchange.text)), []);
      const error = typed(thrown);
      follow(exchange, () => exchange.fail(error, remedies.after(error, exchange, slots)));
      session.settle(exchange, error);
    } finally {
      risk.leave();
      session.settle(exchange);
      // An answer that ended before its first round leaves the chart and the cards as they were.
      if (!heard) this.#showVotes();
      onNews("");
      if (telling) firstWords?.learn(conclave, read, telling, exchange.text);
    }
  }

  /**
   * Lets each member of an answer answer its question alone, in turn, outside the conversation;
   * `only`: just one of them, by index.
   */
  async sideBySide(
    conclave: Conclave | undefined,
    exchange: Exchange,
    only?: number,
  ): Promise<void> {
    if (!conclave || this.#under) return;
    const asked = exchange.context.members.map((_, index) => index);
    const view = new SideBySide(exchange, only === undefined ? asked : [only], () =>
      exchange.showSideBySide(undefined),
    );
    exchange.showSideBySide(view);
    const fatal = await this.#alone((signal) => view.run(conclave, signal));
    if (fatal) this.#context.onFatal(fatal.message);
  }

  /** A round of an exchange was opened or closed: shows its votes, and no other's round. */
  chartOf(exchange: Exchange): void {
    if (exchange.open !== undefined) this.#closeOthers(exchange);
    this.#showVotes();
  }

  /** Closes the other exchanges' rounds; this one stays where it is on the screen. */
  #closeOthers(exchange: Exchange): void {
    const top = (): number => exchange.root.getBoundingClientRect().top;
    const before = top();
    const others = this.#context.session.exchanges.filter((each) => each !== exchange);
    const open = others.filter((each) => each.open !== undefined);
    for (const each of open) each.inspect(each.open!);
    if (open.length > 0) scrollBy(0, top() - before);
  }

  /**
   * Shows an answer that is to have its first round, unless other votes stay beside it: those of an
   * open round, or of its rounds before it goes on.
   */
  #await(exchange: Exchange, show: () => void): void {
    const { exchanges } = this.#context.session;
    const stay = exchange.rounds.length > 0 || exchanges.some(({ open }) => open !== undefined);
    if (stay) this.#showVotes();
    else show();
  }

  /** Shows the weights of an answer in the chart and on the members' cards, or none in either. */
  #showVotes(): void {
    const { chart, members } = this.#context;
    const shown = this.#shown;
    this.#seated = this.#seatsOf(shown);
    if (shown) {
      this.#draw(shown);
      return members.rounds(this.#slotsOf(shown), shown.rounds, shown.open);
    }
    this.#charted = undefined;
    chart.hide();
    members.rest();
  }

  /**
   * Answer of the conversation whose weights are shown: the one with an open round, otherwise the
   * latest. One of an earlier visit is past if a member that voted in it is not here any more.
   */
  get #shown(): Exchange | undefined {
    const voted = this.#context.session.exchanges.filter(({ rounds }) => rounds.length > 0);
    const last = voted.find((each) => each === this.#latest) ?? voted.at(-1);
    return (
      voted.find(({ open }) => open !== undefined) ??
      (last && (this.#seats.has(last) || this.#isOfPresent(last)) ? last : undefined)
    );
  }

  #isOfPresent({ context, rounds }: Exchange): boolean {
    const here = new Set(this.#context.roster.slots.map(({ source }) => source.name));
    return context.members.every(
      (name, place) => here.has(name) || !rounds.some(({ active }) => active.includes(place)),
    );
  }

  #draw(exchange: Exchange): void {
    const { begun, rounds, voices, open } = exchange;
    if (!begun) return;
    this.#charted = exchange;
    const { members: names, weights: start } = begun;
    this.#context.chart.show({ names, voices, start, rounds, open });
  }

  /**
   * Members of an answer with rounds, in its order; only those that are here and voted or failed.
   */
  #slotsOf(exchange: Exchange): (Slot | undefined)[] {
    const { slots } = this.#context.roster;
    const { context, failed, rounds } = exchange;
    return context.members.map((name, place) => {
      if (!failed.includes(name) && !rounds.some(({ active }) => active.includes(place)))
        return undefined;
      const seat = this.#seats.get(exchange)?.[place];
      // It may have another name now.
      return seat && slots.includes(seat) ? seat : slots.find(({ source }) => source.name === name);
    });
  }

  #seatsOf(exchange: Exchange | undefined): unknown[] {
    return exchange ? this.#slotsOf(exchange).flatMap((slot) => [slot, slot?.source]) : [];
  }

  /** Opens a round of the charted exchange. */
  inspect(round: number): void {
    this.#charted?.inspect(round, false);
    this.#charted?.reveal();
  }

  /** Clears what was shown of the last exchanges, after others came onto the page. */
  changed(): void {
    const { advice, session } = this.#context;
    if (this.#charted && session.exchanges.includes(this.#charted)) return;
    advice.reset();
    this.#showVotes();
  }

  /**
   * Shows weights of an earlier visit once their members are here, and no longer; and those of
   * members whose cards are new, after they were renamed or added again.
   */
  heed(): void {
    if (this.#under) return;
    const seated = this.#seatsOf(this.#shown);
    const isSeated = seated.every((each, place) => each === this.#seated[place]);
    if (this.#shown !== this.#charted || !isSeated) this.#showVotes();
  }

  /** Updates the advice after another answer. */
  #advise(exchange: Exchange): void {
    const { session, advice } = this.#context;
    // No advice about an abandoned conversation.
    if (!session.exchanges.includes(exchange)) return;
    const inView = isInView(exchange.root);
    advice.consider(session.exchanges.flatMap(({ voted }) => voted ?? []));
    if (inView) byId("advice", HTMLElement).scrollIntoView({ block: "nearest" });
  }
}

/** Changes an exchange; if its end was in view, keeps it in view above the question box. */
function follow({ root }: Exchange, change: () => void): void {
  const inView = isInView(root);
  change();
  if (inView) root.scrollIntoView({ block: "nearest" });
}

/**
 * Settings under which an answer goes on: its own, with the `limits` chosen now. Each limit that it
 * has reached allows as much again.
 */
export function beyond(
  { rounds, text }: Pick<Exchange, "rounds" | "text">,
  own: Settings,
  limits: Settings = own,
): Settings {
  const more = (limit: number, used: number): number => limit * (Math.floor(used / limit) + 1);
  return {
    ...own,
    maxRounds: more(limits.maxRounds, rounds.length),
    maxCharacters: more(limits.maxCharacters, text.length),
  };
}

/** These members as a turn names them; they are loaded. */
export function askedOf(slots: Slot[]): Asked {
  return {
    members: slots.map(({ source }) => source.name),
    cores: slots.map(
      ({ about, source }) => about?.core ?? (source.builtIn ? "built-in" : "remote"),
    ),
    voices: slots.map(({ voice }) => voice),
  };
}
