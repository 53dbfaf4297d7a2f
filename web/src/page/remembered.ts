/** The last ensemble, stored in this browser for the next visit. */
import { keepText, keptText } from "../kept/kept-text.ts";
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
import { contextTokens, type MemberSource } from "../protocol/messages.ts";

const member = shape({
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
});
const remembered = shape({
  title: text,
  contextTokens,
  /**
   * None of `ref`, `remote`, `builtIn` and `toy`: picked files, whose handles are kept under the
   * member's name (a copy of such files has a `ref`); `lost`: there are none, so that only the
   * visitor can choose them again. `key`: only if the visitor wants it kept. `toy`: a bundled one,
   * which leaves for the visitor's own unless it was chosen.
   */
  members: list(member),
});

type Remembered = Checked<typeof remembered>;
export type RememberedMember = Remembered["members"][number];

const key = "conclave ensemble";
const roomKey = "conclave room";

/** A member as it is remembered, without what the next visit does not need. */
export const memberOf = (source: MemberSource): RememberedMember => member(source, "member");

/** Undefined if nothing readable is stored. */
export function recall(): Remembered | undefined {
  try {
    const found = remembered(JSON.parse(keptText(key) ?? "null"), key);
    return found.members.length > 0 && found.members.length <= 8 ? found : undefined;
  } catch {
    return undefined; // Missing, not ours, or storage is off.
  }
}

/** Stores an ensemble; undefined deletes it. */
export const remember = (ensemble: Remembered | undefined): void =>
  keepText(key, ensemble && JSON.stringify(ensemble));

/** The visitor's choice of room for a conversation, in tokens; undefined: the most that fits. */
export function recallRoom(): number | undefined {
  try {
    return contextTokens(Number(keptText(roomKey)), roomKey);
  } catch {
    return undefined; // None was chosen, or storage is off.
  }
}

export const rememberRoom = (tokens: number | undefined): void =>
  keepText(roomKey, tokens?.toString());
