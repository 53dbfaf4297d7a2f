/** The last ensemble, stored in this browser for the next visit. */
import { list, optional, oneOf, shape, text, type Checked } from "../protocol/check.ts";
import { contextTokens } from "../protocol/messages.ts";

const remembered = shape({
  title: text,
  contextTokens,
  members: list(shape({ name: text, ref: text, quantise: optional(oneOf("Q8_0", "Q4_0")) })),
});

export type Remembered = Checked<typeof remembered>;

const key = "conclave ensemble";

/** Undefined if nothing readable is stored. */
export function recall(): Remembered | undefined {
  try {
    const found = remembered(JSON.parse(localStorage.getItem(key) ?? "null"), key);
    return found.members.length > 0 && found.members.length <= 8 ? found : undefined;
  } catch {
    return undefined; // Missing, not ours, or storage is off.
  }
}

/** Stores an ensemble; undefined deletes it. */
export function remember(ensemble: Remembered | undefined): void {
  try {
    if (ensemble) localStorage.setItem(key, JSON.stringify(ensemble));
    else localStorage.removeItem(key);
  } catch {
    // Storage is off or full: the next visit opens with the bundled members.
  }
}
