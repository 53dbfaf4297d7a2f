/**
 * Copies of picked files in this browser's private storage, where it gives no handles to read them
 * again: offered once members of such files are ready, and found when they are picked again.
 */
import { isAbort, typed, type Conclave, type KeepOptions } from "../library/conclave.ts";
import { keepText } from "../kept/kept-text.ts";
import { keepsNothing } from "../kept/nothing.ts";
import type { Progress } from "../protocol/messages.ts";
import { copyReference, isCopy, isWholeCopy } from "../store/copy-reference.ts";
import { bytes, sentence } from "./figures.ts";
import type { Slot } from "./members-panel.ts";
import type { Notices } from "./notices.ts";

interface CopiesContext {
  notices: Pick<Notices, "show" | "progress" | "clear">;
  /** The engine, from its start on: it knows what is stored. */
  starting: () => Conclave | undefined;
  /** A member's files are kept from now on. */
  onKept: () => void;
}

/** Files that this visit alone can read, of one member or of several. */
interface Picked {
  /** Reference of their copy. */
  ref: string;
  name: string;
  files: File[];
  size: number;
  /** `told`: a notice of its own says why there is no copy. */
  state: "offered" | "copying" | "told";
  /** Whether the copy has taken its room, so that the browser counts it as used. */
  hasRoom: boolean;
  /** Aborts once the last member has left, or nothing is to be kept. */
  over: AbortController;
}

const offerKey = "copies";
/** Text whose change lets other tabs hear that all copies are to be deleted. */
const deletedKey = "conclave copies deleted";

export class FileCopies {
  readonly #context: CopiesContext;
  #slots: readonly Slot[] = [];
  /** References of the slots' files, once they are known. */
  readonly #refs = new WeakMap<Slot, string>();
  readonly #picked = new Map<string, Picked>();
  /** References of the copies in the offer that is shown. */
  #shown = "";
  /** References of copies that the visitor did not want in this visit. */
  readonly #declined = new Set<string>();
  readonly #underWay = new Set<Promise<void>>();
  /** Copies that are still to be deleted; all of them, if they could not be listed. */
  #doomed: Set<string> | "all" = keepsNothing() ? "all" : new Set();
  /** Copies wanted since all were to be deleted. */
  readonly #spared = new Set<string>();
  /** Looks at what is stored, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(context: CopiesContext) {
    this.#context = context;
    addEventListener("storage", ({ key }) => {
      if (keepsNothing() || key === deletedKey) this.#drop();
    });
  }

  /** Offers copies of the members that want one, and withdraws offers of those that have left. */
  heed(slots: readonly Slot[]): void {
    this.#slots = [...slots];
    if (this.#doomed === "all" || this.#doomed.size > 0) void this.#delete();
    const here = new Set(slots.map((slot) => this.#refs.get(slot)));
    this.#end(({ ref }) => keepsNothing() || !here.has(ref));
    this.#look();
  }

  /**
   * Deletes all copies; none is offered for these files any more. Returns whether none is left: one
   * that a tab is loading stays until the next change of members.
   */
  async forget(): Promise<boolean> {
    this.#doom("all");
    this.#spared.clear();
    this.#drop();
    keepText(deletedKey, String(Math.random()));
    keepText(deletedKey, undefined);
    await Promise.all(this.#underWay);
    return this.#delete();
  }

  /** Ends copies under way, here as in every tab that hears of it. */
  #drop(): void {
    for (const slot of this.#slots) {
      const ref = this.#refs.get(slot);
      slot.copy = undefined;
      if (ref === undefined) continue;
      this.#declined.add(ref);
      this.#context.notices.clear(keyOf({ ref }));
    }
    this.#end(() => true);
  }

  #end(isOver: (picked: Picked) => boolean): void {
    for (const picked of [...this.#picked.values()].filter(isOver)) {
      picked.over.abort();
      this.#picked.delete(picked.ref);
      this.#context.notices.clear(keyOf(picked));
    }
    if (this.#offered.length === 0) this.#show(0);
  }

  /** Deletes what is doomed, as far as that works now; returns whether nothing of it is left. */
  #delete(): Promise<boolean> {
    return this.#inTurn(async () => {
      const doomed = this.#doomed;
      this.#doomed = new Set();
      const library = this.#context.starting();
      const stored = await library?.models().catch(() => undefined);
      if (!library || !stored) {
        this.#doom(doomed);
        return false;
      }
      const refs = stored.models.flatMap(({ ref }) => (isCopy(ref) ? ref : []));
      const left: string[] = [];
      for (const ref of refs)
        if (this.#isDoomed(ref, doomed)) await library.deleteModel(ref).catch(() => left.push(ref));
      this.#doom(left);
      return left.length === 0;
    });
  }

  #isDoomed(ref: string, doomed = this.#doomed): boolean {
    return (doomed === "all" || doomed.has(ref)) && !this.#spared.has(ref);
  }

  #doom(refs: Iterable<string> | "all"): void {
    const isAll = refs === "all" || this.#doomed === "all";
    this.#doomed = isAll ? "all" : new Set([...this.#doomed, ...refs]);
  }

