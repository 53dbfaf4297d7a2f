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
import { isEmpty, type Draft } from "../kept/database.ts";
import {
  everything,
  Keeper,
  type Change,
  type TakenOut,
  type WholeConversation,
} from "../kept/keeper.ts";
import { newId } from "../kept/new-id.ts";
import { Latest } from "../kept/latest.ts";
import { markStorage } from "../kept/risks.ts";
import {
  answering,
  endsHiddenTabs,
  isBeingAnswered,
  watchView,
  whenNotAnswered,
  type View,
} from "../kept/this-tab.ts";
import { isMarkedAnswered, markAnswered, takeUnsaved, writeUnsaved } from "../kept/unsaved.ts";
import { optional, shape, text } from "../protocol/check.ts";
import type { Adapter, Backend } from "../protocol/engine.ts";
import { toRecord, type ConclaveError } from "../protocol/errors.ts";
import { conversationOf, isBrokenOff, type Exchange } from "./exchange.ts";
import { exchangeOf, Turning, type Asked, type Reactions } from "./turns.ts";

interface SessionEvents extends Reactions {
  /** Before other exchanges are shown: ends an answer under way. */
  onReplacing: () => void;
  /** Before another conversation is shown. */
  onLeave: () => void;
  /** Another conversation is shown, or other exchanges of it. */
  onShown: () => void;
  /** Called with a half-typed question that is restored. */
  onDraft: (draft: Draft) => void;
  /** Turns were taken out of the conversation, or had been before it was shown. */
  onTakenOut: (count: number, bringBack: () => void) => void;
  /** Another tab has deleted the conversation that is shown, or has taken that back. */
  onDeleted: (deleted: boolean) => void;
  /** Makes a note to show with these members' answer to a question. */
  noteOn: (turn: KeptTurn) => HTMLElement | undefined;
  /** Conversations have changed, here or in another tab. */
  onChange: () => void;
  onFailure: (message: string) => void;
}

/**
 * A question to ask, with its file, its instructions, and the members and engine that answer it.
 */
