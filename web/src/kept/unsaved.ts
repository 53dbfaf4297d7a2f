/**
 * Turns whose last events may not have reached the database when the page closes: written
 * synchronously as it closes, and read by the next visit.
 */
import { keysOf, type MarkStorage } from "./risks.ts";
import { readable, type KeptTurn } from "./records.ts";

const prefix = "conclave unsaved ";

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

/** Removes what earlier visits wrote, of one conversation or of all. */
export function forgetUnsaved(storage: MarkStorage | undefined, conversation?: string): void {
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