  get #offered(): Picked[] {
    return [...this.#picked.values()].filter(({ state }) => state === "offered");
  }

  /** Finds members without a copy, and offers copies of them. */
  #look(): void {
    void this.#inTurn(async () => {
      for (const slot of this.#slots)
        if (isLost(slot) && !this.#refs.has(slot))
          this.#refs.set(slot, await copyReference(filesOf(slot)));
      const found = this.#found();
      if (keepsNothing() || (found.size === 0 && refsOf(this.#offered) === this.#shown)) return;
      const stored = await this.#context
        .starting()
        ?.models()
        .catch(() => undefined);
      // Members may have left meanwhile, or been copied.
      if (!stored?.keeps || keepsNothing()) return;
      for (const [ref, slot] of this.#found()) {
        if (!found.has(ref)) continue;
        const isThere = stored.models.some((model) => model.ref === ref && isWholeCopy(model));
        if (isThere && !this.#isDoomed(ref)) this.#kept(ref);
        else this.#picked.set(ref, pickedOf(ref, slot));
      }
      this.#show(stored.free);
    });
  }

  /** Members whose files are lost and were not heeded yet, by the references of their copies. */
  #found(): Map<string, Slot> {
    const isFound = (ref: string | undefined): ref is string =>
      ref !== undefined && !this.#picked.has(ref) && !this.#declined.has(ref);
    return new Map(
      this.#slots.filter(isLost).flatMap((slot): [string, Slot][] => {
        const ref = this.#refs.get(slot);
        return isFound(ref) ? [[ref, slot]] : [];
      }),
    );
  }

