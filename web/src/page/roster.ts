/** The ensemble on the page: its slots, and how members are added and removed. */
import {
  isAbort,
  isFatal,
  typed,
  type AddOptions,
  type Conclave,
  type ConclaveError,
} from "../library/conclave.ts";
import { atRisk, type AtRisk, type Phase, type Risks } from "../kept/risks.ts";
import { mostMembers, type About, type Core } from "../protocol/engine.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { Share } from "../library/share.ts";
import { toysTitle } from "./ensembles-list.ts";
import { total } from "./member-facts.ts";
import { filesOf } from "./file-handles.ts";
import { freeName, type MembersPanel, type Slot } from "./members-panel.ts";

/** A member to add: its source, and what is known before it is loaded. */
export type Seat = Pick<Slot, "source" | "entry" | "model" | "byDefault" | "handles">;

interface RosterEvents {
  /** Called before members change; the engine may be another afterwards. */
  onChanging: () => void;
  /** The slots, or what they can do, changed. */
  onChange: () => void;
  /** The last of the visitor's own members is gone or failed to load: the toys are wanted. */
  onBare: () => void;
  /** Members of these names take no part any more, since toys and real models don't mix. */
  onAside?: (names: string[]) => void;
  /** Progress of the loading, from 0 to 1. */
  onShare: (share: number) => void;
  /**
   * Called when the engine has failed. `loading`: the member that it was loading, which the next
   * engine leaves out.
   */
  onFatal: (error: ConclaveError, loading?: Slot) => void;
}

/** Facts about the visitor and the machine that a roster needs. */
export interface RosterWays {
  /** Core of members that name none. */
  core?: Core | undefined;
  /** Marks of what may end the tab. */
  risks?: Risks | undefined;
  /** Room for a conversation of these members, in tokens. */
  room?: (members: readonly Seat[]) => number;
}

/** Least room that a member is given by itself if memory runs out. */
const leastRoom = 1024;

export class Roster {
  readonly slots: Slot[] = [];
  /** The chosen ensemble: one of the catalogue, the toys, or the visitor's own. */
  title = "";
  /** Context size in tokens, for members loaded from now on. */
  contextTokens: number;
  readonly #risks: Risks | undefined;
  readonly #room: RosterWays["room"];
  /** The room changed during an answer: members follow after it. */
  #outgrown = false;
  readonly #panel: MembersPanel;
  readonly #events: RosterEvents;
  /** Core of members that name none. */
  readonly #core: Core | undefined;
  readonly #underWay = new Set<Promise<unknown>>();
  /** Members whose loading stopped an engine, until they are tried again. */
  readonly #stopped = new WeakMap<Slot, ConclaveError>();
  #conclave: Conclave | undefined;
  /** Progress of the members being loaded. */
  #share: Share | undefined;
  /** Counts replacements of all members. */
  #replaced = 0;
  #replacing = false;
  #madeRoom = false;
  #busy = false;

  constructor(
    panel: MembersPanel,
    events: RosterEvents,
    contextTokens: number,
    { core, risks, room }: RosterWays = {},
  ) {
    this.#core = core;
    this.#risks = risks;
    this.#room = room;
    this.#panel = panel;
    this.#events = events;
    this.contextTokens = contextTokens;
  }

  get loading(): boolean {
    return this.slots.some((slot) => slot.state === "loading");
  }

  /** Whether members are leaving for others, so that some of those present are missing. */
  get replacing(): boolean {
    return this.#replacing;
  }

  /** Members that will answer. */
  get taking(): Slot[] {
    return this.slots.filter((slot) => slot.state === "ready" && slot.takesPart);
  }

  /** Whether all slots are taken by members that would not leave by themselves. */
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
    if (busy) return;
    this.#makeRoom();
    if (this.#outgrown) void this.resize();
  }

  /** Whether a member is left out, since it ended a tab. */
  get heldBack(): boolean {
    return this.slots.some(({ state }) => state === "held");
  }

  /** Marks these members' risk as long as they are in a phase. */
  risk(slots: readonly Slot[]): { enter: (phase: Phase) => void; leave: () => void } {
    const members = slots.filter(isHere).map(riskOf);
    return {
      enter: (phase) => this.#risks?.enter(phase, members),
      leave: () => this.#risks?.leave(members),
    };
  }

