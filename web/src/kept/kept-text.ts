/** Short texts in this browser's storage, such as a choice of the visitor's. */
import { keepsNothing } from "./nothing.ts";

/** The text under a key; undefined if there is none, or storage is off. */
export function keptText(key: string): string | undefined {
  try {
    return localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a text unless nothing is to be kept; undefined deletes it. */
export function keepText(key: string, text: string | undefined): void {
  try {
    if (text === undefined || keepsNothing()) localStorage.removeItem(key);
    else localStorage.setItem(key, text);
  } catch {
    // Storage is off or full: it holds for this visit.
  }
}
