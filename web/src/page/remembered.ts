/** The last ensemble, stored in this browser for the next visit. */
import { keepsNothing } from "../kept/nothing.ts";
import {
  flag,
  list,
  number,
  optional,
  oneOf,
  shape,
  text,
  type Checked,
} from "../protocol/check.ts";
import { contextTokens } from "../protocol/messages.ts";

const remembered = shape({
  title: text,
  contextTokens,
  /**
   * None of `ref`, `remote`, `builtIn` and `toy`: picked files, whose handles are kept under the
   * member's name; `lost`: there are none, so that only the visitor can choose them again. `key`: only if the visitor wants it kept. `toy`: a bundled one, which leaves for
   * the visitor's own unless it was chosen.
   */
  members: list(
    shape({
      name: text,
      ref: optional(text),
      quantise: optional(oneOf("Q8_0", "Q4_0")),
      remote: optional(text),
      builtIn: optional(flag),
      toy: optional(oneOf("chosen", "default")),
      lost: optional(flag),
      model: optional(text),
      key: optional(text),
      judge: optional(flag),
      timeout: optional(number),
    }),
  ),
});

export type Remembered = Checked<typeof remembered>;
export type RememberedMember = Remembered["members"][number];

const key = "conclave ensemble";
const roomKey = "conclave room";

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
    if (ensemble && !keepsNothing()) localStorage.setItem(key, JSON.stringify(ensemble));
    else localStorage.removeItem(key);
  } catch {
    // Storage is off or full: the next visit opens with the bundled members.
  }
}

/** The visitor's choice of room for a conversation, in tokens; undefined: the most that fits. */
export function recallRoom(): number | undefined {
  try {
    return contextTokens(Number(localStorage.getItem(roomKey)), roomKey);
  } catch {
    return undefined; // None was chosen, or storage is off.
  }
}

export function rememberRoom(tokens: number | undefined): void {
  try {
    if (tokens === undefined || keepsNothing()) localStorage.removeItem(roomKey);
    else localStorage.setItem(roomKey, String(tokens));
  } catch {
    // Storage is off or full: the choice is this visit's.
  }
}
