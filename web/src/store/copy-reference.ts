/** References of copies: models in the store that came from files which the visitor picked. */
import type { StoredModel } from "../protocol/messages.ts";
import { sha256 } from "./sha256.ts";

/** Whether a reference names a copy, which is of use in this browser alone. */
export const isCopy = (ref: string): boolean => /^copy:[\da-f]{64}$/.test(ref);

/** Whether a stored model is a copy with all its bytes: one that lacks some is of no use. */
export const isWholeCopy = ({
  ref,
  complete,
  toReserve,
}: Pick<StoredModel, "ref" | "complete" | "toReserve">): boolean =>
  isCopy(ref) && complete && toReserve === 0;

/** The reference of some files' copy: the same at every visit, until one of them changes. */
export async function copyReference(files: readonly File[]): Promise<string> {
  const known = files.map(({ name, size, lastModified }) => [name, size, lastModified]);
  const text = JSON.stringify(known.sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
  return `copy:${await sha256(new TextEncoder().encode(text))}`;
}
