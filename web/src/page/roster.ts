/** The ensemble on the page: its slots, and how members are added and removed. */
import { isAbort, isFatal, typed, type Conclave, type ConclaveError } from "../library/conclave.ts";
import { mostMembers, type Core } from "../protocol/engine.ts";
import { Share } from "../library/share.ts";
import { toysTitle } from "./ensembles-list.ts";
import { freeName, type MembersPanel, type Slot } from "./members-panel.ts";

/** A member to add: its source, and what is known before it is loaded. */
export type Seat = Pick<Slot, "source" | "entry" | "model" | "byDefault">;

export interface RosterEvents {
  /** Called before members change; the engine may be another afterwards. */
  onChanging: () => void;
  /** The slots, or what they can do, changed. */
  onChange: () => void;
  /** The last of the visitor's own members is gone or failed to load: the toys are wanted. */
  onBare: () => void;
  /** Progress of the loading, from 0 to 1. */
  onShare: (share: number) => void;
  /** The engine has failed. */
  onFatal: (error: ConclaveError) => void;
}

export class Roster {
  readonly slots: Slot[] = [];
  /** The chosen ensemble: one of the catalogue, the toys, or the visitor's own. */
  title = "";
  /** Context size in tokens, for members loaded from now on. */
  contextTokens: number;
  readonly #panel: MembersPanel;
  readonly #events: RosterEvents;
  /** Core of members that name none. */
  readonly #core: Core | undefined;
  readonly #underWay = new Set<Promise<unknown>>();
  #conclave: Conclave | undefined;
  /** Progress of the members being loaded. */
  #share: Share | undefined;
  /** Counts replacements of all members. */
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

  /** Members that will answer. */
  get taking(): Slot[] {
    return this.slots.filter((slot) => slot.state === "ready" && slot.takesPart);
  }

  /** Members of these names; undefined unless all can answer now. */
  readyOf(names: readonly string[]): Slot[] | undefined {
    const slots = names.map((name) => this.slots.find(({ source }) => source.name === name));
    return slots.every((slot) => slot?.state === "ready") ? (slots as Slot[]) : undefined;
  }

  /** Whether there is no free slot, nor one of a member that would leave. */
  get full(): boolean {
    return this.slots.filter(({ byDefault }) => !byDefault).length >= mostMembers;
  }

  /** Whether members added by default have left for the visitor's own. */
  get madeRoom(): boolean {
    return this.#madeRoom;
  }

  /** While busy, no member leaves by itself. */
  set busy(busy: boolean) {
    this.#busy = busy;
    if (!busy) this.#makeRoom();
  }

  /** Loads every slot into a new engine. */
  async attach(conclave: Conclave): Promise<void> {
    this.#conclave = conclave;
    await Promise.all(this.slots.map((slot) => this.load(slot)));
  }

  /** The engine and its members are gone; the slots stay. */
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
   * Replaces all members and loads the new ones if there is an engine. The last of several quick
   * choices wins.
   */
  async replaceAll(title: string, members: Seat[]): Promise<void> {
    const mine = ++this.#replaced;
    this.#events.onChanging();
    // The old ones go first: memory may not hold both.
    await Promise.all([...this.slots].map((slot) => this.#remove(slot)));
    await Promise.allSettled([...this.#underWay]);
    if (mine !== this.#replaced) return;
    this.title = title;
    this.#madeRoom = false;
    await this.#seat(members.slice(0, mostMembers));
  }

  /**
   * Adds the missing bundled members, as far as there are free slots. By default only while no
   * member of the visitor's own is present or loading.
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

  /** Adds one member under an unused name. Undefined if all slots are taken. */
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

  /** Removes a member and frees its memory. */
  async remove(slot: Slot): Promise<void> {
    this.#events.onChanging();
    const removed = this.#remove(slot);
    if (isOwn(slot)) this.#missToys();
    await removed;
  }

  /** Gives a member another name; it is loaded again, from what is stored. */
  async rename(slot: Slot, name: string): Promise<void> {
    this.#events.onChanging();
    const { name: old } = slot.source;
    const free = freeName(
      name,
      this.slots.filter((other) => other !== slot),
    );
    const there = slot.state === "ready";
    slot.source = { ...slot.source, name: free };
    slot.state = "waiting";
    slot.about = undefined;
    this.#panel.rename(slot);
    this.#events.onChange();
    if (there) await this.#conclave?.remove(old).catch(() => undefined);
    await this.load(slot);
  }

  /** Makes a member added by default permanent, as the visitor has asked for it. */
  keep(slot: Slot): void {
    slot.byDefault = false;
  }

  /** Removes members added by default once one of the visitor's own is ready. */
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

  /** Requests the toys after the last of the visitor's own members is gone or none can answer. */
  #missToys(): void {
    if (this.slots.some(isComing)) return;
    const answers = this.slots.some(
      (slot) => drafts(slot) && slot.state !== "failed" && slot.state !== "stopped",
    );
    if (this.#madeRoom || !answers) this.#events.onBare();
  }

  /** Resets the title if only toys are left. */
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
    if (there) await conclave?.remove(name).catch(() => undefined); // A failed engine holds nothing.
  }

  /** Aborts a slot's download; fetched data is kept, and the slot stays. */
  stop(slot: Slot): void {
    slot.loading?.abort();
  }

  /** Loads a slot's member; a failure is shown on its card. */
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
      // Removed while the engine was loading it.
      if (!this.slots.includes(slot)) return void (await conclave.remove(slot.source.name));
      slot.state = "ready";
      this.#panel.show(slot);
      this.#makeRoom();
    } catch (thrown) {
      // Removed, or the engine was reopened: the new one loads it.
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
    // A failure to open is reported elsewhere.
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
/** Whether it is not a bundled toy and can answer without others. */
const isOwn = (slot: Slot): boolean => slot.entry === undefined && drafts(slot);
const isComing = (slot: Slot): boolean =>
  isOwn(slot) && slot.state !== "failed" && slot.state !== "stopped";
