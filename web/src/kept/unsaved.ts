/**
 * Turns under way, as far as their tab writes of them synchronously: whole as the page closes,
 * since their last events may not have reached the database, and by a mark while it can be seen,
 * since a tab that dies writes nothing more. Both are read by the next visit.
 */
import { keysOf, type MarkStorage } from "./risks.ts";
import { readable, type KeptTurn } from "./records.ts";

const prefix = "conclave unsaved ";
/** Before a turn's id; the value is its conversation's. */
const markPrefix = "conclave answered ";

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

/** Marks a turn as one that a visible page answers, or removes the mark. */
export function markAnswered(
  storage: MarkStorage | undefined,
  { id, conversation }: Pick<KeptTurn, "id" | "conversation">,
  answered: boolean,
): void {
  try {
    if (answered) storage?.setItem(markPrefix + id, conversation);
    else storage?.removeItem(markPrefix + id);
  } catch {
    // Storage is full or off: the answer will look as if its page had closed.
  }
}

/** Whether a turn is marked; if no tab answers it, the one that did has died. */
export const isMarkedAnswered = (storage: MarkStorage | undefined, id: string): boolean =>
  typeof storage?.getItem(markPrefix + id) === "string";

/** Removes what earlier visits wrote, of one conversation or of all. */
export function forgetUnsaved(storage: MarkStorage | undefined, conversation?: string): void {
  for (const key of storage ? keysOf(storage) : [])
    if (key.startsWith(markPrefix) && [undefined, storage!.getItem(key)].includes(conversation))
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
