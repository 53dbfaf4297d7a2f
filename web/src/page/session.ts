/**
 * The conversation on the page and what is kept of it: its turns as they are answered, and the
 * half-typed question. It is there again after a reload, and grows by what other tabs add to it.
 */
import { hasOtherTab } from "./other-tabs.ts";
import {
  compareTurns,
  attachment,
  isOver,
  type Attachment,
  type KeptEvent,
  type KeptTurn,
} from "../kept/records.ts";
import type { Draft } from "../kept/database.ts";
import { Keeper, type Change, type WholeConversation } from "../kept/keeper.ts";
import { newId } from "../kept/new-id.ts";
import { Latest } from "../kept/latest.ts";
import { markStorage } from "../kept/risks.ts";
import { answering, isBeingAnswered } from "../kept/this-tab.ts";
import { takeUnsaved, writeUnsaved } from "../kept/unsaved.ts";
import { optional, shape, text } from "../protocol/check.ts";
import type { Adapter, Backend } from "../protocol/engine.ts";
import { toRecord, type ConclaveError } from "../protocol/errors.ts";
import { conversationOf, type Exchange } from "./exchange.ts";
import { exchangeOf, Turning, type Asked, type Reactions } from "./turns.ts";

export interface SessionEvents extends Reactions {
  /** Before another conversation is shown: ends an answer under way. */
  onLeave: () => void;
  /** Another conversation is shown, or other exchanges of it. */
  onShown: () => void;
  /** Called with a half-typed question that is restored. */
  onDraft: (draft: Draft) => void;
  /** Makes a note to show with the answer to a question. */
  noteOn: (question: string) => HTMLElement | undefined;
  /** Conversations have changed, here or in another tab. */
  onChange: () => void;
  onFailure: (message: string) => void;
}

/**
 * A question to ask, with its file, its instructions, and the members and engine that answer it.
 */
export interface Question extends Asked {
  question: string;
  attached: Attachment | undefined;
  instructions: string | undefined;
  backend: Backend;
  adapter: Adapter;
}

/** Key in sessionStorage: the tab's conversation and draft, which survive even the tab's death. */
const tabKey = "conclave tab";
const ofTab = shape({
  conversation: text,
  draft: optional(shape({ text, attached: optional(attachment) })),
});
const lastKey = "last conversation";

