/** Notices about the conversation on the page, and about members that do not answer together. */
import { sentence } from "./figures.ts";
import type { Notices } from "./notices.ts";

/** Members take no part any more. */
export function tellAside(notices: Notices, names: string[]): void {
  const take = names.length === 1 ? "takes" : "take";
  notices.show(
    "aside",
    "hint",
    `${sentence(names)} ${take} no part now: the toys and real models don't answer together.`,
  );
}
