/** Detects other tabs of this page, which hold models of their own unless they share an engine. */

import type { Notices } from "./notices.ts";
import type { Sharing } from "./sharing.ts";

const lockName = `conclave page ${new URL("./", document.baseURI).pathname}`;

let counted: Promise<void> | undefined;

/**
 * Registers this tab for as long as it is open, and returns whether there is another. False without
 * Web Locks.
 */
async function hasOtherTab(): Promise<boolean> {
  const locks: LockManager | undefined = navigator.locks;
  if (!locks) return false;
  // Held until the tab closes.
  await (counted ??= new Promise<void>(
    (resolve) =>
      void locks
        .request(
          lockName,
          { mode: "shared" },
          () => (resolve(), new Promise<void>(() => undefined)),
        )
        .catch(() => resolve()),
  ));
  const { held = [] } = await locks.query();
  return held.filter(({ name }) => name === lockName).length > 1;
}

/** Shows what another tab costs, unless both share an engine. */
export async function showTabCost(
  notices: Notices,
  sharing: Pick<Sharing, "shared"> | undefined,
): Promise<void> {
  if (!(await hasOtherTab()) || sharing?.shared) return;
  notices.show(
    "tabs",
    "hint",
    "This page is open in another tab as well. Each tab holds its models in memory by itself: close one if this machine runs short.",
  );
}
