/** Members that ended a tab: tells of them, and offers to try again those that are left out. */
import { endedTab, keyOf, type Ending } from "../kept/risks.ts";
import type { Choosing } from "./choosing.ts";
import { sentence } from "./figures.ts";
import type { Action, Notices } from "./notices.ts";
import { keptSource, type Roster } from "./roster.ts";

interface Places {
  roster: Pick<Roster, "slots" | "retry">;
  choosing: Pick<Choosing, "addAgain">;
  notices: { show: (...notice: Parameters<Notices["show"]>) => unknown };
}

/** Shows all endings in one notice, since notices of several would differ in few words. */
export function showEndings(endings: readonly Ending[], places: Places): void {
  const { roster, choosing, notices } = places;
  if (endings.length === 0) return;
  const offers = endings.flatMap((ending): Action[] => {
    const { key, name, ref, once } = ending;
    const slot = roster.slots.find((each) => keyOf(keptSource(each)) === key);
    if (once || (!slot && ref === undefined)) return [];
    const again = (): void => {
      if (slot && roster.slots.includes(slot)) void roster.retry(slot);
      else choosing.addAgain(ending);
      // A notice goes with its first button; the others are still of use.
      const left = endings.filter((other) => other !== ending && !other.once);
      showEndings(left, places);
    };
    return [{ label: `Try ${name} again`, run: again }];
  });
  notices.show("ended", "warning", textOn(endings), offers);
}

/** Sentences on what ended tabs, by phase, and on what follows. */
function textOn(endings: readonly Ending[]): string {
  const phases = [...new Set(endings.map(({ phase }) => phase))];
  const told = phases.map((phase, place) => {
    const names = endings.filter((ending) => ending.phase === phase).map(({ name }) => name);
    // A tab that died in a load names all that it was loading.
    return `${endedTab({ phase }, names.join(" or "), place > 0 ? "Another" : undefined)}.`;
  });
  const them = (some: readonly Ending[]): string =>
    some.length < endings.length
      ? sentence(some.map(({ name }) => name))
      : some.length > 1
        ? "them"
        : "it";
  const once = endings.filter((ending) => ending.once);
  const held = endings.filter((ending) => !ending.once);
  if (held.length > 0) told.push(`This visit starts without ${them(held)}.`);
  if (once.length > 0)
    told.push(`If that happens again, the next visit starts without ${them(once)}.`);
  return told.join(" ");
}
