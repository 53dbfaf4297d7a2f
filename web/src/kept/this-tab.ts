/** This tab's name, which lives as long as the tab, and whether other tabs still live. */
import { newId } from "./new-id.ts";

const lockPrefix = "conclave tab ";
export const tabName = newId();

let holding: Promise<void> | undefined;

/** Holds this tab's lock until the tab ends, however it ends. */
function hold(locks: LockManager): Promise<void> {
  return (holding ??= new Promise((resolve) => {
    const forever = (): Promise<void> => (resolve(), new Promise<void>(() => undefined));
    void locks.request(lockPrefix + tabName, forever).catch(() => resolve());
  }));
}

/** Locks held now, by name; undefined without Web Locks. */
async function heldLocks(): Promise<Set<string> | undefined> {
  const locks: LockManager | undefined = globalThis.navigator?.locks;
  if (!locks) return undefined;
  await hold(locks);
  const { held = [] } = await locks.query().catch(() => ({ held: [] }));
  return new Set(held.map(({ name }) => name ?? ""));
}

/**
 * Function that says whether the tab of a name is alive. Without Web Locks it knows only of this
 * tab.
 */
export async function livingTabs(): Promise<(tab: string) => boolean> {
  const held = await heldLocks();
  return (tab) => tab === tabName || held?.has(lockPrefix + tab) === true;
}

/** The page as its visitor has it: in sight, out of sight, or left. */
export type View = "seen" | "hidden" | "closed";

/** Tells how the page is seen, now and at each change. */
export function watchView(tell: (view: View) => void): void {
  let closed = false;
  const look = (): void => {
    const view = document.visibilityState === "visible" ? "seen" : "hidden";
    tell(closed ? "closed" : view);
  };
  document.addEventListener("visibilitychange", look); // Comes once more after `pagehide`.
  for (const type of ["pagehide", "pageshow"])
    addEventListener(type, () => {
      closed = type === "pagehide"; // It may come back as it was left.
      look();
    });
  look();
}

/**
 * Whether a hidden tab that ended here is likely to have been ended by the system, to save memory:
 * a discarded one, or any on a handheld.
 */
export function endsHiddenTabs(): boolean {
  const { wasDiscarded } = document as { wasDiscarded?: boolean };
  const { userAgentData } = navigator as { userAgentData?: { mobile?: boolean } };
  const has = (pointer: string): boolean => matchMedia(pointer).matches;
  const byTouchOnly = has("(pointer: coarse)") && !has("(any-pointer: fine)");
  return wasDiscarded === true || userAgentData?.mobile === true || byTouchOnly;
}

const turnLock = (turn: string): string => `conclave turn ${turn}`;

/** Holds the lock of a turn that this tab answers, unless another tab answers it as well. */
export function answering(turn: string): { held: Promise<void>; release: () => void } {
  let release = (): void => undefined;
  const over = new Promise<void>((resolve) => (release = resolve));
  const held = new Promise<void>((resolve) => {
    const hold = (): Promise<void> => (resolve(), over);
    const asked = globalThis.navigator?.locks?.request(turnLock(turn), { ifAvailable: true }, hold);
    if (asked) void asked.catch(() => resolve());
    else resolve();
  });
  return { held, release };
}

/** Waits until no tab answers a turn, which one does now: it is over, or that tab is gone. */
export async function whenNotAnswered(turn: string): Promise<void> {
  const locks: LockManager | undefined = globalThis.navigator?.locks;
  await locks?.request(turnLock(turn), { mode: "shared" }, () => undefined).catch(() => undefined);
}

/** Whether a turn is being answered, in any tab. */
export async function isBeingAnswered(turn: string): Promise<boolean> {
  return (await heldLocks())?.has(turnLock(turn)) === true;
}
