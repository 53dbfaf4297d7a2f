/** The visitor's wish that the page keeps nothing of them in this browser. */

const key = "conclave keeps nothing";

export function keepsNothing(): boolean {
  try {
    return localStorage.getItem(key) !== null;
  } catch {
    return true; // Storage is off.
  }
}

export function keepNothing(nothing: boolean): void {
  try {
    if (nothing) localStorage.setItem(key, "yes");
    else localStorage.removeItem(key);
  } catch {
    // Without storage nothing is kept anyway.
  }
}
