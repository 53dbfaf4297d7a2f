/** Links with a question and an ensemble: makes them, and offers what one names. */
import { fragmentOf, readFragment, type Linked } from "../kept/link.ts";
import { isCopy } from "../store/copy-reference.ts";
import type { Choosing } from "./choosing.ts";
import { sentence } from "./figures.ts";
import type { Notices } from "./notices.ts";
import type { Roster } from "./roster.ts";

/** A link to a question. `models`: whether it names the ensemble, too. */
export interface QuestionLink {
  href: string;
  models: boolean;
}

/** A link to a question with the present ensemble; undefined without one, or if it is too long. */
export function linkTo(question: string, { title, slots }: Roster): QuestionLink | undefined {
  const members = slots.map(({ source: { name, ref } }) => ({
    name,
    // A copy is in this browser alone.
    ref: ref !== undefined && isCopy(ref) ? undefined : ref,
  }));
  const fragment = question === "" ? undefined : fragmentOf(question, title, members);
  if (fragment === undefined) return undefined;
  const models = readFragment(fragment)?.ensemble !== undefined;
  return { href: new URL(fragment, location.href).href, models };
}

/** Offers a link's ensemble; nothing is fetched before the visitor takes it. */
export function offerMembers(
  { ensemble }: Linked,
  { roster, choosing, notices }: { roster: Roster; choosing: Choosing; notices: Notices },
): void {
  if (!ensemble) return;
  const { title, members } = ensemble;
  const refs = members.map(({ ref }) => ref);
  const present = roster.slots.map(({ source }) => source.ref);
  if (present.length === refs.length && present.every((ref) => ref && refs.includes(ref))) return;
  notices.show(
    "link",
    "hint",
    `The link names an ensemble, ${title}: ${sentence(refs)}. ` +
      "What is not stored here would be fetched from its host.",
    [{ label: "Take these members", run: () => void choosing.takeNamed(title, members) }],
  );
}
