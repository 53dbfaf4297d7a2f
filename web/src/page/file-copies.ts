/**
 * Copies of picked files in this browser's private storage, where it gives no handles to read them
 * again: offered once a member of such files is ready, and found when they are picked again.
 */
import { isAbort, typed, type Conclave } from "../library/conclave.ts";
import { keepsNothing } from "../kept/nothing.ts";
import { copyReference, isCopy } from "../store/copy-reference.ts";
import { bytes } from "./figures.ts";
import type { Slot } from "./members-panel.ts";
import type { Notices } from "./notices.ts";

interface CopiesContext {
  notices: Pick<Notices, "show" | "progress" | "clear">;
  /** The engine, from its start on: it knows what is stored. */
  starting: () => Conclave | undefined;
  /** A member's files are kept from now on. */
  onKept: () => void;
}

/** A member whose files this visit alone can read. */
interface Picked {
  slot: Slot;
  files: File[];
  /** Reference of its copy; empty until it is known. */
  ref: string;
  /** Aborts once the member has left, or nothing is to be kept. */
  over: AbortController;
}

export class FileCopies {
  readonly #context: CopiesContext;
  readonly #picked = new Map<Slot, Picked>();
  /** References of copies that the visitor did not want in this visit. */
  readonly #declined = new Set<string>();
  readonly #underWay = new Set<Promise<void>>();

  constructor(context: CopiesContext) {
    this.#context = context;
    // Another tab was told to keep nothing.
    addEventListener("storage", () => {
      if (keepsNothing()) this.#withdraw(() => true);
    });
  }

  /** Offers copies of the members that want one, and withdraws offers of those that have left. */
  heed(slots: readonly Slot[]): void {
    this.#withdraw(({ slot }) => !slots.includes(slot));
    if (keepsNothing()) return;
    for (const slot of slots) {
      const files = (slot.source.files ?? []).filter((file) => file instanceof File);
      const isLost = files.length > 0 && slot.handles === undefined && slot.copy === undefined;
      if (!isLost || slot.state !== "ready" || this.#picked.has(slot)) continue;
      const picked = { slot, files, ref: "", over: new AbortController() };
      this.#picked.set(slot, picked);
      void this.#offer(picked);
    }
  }

  /** Deletes all copies; none is offered for these files any more. */
  async forget(): Promise<void> {
    for (const { slot, ref } of this.#picked.values()) {
      this.#declined.add(ref);
      slot.copy = undefined;
    }
    for (const { over, ref } of this.#picked.values()) {
      over.abort();
      this.#context.notices.clear(keyOf(ref));
    }
    await Promise.all(this.#underWay);
    const library = this.#context.starting();
    const { models = [] } = (await library?.models().catch(() => undefined)) ?? {};
    // One that a tab is loading stays; the list of models shows it.
    for (const { ref } of models)
      if (isCopy(ref)) await library?.deleteModel(ref).catch(() => undefined);
  }

  #withdraw(isOver: (picked: Picked) => boolean): void {
    for (const [slot, picked] of this.#picked) {
      if (!isOver(picked)) continue;
      picked.over.abort();
      this.#picked.delete(slot);
      const { ref } = picked;
      this.#context.notices.clear(keyOf(ref));
      // The same files may have been picked twice.
      const other = [...this.#picked.values()].find((each) => each.ref === ref && !isOver(each));
      if (ref !== "" && other) void this.#offer(other);
    }
  }

  async #offer(picked: Picked): Promise<void> {
    const { slot, files, over } = picked;
    const stored = await this.#context
      .starting()
      ?.models()
      .catch(() => undefined);
    if (!stored?.keeps) return;
    const ref = (picked.ref = await copyReference(files));
    if (over.signal.aborted || this.#declined.has(ref)) return;
    if (stored.models.some((model) => model.ref === ref)) return this.#kept(ref);
    const { name } = slot.source;
    const size = sizeOf(files);
    const hasRoom = stored.free === null || size <= stored.free;
    this.#say(
      picked,
      hasRoom ? "hint" : "warning",
      `This browser lets the page read ${name} in this visit only. A copy of it, ${bytes(size)} ` +
        "in the page's own storage in this browser, on this machine, brings it back next time." +
        (hasRoom
          ? ""
          : ` There is no room for it: the browser lets the page keep ${bytes(stored.free ?? 0)} ` +
            "more. Delete stored models under “Change” or free disk space, then try again."),
      hasRoom ? "Keep a copy" : "Try again",
      () => (hasRoom ? this.#begin(picked) : void this.#offer(picked)),
    );
  }

  #begin(picked: Picked): void {
    const copying = this.#copy(picked);
    this.#underWay.add(copying);
    void copying.finally(() => this.#underWay.delete(copying));
  }

  async #copy(picked: Picked): Promise<void> {
    const { slot, files, ref, over } = picked;
    const library = this.#context.starting();
    if (!library || keepsNothing()) return;
    const { name } = slot.source;
    const size = bytes(sizeOf(files));
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, over.signal]);
    const { notices } = this.#context;
    const show = (share: number): void => notices.progress(keyOf(ref), share, `Copying ${name}`);
    notices.show(
      keyOf(ref),
      "hint",
      `${name} is copied into this browser: ${size}. You can ask meanwhile.`,
      [{ label: "Stop copying", run: () => stop.abort() }],
      null, // Dismissed, nothing could stop it any more.
    );
    show(0);
    try {
      await library.keepFiles(files.length === 1 ? files[0]!.name : name, files, {
        signal,
        onProgress: ({ loaded, total }) => show(total > 0 ? loaded / total : 0),
      });
      // It may have been whole before it heard.
      if (signal.aborted || keepsNothing()) {
        await library.deleteModel(ref);
        signal.throwIfAborted();
        return notices.clear(keyOf(ref));
      }
      this.#kept(ref);
      const text = `${name} is kept in this browser, and is here again next time.`;
      notices.show(keyOf(ref), "hint", `${text} “Change” lists it, with a button to delete it.`);
    } catch (error) {
      if (over.signal.aborted) return;
      const again = (): void => this.#begin(picked);
      const stopped = `The copy of ${name} was stopped; nothing of it is kept.`;
      if (isAbort(error)) this.#say(picked, "hint", stopped, "Copy it after all", again);
      else this.#say(picked, "error", typed(error).message, "Try again", again);
    }
  }

  /** Says what may become of a copy; whoever dismisses that is not asked again in this visit. */
  #say(
    { ref }: Picked,
    tone: "hint" | "warning" | "error",
    text: string,
    label: string,
    run: () => void,
  ): void {
    const decline = (): void => void this.#declined.add(ref);
    this.#context.notices.show(keyOf(ref), tone, text, [{ label, run }], decline);
  }

  /** Marks all members of these files: one may have been picked twice. */
  #kept(ref: string): void {
    for (const picked of this.#picked.values()) if (picked.ref === ref) picked.slot.copy = ref;
    this.#context.onKept();
  }
}

const keyOf = (ref: string): string => `copy ${ref}`;
const sizeOf = (files: readonly File[]): number => files.reduce((sum, { size }) => sum + size, 0);
