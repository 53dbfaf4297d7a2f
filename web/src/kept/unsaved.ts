/**
 * Turns under way, as far as their tab writes of them synchronously: whole as the page closes,
 * since their last events may not have reached the database, and by a mark until then, since a tab
 * that dies writes nothing more. Both are read by the next visit.
 */
import { keysOf, type MarkStorage } from "./risks.ts";
import { readable, type KeptTurn } from "./records.ts";
import type { View } from "./this-tab.ts";

const prefix = "conclave unsaved ";
/** Before a turn's id; the value is its conversation's, and that the page is hidden. */
const markPrefix = "conclave answered ";
const hiddenMark = " hidden";

/** Writes turns under way; without storage or room the database has all but the last events. */
export function writeUnsaved(storage: MarkStorage | undefined, turns: readonly KeptTurn[]): void {
  for (const turn of turns) {
    try {
      storage?.setItem(prefix + turn.id, JSON.stringify(turn));
    } catch {
      return;
    }
  }
}

/** Marks a turn as one that a page answers, or removes the mark: `closed`. */
export function markAnswered(
  storage: MarkStorage | undefined,
  { id, conversation }: Pick<KeptTurn, "id" | "conversation">,
  view: View,
): void {
  const hidden = view === "hidden" ? hiddenMark : "";
  try {
    if (view === "closed") storage?.removeItem(markPrefix + id);
    else storage?.setItem(markPrefix + id, conversation + hidden);
  } catch {
    // Storage is full or off: the answer will look as if its page had closed.
  }
}

/**
 * Whether a turn is marked; if no tab answers it, the one that did has died. `hidden`: also if that
 * was hidden.
 */
export function isMarkedAnswered(
  storage: MarkStorage | undefined,
  id: string,
  hidden = true,
): boolean {
  const mark = storage?.getItem(markPrefix + id);
  return typeof mark === "string" && (hidden || !mark.endsWith(hiddenMark));
}

/** Removes what earlier visits wrote, of one conversation or of all. */
export function forgetUnsaved(storage: MarkStorage | undefined, conversation?: string): void {
  for (const key of storage ? keysOf(storage) : [])
    if (
      key.startsWith(markPrefix) &&
      [undefined, storage!.getItem(key)?.replace(hiddenMark, "")].includes(conversation)
    )
      storage!.removeItem(key);
  const others = takeUnsaved(storage).filter(
    (turn) => conversation !== undefined && turn.conversation !== conversation,
  );
  writeUnsaved(storage, others);
}

/** Returns the turns that earlier visits wrote as they closed, and removes them from storage. */
export function takeUnsaved(storage: MarkStorage | undefined): KeptTurn[] {
  if (!storage) return [];
  return keysOf(storage)
    .filter((key) => key.startsWith(prefix))
    .flatMap((key) => {
      const text = storage.getItem(key) ?? "";
      storage.removeItem(key);
      try {
        const turn = JSON.parse(text) as KeptTurn;
        return typeof turn.id === "string" && typeof turn.conversation === "string"
          ? [readable(turn)]
          : [];
      } catch {
        return []; // Not ours, or cut short.
      }
    });
}