export class Session {
  readonly keeper: Keeper;
  readonly #host: HTMLElement;
  readonly #events: SessionEvents;
  readonly #turns = new Map<Exchange, KeptTurn>();
  /** The turns that this tab answers. */
  readonly #underWay = new Map<
    Exchange,
    { turning: Turning; save: () => void; end: () => void; release: () => void }
  >();
  /** The last writing of turns that were answered here. */
  readonly #saved = new Map<Exchange, Promise<void>>();
  /** Ids of turns that are being deleted. */
  readonly #deleting = new Set<string>();
  readonly #drafts = new Latest<{ id: string; draft: Draft }>(({ id, draft }) =>
    this.keeper.saveDraft(id, draft),
  );
  /** Former first question of the conversation, if it was just taken out of the conversation. */
  #firstBefore: string | undefined;
  #changing = Promise.resolve();
  #id = newId();
  exchanges: Exchange[] = [];

  constructor(host: HTMLElement, events: SessionEvents) {
    this.#host = host;
    this.#events = events;
    this.keeper = new Keeper(
      // One after the other, since each looks for what is shown already.
      (change) => void (this.#changing = this.#changing.then(() => this.#changed(change))),
      (message) => events.onFailure(message),
    );
    addEventListener("pagehide", () => {
      const turns = [...this.#underWay.values()].map(({ turning }) => turning.turn);
      if (!this.keeper.nothing) writeUnsaved(markStorage(), turns);
    });
  }

  /** Id of the conversation on the page, kept or not. */
  get id(): string {
    return this.#id;
  }

  /**
   * Shows the conversation that this tab had before a reload; in the only tab, that of the last
   * visit.
   */
  async open(): Promise<void> {
    if (this.keeper.nothing) return;
    await this.keeper.saveUnsaved(takeUnsaved(markStorage()));
    const own = readTab();
    const id =
      own?.conversation ?? ((await hasOtherTab()) ? undefined : await this.keeper.value(lastKey));
    if (typeof id !== "string" || this.exchanges.length > 0) return;
    await this.show(id, own?.draft);
  }

  /** Shows a kept conversation. `draft`: the tab's own half-typed question. */
  async show(id: string, draft?: Draft): Promise<void> {
    this.#leave(id);
    const turns = await this.keeper.turns(id);
    const kept = draft ?? (await this.keeper.draft(id));
    if (this.#id !== id) return; // Another was chosen meanwhile.
    for (const turn of turns) await this.#restore(turn);
    this.#remember(kept);
    this.#events.onShown();
    if (kept) this.#events.onDraft(kept);
  }

  /** Begins a new conversation, which is kept from its first question on. */
  begin(): void {
    this.#leave(newId());
    this.#remember();
    this.#events.onShown();
  }

  #leave(id: string): void {
    this.#events.onLeave();
    this.#id = id;
    this.#firstBefore = undefined;
    this.exchanges = [];
    this.#host.replaceChildren();
  }

  /** Keeps the half-typed question. */
  saveDraft(draft: Draft): void {
    if (this.keeper.nothing) return;
    writeTab({ conversation: this.#id, draft });
    void this.#drafts.set({ id: this.#id, draft });
  }

  /** Adds a question. */
  ask({ attached, instructions, ...question }: Question): Exchange {
    const turn: KeptTurn = {
      ...question,
      ...(attached && { attached }),
      ...(instructions !== undefined && { instructions }),
      id: newId(),
      conversation: this.#id,
      at: Math.max(Date.now(), ...this.exchanges.map((each) => this.#turns.get(each)!.at + 1)),
      answer: "",
      events: [],
    };
    const exchange = this.#exchange(turn, false);
    this.#place(exchange);
    this.goOn(exchange, question);
    if (this.#firstBefore !== undefined) this.#retitle(this.#firstBefore, turn.question);
    this.#firstBefore = undefined;
    this.#remember();
    return exchange;
  }

  /** Begins an answer, or continues one. */
  goOn(exchange: Exchange, by: Asked): Pick<Turning, "accepted" | "places"> {
    const turning = new Turning(this.#turns.get(exchange)!, by);
    const { turn } = turning;
    // The conversation's own record is written first and last; the turn with every event.
    // Its lock is held all that time, so that no other tab takes it for broken off.
    const { held, release } = answering(turn.id);
    const first = held.then(() => this.keeper.saveTurn(turn)).then(() => this.#events.onChange());
    const save = (): void => void this.keeper.updateTurn(turn);
    const end = (): void => {
      const { conversation, id } = turn;
      const saved = first.then(() => this.keeper.saveTurn(turn)).finally(release);
      this.#saved.set(exchange, saved);
      // It may have been left and shown again while it stopped.
      void saved.then(() => this.#changed({ conversation, turn: id }));
    };
    this.#underWay.set(exchange, { turning, save, end, release });
    return turning;
  }

  /**
   * Takes an exchange and all later ones out of the conversation. `bringBack` undoes it, and takes
   * out what was asked since.
   */
  takeOut(from: Exchange): { count: number; bringBack: () => void } {
    const id = this.#id;
    const before = this.exchanges;
    const gone = before.slice(before.indexOf(from));
    const first = from === before[0] ? from.question : undefined;
    this.#firstBefore = first;
    const deleted = this.#remove(gone);
    this.#events.onShown();
    const bringBack = (): void => {
      if (this.#id !== id) return;
      this.#events.onLeave();
      const since = this.exchanges.filter((each) => !before.includes(each));
      const turns = gone.map((each) => this.#turns.get(each)!);
      void Promise.all([deleted, this.#remove(since)])
        .then(() => this.keeper.saveTurns(turns))
        .then(() => this.#events.onChange());
      const [instead] = since;
      if (first !== undefined && instead) this.#retitle(instead.question, first);
      this.#firstBefore = undefined;
      for (const each of gone) this.#place(each);
      this.#events.onShown();
    };
    return { count: gone.length, bringBack };
  }

  /**
   * Lets the conversation's title follow its first question, which changes from `before` to `now`.
   */
  #retitle(before: string, now: string): void {
    void this.keeper.followQuestion(this.#id, before, now).then(() => this.#events.onChange());
  }

  /** Removes exchanges from the page and from what is kept. Later events of them are not kept. */
  async #remove(gone: readonly Exchange[]): Promise<void> {
    const turns = gone.map((each) => this.#turns.get(each)!);
    for (const each of gone) {
      this.#underWay.get(each)?.release();
      this.#underWay.delete(each);
      this.#hide(each);
    }
    for (const { id } of turns) this.#deleting.add(id);
    await Promise.all(gone.map((each) => this.#saved.get(each)));
    await this.keeper.deleteTurns(turns);
    for (const { id } of turns) this.#deleting.delete(id);
    this.#events.onChange();
  }

  /** Keeps an event of an answer; returns it in terms of the exchange's members. */
  take<E extends KeptEvent>(exchange: Exchange, event: E): E {
    const underWay = this.#underWay.get(exchange);
    if (!underWay) return event;
    const taken = underWay.turning.take(event);
    underWay.save();
    return taken;
  }

  /** Ends an answer of this tab. `error`: the failure that ended it. */
  settle(exchange: Exchange, error?: ConclaveError): void {
    const underWay = this.#underWay.get(exchange);
    if (!underWay) return;
    if (error) underWay.turning.turn.failure = toRecord(error);
    this.#underWay.delete(exchange);
    underWay.end();
  }

  /** File that was sent with an exchange's question. */
  attachedTo(exchange: Exchange): Attachment | undefined {
    return this.#turns.get(exchange)?.attached;
  }

  /** The last answer, if it was broken off with the page. */
  get brokenOff(): Exchange | undefined {
    const last = this.exchanges.at(-1);
    return last?.stop === "closed" ? last : undefined;
  }

  /** Deletes a conversation; what it returns can be put back. */
  async delete(id: string): Promise<WholeConversation | undefined> {
    if (id === this.#id) this.#drop();
    return this.keeper.delete(id);
  }

  /** Deletes all conversations and what else the database holds. */
  async deleteAll(): Promise<void> {
    this.#drop();
    await this.keeper.deleteAll();
    forgetTab();
  }

  /** Leaves the page's conversation; what is still to come of it is not kept. */
  #drop(): void {
    for (const { release } of this.#underWay.values()) release();
    this.#underWay.clear();
    this.#drafts.drop();
    this.begin();
  }

  #remember(draft?: Draft): void {
    if (this.keeper.nothing) return;
    writeTab({ conversation: this.#id, ...(draft && { draft }) });
    if (this.exchanges.length > 0) void this.keeper.setValue(lastKey, this.#id);
  }

  #exchange(turn: KeptTurn, kept: boolean): Exchange {
    const earlier = this.exchanges.filter((each) => compareTurns(this.#turns.get(each)!, turn) < 0);
    const { onInspect, onSideBySide, onAgain, onContinue, noteOn } = this.#events;
    const around = {
      messages: conversationOf(earlier),
      note: kept ? undefined : noteOn(turn.question),
      ...{ onInspect, onSideBySide, onAgain, onContinue },
    };
    const exchange = exchangeOf(turn, around, kept);
    this.#turns.set(exchange, turn);
    return exchange;
  }

  /** Puts an exchange where its time belongs. */
  #place(exchange: Exchange): void {
    const turn = this.#turns.get(exchange)!;
    const next = this.exchanges.find((other) => compareTurns(this.#turns.get(other)!, turn) > 0);
    if (next) {
      this.exchanges.splice(this.exchanges.indexOf(next), 0, exchange);
      next.root.before(exchange.root);
    } else {
      this.exchanges.push(exchange);
      this.#host.append(exchange.root);
    }
  }

  async #restore(turn: KeptTurn): Promise<void> {
    const over = isOver(turn);
    const elsewhere = !over && (await isBeingAnswered(turn.id));
    if (turn.conversation !== this.#id) return;
    const exchange = this.#exchange(turn, true);
    if (!over) exchange.breakOff(elsewhere ? "elsewhere" : "closed");
    this.#place(exchange);
  }

  /** Another tab has changed a conversation: shows what it added to the one on the page. */
  async #changed({ conversation, turn: id, deleted }: Change): Promise<void> {
    this.#events.onChange();
    if (conversation !== this.#id || id === undefined) return;
    const known = this.exchanges.find((each) => this.#turns.get(each)?.id === id);
    if (deleted) {
      if (!known || this.#underWay.has(known)) return;
      this.#hide(known);
      return this.#events.onShown();
    }
    if (known && (this.#underWay.has(known) || !isOpen(known))) return;
    const turn = (await this.keeper.turns(conversation)).find((each) => each.id === id);
    if (!turn || conversation !== this.#id || this.#deleting.has(id)) return;
    if (known && !isOver(turn)) return;
    if (known) this.#hide(known);
    else if (this.exchanges.some((each) => this.#turns.get(each)?.id === id)) return;
    await this.#restore(turn);
    this.#events.onShown();
  }

  #hide(exchange: Exchange): void {
    exchange.root.remove();
    this.exchanges = this.exchanges.filter((each) => each !== exchange);
  }
}

/** Whether another tab may still change a shown answer. */
const isOpen = ({ stop }: Exchange): boolean => stop === "elsewhere" || stop === "closed";

function readTab(): { conversation: string; draft?: Draft } | undefined {
  try {
    return ofTab(JSON.parse(sessionStorage.getItem(tabKey) ?? "null"), tabKey) as {
      conversation: string;
      draft?: Draft;
    };
  } catch {
    return undefined; // Missing, not ours, or storage is off.
  }
}

function writeTab(tab: { conversation: string; draft?: Draft }): void {
  try {
    sessionStorage.setItem(tabKey, JSON.stringify(tab));
  } catch {
    // Storage is off or full: the database has it, too.
  }
}

function forgetTab(): void {
  try {
    sessionStorage.removeItem(tabKey);
  } catch {
    // There is nothing to forget.
  }
}
