/** The ensemble on the page: its places, and how members come into them and leave them again. */
import { isAbort, isFatal, typed, type Conclave, type ConclaveError } from "../library/conclave.ts";
import { mostMembers, type Core } from "../protocol/engine.ts";
import { Share } from "../library/share.ts";
import { toysTitle } from "./ensembles-list.ts";
import { freeName, type MembersPanel, type Slot } from "./members-panel.ts";

/**
 * Who is to sit in a place: where the member comes from, and what is known of it before it is
 * loaded.
 */
export type Seat = Pick<Slot, "source" | "entry" | "model" | "byDefault">;

export interface RosterEvents {
  /** Before members come or go; the engine that they are to come into may be another afterwards. */
  onChanging: () => void;
  /** The slots, or what they can do, changed. */
  onChange: () => void;
  /** The last of the visitor's own members is gone or could not be loaded: the toys are wanted. */
  onBare: () => void;
  /** Which share of what is being loaded is here, from 0 to 1. */
  onShare: (share: number) => void;
  /** The engine is of no more use. */
  onFatal: (error: ConclaveError) => void;
}

export class Roster {
  readonly slots: Slot[] = [];
  /** What the visitor chose: an ensemble of the catalogue, the toys, or their own. */
  title = "";
  /** Room for the conversation in tokens, for members loaded from now on. */
  contextTokens: number;
  readonly #panel: MembersPanel;
  readonly #events: RosterEvents;
  /** What members run on that name no core. */
  readonly #core: Core | undefined;
  readonly #underWay = new Set<Promise<unknown>>();
  #conclave: Conclave | undefined;
  /** How far those are that are being loaded. */
  #share: Share | undefined;
  /** How often all were replaced. */
  #replaced = 0;
  #madeRoom = false;
  #busy = false;

  constructor(panel: MembersPanel, events: RosterEvents, contextTokens: number, core?: Core) {
    this.#core = core;
    this.#panel = panel;
    this.#events = events;
    this.contextTokens = contextTokens;
  }

  get loading(): boolean {
    return this.slots.some((slot) => slot.state === "loading");
  }

  /** Those that will answer. */
  get taking(): Slot[] {
    return this.slots.filter((slot) => slot.state === "ready" && slot.takesPart);
  }

  /** No place is left, nor one of a member that would make room. */
  get full(): boolean {
    return this.slots.filter(({ byDefault }) => !byDefault).length >= mostMembers;
  }

  /** Members that came by default have left, since one of the visitor's own is here. */
  get madeRoom(): boolean {
    return this.#madeRoom;
  }

  /** While an answer is under way, nobody leaves it by itself. */
  set busy(busy: boolean) {
    this.#busy = busy;
    if (!busy) this.#makeRoom();
  }

  /** Loads every slot into a new engine. */
  async attach(conclave: Conclave): Promise<void> {
    this.#conclave = conclave;
    await Promise.all(this.slots.map((slot) => this.load(slot)));
  }

  /** The engine is gone, and the members with it; their slots stay. */
  detach(): void {
    this.#conclave = undefined;
    for (const slot of this.slots) {
      slot.loading?.abort();
      slot.state = "waiting";
      slot.about = undefined;
      this.#panel.show(slot);
    }
  }