  /** Shows one offer for all that is to be copied. `free`: bytes that the browser grants. */
  #show(free: number | null): void {
    const { notices } = this.#context;
    const offered = this.#offered;
    this.#shown = refsOf(offered);
    if (offered.length === 0) return notices.clear(offerKey);
    const begun = [...this.#picked.values()].filter(
      ({ state, hasRoom }) => state === "copying" && !hasRoom,
    );
    const room = free === null ? Infinity : Math.max(0, free - sizeOf(begun));
    const size = sizeOf(offered);
    const fits = size <= room;
    const isOne = offered.length === 1;
    const place = "in the page's own storage in this browser, on this machine,";
    const keep = isOne
      ? `A copy of it, ${bytes(size)} ${place} brings it back next time.`
      : `Copies of them, ${bytes(size)} ${place} bring them back next time.`;
    const lack =
      ` There is no room for ${isOne ? "it" : "all of them"}: the browser lets the page keep ` +
      `${bytes(room)} more. Delete stored models under “Change” or free disk space, then try again.`;
    const names = sentence(offered.map(({ name }) => name));
    notices.show(
      offerKey,
      fits ? "hint" : "warning",
      `This browser lets the page read ${names} in this visit only. ${keep}${fits ? "" : lack}`,
      fits
        ? [{ label: isOne ? "Keep a copy" : "Keep copies", run: () => this.#begin(offered) }]
        : [
            ...offered
              .filter((one) => one.size <= room)
              .map((one) => ({ label: `Keep ${one.name} only`, run: () => this.#begin([one]) })),
            { label: "Try again", run: () => this.#showAgain() },
          ],
      () => {
        for (const { ref } of offered) this.#decline(ref);
      },
    );
  }

  /** Shows the rest of an offer, whose notice has gone with one of its buttons. */
  #showAgain(): void {
    this.#shown = "";
    this.#look();
  }

  /** Whoever dismisses an offer is not asked again in this visit. */
  #decline(ref: string): void {
    this.#declined.add(ref);
    this.#picked.delete(ref);
    this.#shown = refsOf(this.#offered);
  }

  #begin(some: readonly Picked[]): void {
    if (keepsNothing()) return;
    for (const picked of some) {
      // Its member may have left since the notice was shown.
      if (this.#picked.get(picked.ref) !== picked) continue;
      this.#spared.add(picked.ref);
      const copying = this.#copy(picked);
      this.#underWay.add(copying);
      void copying.finally(() => this.#underWay.delete(copying));
    }
    this.#showAgain();
  }

  async #copy(picked: Picked): Promise<void> {
    const { ref, name, size, over } = picked;
    picked.state = "copying";
    picked.hasRoom = false;
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, over.signal]);
    const { notices } = this.#context;
    const key = keyOf(picked);
    const say = (waits: boolean): void => {
      const text = waits
        ? `${name} is being copied by another tab with this page, which this one waits for.`
        : `${name} is copied into this browser: ${bytes(size)}. You can ask meanwhile.`;
      // Dismissed, nothing could stop it any more.
      notices.show(key, "hint", text, [{ label: "Stop copying", run: () => stop.abort() }], null);
    };
    const show = (share: number): void => notices.progress(key, share, `Copying ${name}`);
    let waits = false;
    say(waits);
    show(0);
    const onProgress = ({ phase, loaded, total }: Progress): void => {
      if (signal.aborted) return;
      if (waits !== (phase === "waiting")) say((waits = !waits));
      picked.hasRoom ||= phase === "downloading";
      show(total > 0 ? loaded / total : 0);
    };
    try {
      await this.#keepFiles(picked, { signal, onProgress });
      // It may have been whole before it heard.
      if (signal.aborted || keepsNothing()) {
        this.#spared.delete(ref);
        this.#doom([ref]);
        await this.#delete();
        signal.throwIfAborted();
        return this.#end((each) => each === picked);
      }
      this.#kept(ref);
      const text = `${name} is kept in this browser, and is here again next time.`;
      notices.show(key, "hint", `${text} “Change” lists it, with a button to delete it.`);
    } catch (error) {
      if (over.signal.aborted) return;
      picked.state = "told";
      const isStopped = isAbort(error);
      notices.show(
        key,
        isStopped ? "hint" : "error",
        isStopped
          ? `The copy of ${name} was stopped; nothing of it is kept.`
          : typed(error).message,
        [
          {
            label: isStopped ? "Copy it after all" : "Try again",
            run: () => this.#begin([picked]),
          },
        ],
        () => this.#decline(ref),
      );
    }
  }

  /** Copies files; if another engine replaces the one that does, begins again by that. */
  async #keepFiles({ name, files }: Picked, options: KeepOptions): Promise<void> {
    for (let library = this.#context.starting(); library; ) {
      try {
        await library.keepFiles(files.length === 1 ? files[0]!.name : name, files, options);
        return;
      } catch (error) {
        const next = this.#context.starting();
        if (isAbort(error) || next === library) throw error;
        library = next;
      }
    }
  }

  /** Marks all members of these files: one may have been picked twice. */
  #kept(ref: string): void {
    this.#picked.delete(ref);
    for (const slot of this.#slots) if (this.#refs.get(slot) === ref) slot.copy = ref;
    this.#context.onKept();
  }

  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(task);
    this.#turn = done.catch(() => undefined);
    return done;
  }
}

const filesOf = ({ source }: Slot): File[] =>
  (source.files ?? []).filter((file) => file instanceof File);
/** Whether it is ready, of files that only this visit can read. */
const isLost = (slot: Slot): boolean =>
  slot.state === "ready" &&
  slot.handles === undefined &&
  slot.copy === undefined &&
  filesOf(slot).length > 0;

function pickedOf(ref: string, slot: Slot): Picked {
  const files = filesOf(slot);
  const over = new AbortController();
  const { name } = slot.source;
  return { ref, name, files, size: sizeOf(files), state: "offered", hasRoom: false, over };
}

const keyOf = ({ ref }: Pick<Picked, "ref">): string => `copy ${ref}`;
const refsOf = (some: readonly Picked[]): string => some.map(({ ref }) => ref).join(" ");
const sizeOf = (some: readonly { size: number }[]): number =>
  some.reduce((sum, { size }) => sum + size, 0);
