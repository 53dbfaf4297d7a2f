/**
 * Whether this page is open in another tab as well, which holds models of its own where it does not
 * share an engine.
 */

const lockName = `conclave page ${new URL("./", document.baseURI).pathname}`;

let counted: Promise<void> | undefined;

/**
 * Counts this tab for as long as it is open, and says whether there is another one. False where the
 * browser has no locks.
 */
export async function hasOtherTab(): Promise<boolean> {
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