  /**
   * Puts other members in the place of all that are there, and loads them into the engine, if there
   * is one. Of several choices in quick succession the last one holds.
   */
  async replaceAll(title: string, members: Seat[]): Promise<void> {
    const mine = ++this.#replaced;
    this.#events.onChanging();
    // The old ones first: memory may not hold both.
    await Promise.all([...this.slots].map((slot) => this.#remove(slot)));
    await Promise.allSettled([...this.#underWay]);
    if (mine !== this.#replaced) return;
    this.title = title;
    this.#madeRoom = false;
    await this.#seat(members.slice(0, mostMembers));
  }

  /**
   * Seats those bundled members that are not here, as far as there is room. By default they come
   * only while nobody of the visitor's own is here or on the way.
   */
  async bringToys(toys: Seat[], byDefault: boolean): Promise<void> {
    if (byDefault && this.slots.some(isComing)) return;
    this.#madeRoom = false;
    const names = new Set(this.slots.map(({ source }) => source.name));
    const missing = toys
      .filter(({ source }) => !names.has(source.name))
      .slice(0, mostMembers - this.slots.length);
    this.#events.onChanging();
    await this.#seat(missing.map((toy) => ({ ...toy, byDefault })));
  }

  async #seat(members: Seat[]): Promise<void> {
    const added = members.map((member) => this.#place(member));
    this.#retitle();
    this.#events.onChange();
    await Promise.all(added.map((slot) => this.load(slot)));
  }

  /**
   * Adds one member to those there, under a name that is free. Undefined when all places are taken.
   */
  add(member: Seat): Slot | undefined {
    if (this.full) return undefined;
    this.#events.onChanging();
    const last = this.slots.findLast(({ byDefault }) => byDefault);
    if (last && this.slots.length >= mostMembers) {
      this.#madeRoom = true;
      void this.#remove(last);
    }
    const name = freeName(member.source.name, this.slots);
    const slot = this.#place({ ...member, source: { ...member.source, name } });
    void this.load(slot);
    return slot;
  }

  /** Takes a member out and frees its memory. */
  async remove(slot: Slot): Promise<void> {
    this.#events.onChanging();
    const removed = this.#remove(slot);
    if (isOwn(slot)) this.#missToys();
    await removed;
  }

  /** Who came by default stays from now on: the visitor has asked for it. */
  keep(slot: Slot): void {
    slot.byDefault = false;
  }

  /** Members that came by default leave, once one of the visitor's own is ready. */
  #makeRoom(): void {
    const leaving = this.slots.filter(({ byDefault }) => byDefault);
    if (
      this.#busy ||
      leaving.length === 0 ||
      !this.slots.some((slot) => isOwn(slot) && slot.state === "ready")
    )
      return;
    this.#madeRoom = true;
    this.#events.onChanging();
    for (const slot of leaving) void this.#remove(slot);
  }

  /**
   * One of the visitor's own is gone: where it was the last, the toys come back, or there is nobody
   * to answer.
   */
  #missToys(): void {
    if (this.slots.some(isComing)) return;
    const answers = this.slots.some(
      (slot) => drafts(slot) && slot.state !== "failed" && slot.state !== "stopped",
    );
    if (this.#madeRoom || !answers) this.#events.onBare();
  }

  /** With nobody but toys here, they are called so, whoever was here before. */
  #retitle(): void {
    if (this.slots.length > 0 && this.slots.every(({ entry }) => entry !== undefined))
      this.title = toysTitle;
  }

  async #remove(slot: Slot): Promise<void> {
    const conclave = this.#conclave;
    const { name } = slot.source;
    const there = slot.state === "ready";
    slot.loading?.abort();
    const index = this.slots.indexOf(slot);
    if (index >= 0) this.slots.splice(index, 1);
    this.#panel.drop(slot);
    this.#retitle();
    this.#events.onChange();
    if (there) await conclave?.remove(name).catch(() => undefined); // a dead engine holds nothing
  }

  /** Ends a slot's download; what was fetched is kept, and the slot stays. */
  stop(slot: Slot): void {
    slot.loading?.abort();
  }

  /** Loads a slot's member; what went wrong is shown on its card. */
  async load(slot: Slot): Promise<void> {
    const loading = this.#load(slot);
    this.#underWay.add(loading);
    await loading.finally(() => this.#underWay.delete(loading));
  }

  async #load(slot: Slot): Promise<void> {
    const conclave = this.#conclave;
    if (!conclave) return;
    const controller = new AbortController();
    slot.loading = controller;
    slot.state = "loading";
    slot.contextTokens = this.contextTokens;
    const share = (this.#share ??= this.#shareOf(conclave));
    share.await([slot.source]);
    this.#panel.show(slot);
    this.#events.onChange();
    try {
      slot.about = await conclave.add(slot.source, {
        contextTokens: this.contextTokens,
        signal: controller.signal,
        onProgress: (progress) => {
          this.#panel.progress(slot, progress);
          share.member(slot.source.name, progress);
        },
      });
      share.added(slot.source.name);
      slot.backend = conclave.backend;
      // It was taken out while the engine had it in hand.
      if (!this.slots.includes(slot)) return void (await conclave.remove(slot.source.name));
      slot.state = "ready";
      this.#panel.show(slot);
      this.#makeRoom();
    } catch (thrown) {
      // Taken out, or the engine was opened anew: the new one loads it.
      if (!this.slots.includes(slot) || conclave !== this.#conclave) return;
      const error = isAbort(thrown) ? undefined : typed(thrown);
      if (error) this.#panel.fail(slot, error);
      else this.#panel.stopped(slot);
      if (error && isFatal(error)) this.#events.onFatal(error);
      else if (isOwn(slot)) this.#missToys();
    } finally {
      if (slot.loading === controller) slot.loading = undefined;
      if (slot.state !== "ready") share.forget(slot.source.name);
      if (!this.loading && this.#share === share) this.#share = undefined;
      this.#events.onChange();
    }
  }

  #shareOf(conclave: Conclave): Share {
    const share = new Share((share) => this.#events.onShare(share));
    // Why it is not ready is told elsewhere.
    void conclave.ready.then(() => share.opened()).catch(() => undefined);
    return share;
  }

  #place(member: Seat): Slot {
    const used = new Set(this.slots.map((other) => other.voice));
    const voice = [...Array(mostMembers).keys()].find((index) => !used.has(index)) ?? 0;
    const slot: Slot = {
      ...member,
      core: member.source.core ?? this.#core,
      state: "waiting",
      takesPart: true,
      voice,
    };
    this.slots.push(slot);
    this.#panel.show(slot);
    return slot;
  }
}

/** Whether a member can answer without others. */
export const drafts = ({ source, about }: Slot): boolean =>
  !source.judge && !source.builtIn && about?.remote?.can !== "judges only";
/** One that is no bundled toy, and can answer without them. */
const isOwn = (slot: Slot): boolean => slot.entry === undefined && drafts(slot);
const isComing = (slot: Slot): boolean =>
  isOwn(slot) && slot.state !== "failed" && slot.state !== "stopped";