  /** Gives members of this machine the room that was chosen; after an answer under way. */
  async resize(): Promise<void> {
    this.#outgrown = this.#busy;
    this.#measureRoom(this.slots);
    if (this.#busy) return;
    const wrong = this.slots.filter(
      (slot) => isHere(slot) && slot.state === "ready" && slot.contextTokens !== this.contextTokens,
    );
    if (wrong.length === 0) return this.#events.onChange();
    this.#events.onChanging();
    // An engine of this tab's own has begun to load them.
    const left = wrong.filter(({ state }) => state === "ready");
    for (const slot of left) slot.state = "waiting";
    await Promise.all(
      left.map(async (slot) => {
        await this.#conclave?.remove(slot.source.name).catch(() => undefined);
        slot.about = undefined;
        if (this.slots.includes(slot)) await this.load(slot);
      }),
    );
  }

  #measureRoom(members: readonly Seat[]): void {
    if (this.#room) this.contextTokens = this.#room(members);
  }

  /** Loads every slot into a new engine. */
  async attach(conclave: Conclave): Promise<void> {
    this.#conclave = conclave;
    // The member that stopped the last engine is at fault if the others find no memory now.
    const stopped = this.slots.filter((slot) => this.#stopped.has(slot));
    this.risk(stopped).enter("load");
    const wanted = this.slots.filter(({ state }) => state !== "stopped");
    await Promise.all(wanted.map((slot) => this.load(slot)));
    // A later engine marks them again, and so does the load of one that is tried again.
    if (this.#conclave && this.#conclave !== conclave) return;
    this.risk(stopped.filter((slot) => this.#stopped.has(slot))).leave();
  }

  /** Detaches the slots from an engine that is gone with its members. The slots stay. */
  detach(): void {
    this.#conclave = undefined;
    for (const slot of this.slots) {
      slot.loading?.abort();
      if (slot.state !== "held" && slot.state !== "stopped") slot.state = "waiting";
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
    this.#replacing = true;
    this.#events.onChanging();
    // The old ones go first: memory may not hold both.
    await Promise.all([...this.slots].map((slot) => this.#remove(slot)));
    await Promise.allSettled([...this.#underWay]);
    if (mine !== this.#replaced) return;
    this.title = title;
    this.#madeRoom = this.#replacing = false;
    await this.#seat(members.slice(0, mostMembers));
  }

  /**
   * Adds the missing bundled members, by default as far as there are free slots, and only while no
   * member of the visitor's own is present or loading. Returns whether there was room.
   */
  bringToys(toys: Seat[], byDefault: boolean): boolean {
    if (byDefault && this.slots.some(isComing)) return true;
    const names = new Set(this.slots.map(({ source }) => source.name));
    const missing = toys.filter(({ source }) => !names.has(source.name));
    const free = mostMembers - this.slots.length;
    if (!byDefault && missing.length > free) return false;
    this.#madeRoom = false;
    this.#events.onChanging();
    void this.#seat(missing.slice(0, free).map((toy) => ({ ...toy, byDefault })));
    if (!byDefault) this.#part(true);
    return true;
  }

  async #seat(members: Seat[]): Promise<void> {
    this.#measureRoom([...this.slots, ...members]);
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
    this.#measureRoom([...this.slots, member]);
    const name = freeName(member.source.name, this.slots);
    const slot = this.#place({ ...member, source: { ...member.source, name } });
    void this.retry(slot);
    return slot;
  }

  /** Removes a member and frees its memory. */
  async remove(slot: Slot): Promise<void> {
    this.#events.onChanging();
    const removed = this.#remove(slot);
    if (isOwn(slot)) this.#missToys();
    await removed;
  }

  /** Names of members that take no part. */
  get aside(): string[] {
    return this.slots.filter(({ takesPart }) => !takesPart).map(({ source }) => source.name);
  }

  /** Lets members of these names, as they were kept, take no part. */
  setAside(names: unknown): void {
    if (!Array.isArray(names)) return;
    for (const slot of this.slots) {
      if (!names.includes(slot.source.name)) continue;
      slot.takesPart = false;
      this.#panel.show(slot);
    }
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
    if (drafts(slot)) this.#part(slot.entry !== undefined);
  }

  /** Lets only toys, or only real models, draft: the others take no part. */
  #part(toys: boolean): void {
    const others = this.slots.filter(
      (slot) => slot.takesPart && drafts(slot) && (slot.entry !== undefined) !== toys,
    );
    for (const slot of others) {
      slot.takesPart = false;
      this.#panel.show(slot);
    }
    const names = others.filter(({ byDefault }) => !byDefault).map(({ source }) => source.name);
    if (names.length > 0) this.#events.onAside?.(names);
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
      (slot) => drafts(slot) && !["failed", "stopped", "held"].includes(slot.state),
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
    // A failed engine holds nothing.
    if (there) await conclave?.remove(name).catch(() => undefined);
  }

  /** Aborts a slot's download; fetched data is kept, and the slot stays. */
  stop(slot: Slot): void {
    slot.loading?.abort();
  }

  /** Loads a member that the visitor wants, even if it ended a tab. */
  retry(slot: Slot): Promise<void> {
    this.#risks?.release(keptSource(slot));
    this.#stopped.delete(slot);
    if (!lacksFiles(slot)) return this.load(slot);
    return this.#findFiles(slot, true).then(() => this.load(slot));
  }

  /** Finds a member's files by their handles. `ask`: the visitor may be asked. */
  async #findFiles(slot: Slot, ask: boolean): Promise<boolean> {
    const files = await filesOf(slot.handles ?? [], ask);
    if (files) slot.source = { ...slot.source, files };
    return files !== undefined;
  }

  /** Loads a slot's member, unless it ended a tab; a failure is shown on its card. */
  async load(slot: Slot): Promise<void> {
    const stopped = this.#stopped.get(slot);
    if (stopped) {
      this.#panel.fail(slot, stopped);
      this.#events.onChange();
      if (isOwn(slot)) this.#missToys();
      return;
    }
    const isFound = lacksFiles(slot) ? await this.#findFiles(slot, false) : true;
    const ending = this.#risks?.heldBack(keptSource(slot));
    if (ending || !isFound) {
      slot.state = "held";
      if (ending) this.#panel.hold(slot, ending);
      else this.#panel.wait(slot, "The browser asks you before the page may read its files again.");
      this.#events.onChange();
      if (isOwn(slot)) this.#missToys();
      return;
    }
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
    const risk = this.risk([slot]);
    risk.enter("queued");
    const share = (this.#share ??= this.#shareOf(conclave));
    share.await([slot.source]);
    this.#panel.show(slot);
    this.#events.onChange();
    try {
      slot.about = await this.#added(conclave, slot, {
        signal: controller.signal,
        onProgress: (progress) => {
          // A download ends no tab.
          if (progress.phase === "loading") risk.enter("load");
          else if (progress.phase === "downloading" || progress.phase === "waiting") risk.leave();
          else risk.enter("queued");
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
      if (isOwn(slot) && slot.takesPart) this.#part(false);
      this.#makeRoom();
    } catch (thrown) {
      // Removed, or the engine was reopened: the new one loads it.
      if (!this.slots.includes(slot) || conclave !== this.#conclave) return;
      const error = isAbort(thrown) ? undefined : typed(thrown);
      if (error) this.#panel.fail(slot, error);
      else this.#panel.stopped(slot);
      // One that finds no memory leaves the others as they are.
      if (error && isFatal(error) && error.kind !== "OutOfMemory") {
        if (error.kind === "Engine") this.#stopped.set(slot, error);
        this.#events.onFatal(error, slot);
      } else if (isOwn(slot)) this.#missToys();
    } finally {
      risk.leave();
      if (slot.loading === controller) slot.loading = undefined;
      if (slot.state !== "ready") share.forget(slot.source.name);
      if (!this.loading && this.#share === share) this.#share = undefined;
      this.#events.onChange();
    }
  }

  /** Loads a member; if memory runs out, with less and less room for a conversation. */
  async #added(
    conclave: Conclave,
    slot: Slot,
    options: Pick<AddOptions, "signal" | "onProgress">,
  ): Promise<About> {
    for (;;) {
      const contextTokens = slot.contextTokens ?? this.contextTokens;
      try {
        return await conclave.add(slot.source, { ...options, contextTokens });
      } catch (thrown) {
        if (typed(thrown).kind !== "OutOfMemory" || contextTokens <= leastRoom || !this.#room)
          throw thrown;
        slot.contextTokens = Math.max(leastRoom, contextTokens >> 1);
      }
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

/** A member's source as the next visit knows it: of picked files, that of their copy. */
export const keptSource = ({ source, copy }: Slot): MemberSource =>
  copy === undefined ? source : { ...source, ref: copy };
/** Whether a member can answer without others. */
export const drafts = ({ source, about }: Slot): boolean =>
  !source.judge && !source.builtIn && about?.remote?.can !== "judges only";
/** Whether it is not a bundled toy and can answer without others. */
const isOwn = (slot: Slot): boolean => slot.entry === undefined && drafts(slot);
const isComing = (slot: Slot): boolean =>
  isOwn(slot) && slot.state !== "failed" && slot.state !== "stopped" && slot.state !== "held";
/** Whether its files are known by their handles only. */
const lacksFiles = ({ handles, source }: Slot): boolean =>
  handles !== undefined && !source.files?.length;
/** Whether its model runs on this machine, in this page. */
const isHere = ({ source }: Slot): boolean => source.remote === undefined && !source.builtIn;

/**
 * A slot's member as a risk mark names it. Its size in bytes is that in memory if it is loaded,
 * else that of its files.
 */
function riskOf(slot: Slot): AtRisk {
  const { source, entry, model, about } = slot;
  const files = source.files?.reduce((sum, file) => sum + file.size, 0);
  const bytes = about
    ? total(about.memory)
    : (files ?? source.bytes ?? entry?.bytes ?? model?.bytes ?? 0);
  return atRisk(keptSource(slot), bytes);
}