interface Question extends Asked {
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
  draft: optional(
    shape({
      text,
      attached: optional(attachment),
      edit: optional(shape({ turn: text, text })),
    }),
  ),
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
    { turning: Turning; save: () => void; end: () => void; drop: () => void; lost: boolean }
  >();
  /** The last writing of turns that were answered here. */
  readonly #saved = new Map<Exchange, Promise<void>>();
  /** Ids of turns that are being deleted. */
  readonly #deleting = new Set<string>();
  readonly #drafts = new Latest<{ id: string; draft: Draft; unasked: boolean }>(
    ({ id, draft, unasked }) => this.keeper.saveDraft(id, draft, unasked),
  );
  #draft: Draft = { text: "" };
  /** Turns that can be brought back into the conversation. */
  #taken: TakenOut | undefined;
  /** Whether another tab has deleted the conversation. */
  #lost = false;
  /** Former first question of the conversation, if it was just taken out of the conversation. */
  #firstBefore: string | undefined;
  #changing = Promise.resolve();
  #view: View = "seen";
  #id = newId();
  exchanges: Exchange[] = [];

  constructor(host: HTMLElement, events: SessionEvents) {
    this.#host = host;
    this.#events = events;
    this.keeper = new Keeper(
      // One after the other, since each looks for what is shown already.
      (change) => void this.#inTurn(() => this.#heard(change)),
      (message) => events.onFailure(message),
    );
    addEventListener("pagehide", () => {
      const turns = [...this.#underWay.values()].flatMap(({ turning, lost }) =>
        lost ? [] : turning.turn,
      );
      if (!this.keeper.nothing) writeUnsaved(markStorage(), turns);
    });
    watchView((view) => {
      this.#view = view;
      for (const { turning, lost } of this.#underWay.values()) if (!lost) this.#mark(turning.turn);
    });
  }

  /** Marks a turn that this tab answers, or removes its mark. */
  #mark(turn: KeptTurn, answered = true): void {
    const isMarked = answered && !this.keeper.nothing;
    markAnswered(markStorage(), turn, isMarked ? this.#view : "closed");
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
    if (this.keeper.nothing) return forgetTab();
    const own = readTab();
    await this.keeper.saveUnsaved(takeUnsaved(markStorage()));
    const id = own?.conversation ?? ((await hasOtherTab()) ? undefined : await this.#last());
    if (id === undefined || this.exchanges.length > 0) return;
    this.#id = id;
    await this.#show(id, own?.draft);
  }

  /** The conversation of the last visit, or the last one that is kept. */
  async #last(): Promise<string | undefined> {
    const id = await this.keeper.value(lastKey);
    if (typeof id !== "string") return undefined;
    return (await this.keeper.conversation(id)) ? id : (await this.keeper.list())[0]?.id;
  }

  /** Shows a kept conversation. */
  async show(id: string): Promise<void> {
    this.#leave(id);
    await this.#show(id);
    if (this.#id === id) this.exchanges.at(-1)?.root.scrollIntoView({ block: "end" });
  }

  /** `draft`: the tab's own half-typed question. */
  async #show(id: string, draft?: Draft): Promise<void> {
    const turns = await this.keeper.turns(id);
    const kept = draft ?? (await this.keeper.draft(id));
    const taken = await this.keeper.taken(id);
    if (this.#id !== id) return; // Another was chosen meanwhile.
    for (const turn of turns) await this.#restore(turn);
    this.#draft = kept ?? { text: "" };
    this.#remember(kept);
    this.#events.onShown();
    if (kept) this.#events.onDraft(kept);
    if (kept?.edit) this.#byTurn(kept.edit.turn)?.edit(kept.edit.text);
    if (taken) this.#offerBack(taken);
  }

  #byTurn(id: string): Exchange | undefined {
    return this.exchanges.find((each) => this.#turns.get(each)?.id === id);
  }

  /** Begins a new conversation, which is kept from its first question on. */
  begin(): void {
    this.#leave(newId());
    this.#remember();
    this.#events.onShown();
  }

  #leave(id: string): void {
    this.#events.onReplacing();
    this.#events.onLeave();
    this.#id = id;
    this.#firstBefore = undefined;
    this.#taken = undefined;
    this.#draft = { text: "" };
    this.exchanges = [];
    this.#host.replaceChildren();
    this.#setLost(false);
  }

  /** Keeps the half-typed question. */
  saveDraft(typed: Draft): void {
    const { edit } = this.#draft;
    const draft = { ...typed, ...(edit && { edit }) };
    const begins = isEmpty(this.#draft);
    this.#draft = draft;
    if (this.keeper.nothing) return;
    writeTab({ conversation: this.#id, draft });
    const unasked = this.exchanges.length === 0;
    if (unasked && begins && !isEmpty(draft)) void this.keeper.setValue(lastKey, this.#id);
    void this.#drafts.set({ id: this.#id, draft, unasked });
  }

  /** Keeps the half-typed change of an exchange's question; undefined: there is none. */
  #edited(exchange: Exchange, text: string | undefined): void {
    const { edit, ...typed } = this.#draft;
    const turn = this.#turns.get(exchange)!.id;
    if (text === undefined && edit?.turn !== turn) return;
    this.#draft = { ...typed, ...(text !== undefined && { edit: { turn, text } }) };
    this.saveDraft(typed);
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
    let dropped = false;
    const drop = (): void => {
      dropped = true;
      this.#mark(turn, false);
      release();
    };
    const others = this.#othersThan([turn]);
    const first = held
      .then(() => (dropped ? undefined : this.keeper.saveTurn(turn, others)))
      .then(() => this.#events.onChange());
    const save = (): void => {
      if (!this.#underWay.get(exchange)?.lost) void this.keeper.updateTurn(turn);
    };
    const end = (): void => {
      const { conversation, id } = turn;
      const saved = first.then(() => this.keeper.saveTurn(turn)).finally(release);
      this.#saved.set(exchange, saved);
      this.#mark(turn, false);
      // It may have been left and shown again while it stopped.
      void saved.then(() => this.#changed({ conversation, turn: id }));
    };
    this.#underWay.set(exchange, { turning, save, end, drop, lost: false });
    this.#mark(turn);
    this.#setLost(false); // Who asks on wants it kept.
    return turning;
  }

  /** The conversation's turns, without these. */
  #othersThan(turns: readonly KeptTurn[]): KeptTurn[] {
    return this.exchanges.map((each) => this.#turns.get(each)!).filter((t) => !turns.includes(t));
  }

  /** Takes an exchange and all later ones out of the conversation; they can be brought back. */
  takeOut(from: Exchange): void {
    const at = this.exchanges.indexOf(from);
    const gone = this.exchanges.slice(at);
    if (at === 0) this.#firstBefore = from.question;
    const turns = gone.map((each) => this.#turns.get(each)!);
    const stayed = this.#othersThan(turns).map(({ id }) => id);
    const taken = { conversation: this.#id, turns, stayed };
    const removed = this.#remove(gone, this.keeper.keepTaken(taken));
    this.#events.onShown();
    this.#offerBack(taken, removed);
  }

  #offerBack(taken: TakenOut, removed = Promise.resolve()): void {
    this.#taken = taken;
    this.#events.onTakenOut(
      taken.turns.length,
      () => void removed.then(() => this.#bringBack(taken)),
    );
  }

  /** Takes what was asked since out of the conversation, in favour of what was taken out. */
  async #bringBack({ conversation, turns, stayed }: TakenOut): Promise<void> {
    if (this.#id !== conversation) return;
    this.#events.onReplacing();
    const since = this.exchanges.filter((each) => !stayed.includes(this.#turns.get(each)!.id));
    const [instead] = since;
    const [first, ...others] = turns;
    if (stayed.length === 0 && first && instead) this.#retitle(instead.question, first.question);
    this.#firstBefore = undefined;
    const all = [...this.#othersThan(since.map((each) => this.#turns.get(each)!)), ...others];
    const removed = this.#remove(since);
    this.#setLost(false);
    const known = new Map([...this.#turns].map(([exchange, { id }]) => [id, exchange]));
    for (const turn of turns) {
      const exchange = known.get(turn.id);
      if (exchange?.stop === "crashed") this.#mark(turn); // It still waits.
      if (exchange) this.#place(exchange);
      else await this.#restore(turn);
    }
    this.#events.onShown();
    await removed;
    if (first) await this.keeper.saveTurn(first, all);
    for (const turn of others) await this.keeper.saveTurn(turn);
    await this.forgetTaken();
    this.#events.onChange();
  }

  /** Gives up the turns that were taken out of the conversation. */
  async forgetTaken(): Promise<void> {
    if (this.#taken) await this.keeper.keepTaken(undefined);
    this.#taken = undefined;
  }

  /**
   * Lets the conversation's title follow its first question, which changes from `before` to `now`.
   */
  #retitle(before: string, now: string): void {
    void this.keeper.followQuestion(this.#id, before, now).then(() => this.#events.onChange());
  }

  /**
   * Removes exchanges from the page and, after `first`, from what is kept. Later events of them are
   * not kept.
   */
  async #remove(gone: readonly Exchange[], first = Promise.resolve()): Promise<void> {
    const turns = gone.map((each) => this.#turns.get(each)!);
    for (const each of gone) {
      this.#underWay.get(each)?.drop();
      this.#underWay.delete(each);
      this.#hide(each);
    }
    for (const turn of turns) {
      this.#deleting.add(turn.id);
      this.#mark(turn, false);
    }
    await Promise.all([first, ...gone.map((each) => this.#saved.get(each))]);
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
    return last && isBrokenOff(last.stop) ? last : undefined;
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
    for (const { drop } of this.#underWay.values()) drop();
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
      note: noteOn(turn),
      onEdited: (exchange: Exchange, text: string | undefined) => this.#edited(exchange, text),
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
    const brokenOff = await breakOf(turn);
    if (turn.conversation !== this.#id) return;
    const exchange = this.#exchange(turn, true);
    if (brokenOff) exchange.breakOff(brokenOff);
    this.#place(exchange);
    if (brokenOff === "elsewhere") void this.#follow(turn);
  }

  /** Shows what becomes of a turn that another tab answers, also if that tab dies. */
  async #follow({ conversation, id }: KeptTurn): Promise<void> {
    await whenNotAnswered(id);
    await this.#inTurn(() => this.#changed({ conversation, turn: id }));
  }

  #inTurn(task: () => Promise<void>): Promise<void> {
    return (this.#changing = this.#changing.then(task));
  }

  /**
   * Whether an exchange is shown as it is kept; else what another tab has made of it is shown in
   * its place.
   */
  async isCurrent(exchange: Exchange): Promise<boolean> {
    const { conversation, id } = this.#turns.get(exchange)!;
    await this.#inTurn(() => this.#changed({ conversation, turn: id }));
    return this.exchanges.includes(exchange);
  }

  /** Another tab has changed a conversation, or deleted it. */
  async #heard(change: Change): Promise<void> {
    const { conversation, turn, deleted } = change;
    if (deleted && turn === undefined) this.#deletedElsewhere(conversation);
    else if (!deleted) this.#isThere(conversation);
    await this.#changed(change);
  }

  /** Shows what was added to the conversation on the page. */
  async #changed({ conversation, turn: id, deleted }: Change): Promise<void> {
    this.#events.onChange();
    if (conversation !== this.#id || id === undefined) return;
    const known = this.#byTurn(id);
    if (deleted) {
      if (!known || this.#underWay.has(known)) return;
      this.#hide(known);
      return this.#events.onShown();
    }
    if (known && this.#underWay.has(known)) return;
    // It is shown anew once it has ended there, not at each of its rounds.
    if (known?.stop === "elsewhere" && (await isBeingAnswered(id))) return;
    const turn = (await this.keeper.turns(conversation)).find((each) => each.id === id);
    if (!turn || conversation !== this.#id || this.#deleting.has(id)) return;
    const stop = (await breakOf(turn)) ?? stopOf(turn);
    // It may have changed meanwhile.
    if (conversation !== this.#id || this.#byTurn(id) !== known) return;
    if (known) {
      const isShown = known.stop === stop && known.text === turn.answer;
      if (isShown || this.#underWay.has(known)) return;
      this.#hide(known);
    }
    await this.#restore(turn);
    const { edit } = this.#draft;
    if (edit?.turn === id) this.#byTurn(id)?.edit(edit.text);
    this.#events.onShown();
  }

  /** Another tab has deleted a conversation, which this one shows or answers. */
  #deletedElsewhere(conversation: string): void {
    const all = conversation === everything;
    for (const each of this.#underWay.values())
      if (all || each.turning.turn.conversation === conversation) each.lost = true;
    if (all) forgetTab();
    if (!all && conversation !== this.#id) return;
    this.#drafts.drop();
    this.#taken = undefined;
    if (this.exchanges.length > 0) this.#setLost(true);
  }

  /** A conversation is kept: again, if it was deleted before. */
  #isThere(conversation: string): void {
    for (const each of this.#underWay.values())
      if (each.turning.turn.conversation === conversation) each.lost = false;
    if (conversation !== this.#id || !this.#lost) return;
    this.#setLost(false);
    void this.keeper.saveUnsaved(this.#othersThan([]));
  }

  #setLost(lost: boolean): void {
    if (this.#lost !== lost) this.#events.onDeleted(lost);
    this.#lost = lost;
  }

  #hide(exchange: Exchange): void {
    exchange.root.remove();
    this.exchanges = this.exchanges.filter((each) => each !== exchange);
  }
}

/** How a turn was broken off, or goes on without this page; undefined if it is over. */
async function breakOf(turn: KeptTurn): Promise<"closed" | "crashed" | "elsewhere" | undefined> {
  if (isOver(turn)) return undefined;
  if (await isBeingAnswered(turn.id)) return "elsewhere";
  const hasDied = isMarkedAnswered(markStorage(), turn.id, !endsHiddenTabs());
  return hasDied ? "crashed" : "closed";
}

/** Reason of the end of a turn that is over, as its exchange has it. */
function stopOf({ events, failure }: KeptTurn): string {
  const end = events.findLast((event) => event.type === "end");
  return failure ? "failed" : (end?.stop ?? "");
}

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
