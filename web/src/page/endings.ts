/** Members that ended a tab: tells of them, and offers to try them again. */
import { endedTab, keyOf, type Ending } from "../kept/risks.ts";
import type { Choosing } from "./choosing.ts";
import type { Notices } from "./notices.ts";
import type { Roster } from "./roster.ts";

export function showEndings(
  endings: readonly Ending[],
  { roster, choosing, notices }: { roster: Roster; choosing: Choosing; notices: Notices },
): void {
  for (const ending of endings) {
    const { key, name, ref } = ending;
    const slot = roster.slots.find(({ source }) => keyOf(source) === key);
    const again = (): void => {
      if (slot && roster.slots.includes(slot)) void roster.retry(slot);
      else choosing.addAgain(ending);
    };
    notices.show(
      `ended ${key}`,
      "warning",
      `${endedTab(ending, name)}. This visit starts without it.`,
      slot || ref !== undefined ? [{ label: `Try ${name} again`, run: again }] : [],
    );
  }
}
