/** Notices about the conversation on the page, and about members that do not answer together. */
import { sentence } from "./figures.ts";
import type { Notices } from "./notices.ts";

/** Another tab has deleted the conversation that is shown. `nothing`: nothing is to be kept. */
export function tellDeleted(
  notices: Notices,
  deleted: boolean,
  nothing: boolean,
  onNew: () => void,
): void {
  if (!deleted) return notices.clear("deleted");
  const text = nothing
    ? "“Keep nothing” was chosen in another tab. " +
      "What is shown here is no longer kept, and gone when you leave it."
    : "This conversation was deleted in another tab. " +
      "It is gone when you leave it; if you ask on, all that is shown is kept again.";
  notices.show("deleted", "warning", text, [{ label: "New conversation", run: onNew }]);
}

/** A link has brought another question while one was half-typed. */
export function tellBegun(notices: Notices, onBack: () => void): void {
  notices.show(
    "begun",
    "hint",
    "The question in the box is the link's. The one that you had begun is under “Conversations”.",
    [{ label: "Back to it", run: onBack }],
  );
}

/** Members take no part any more. */
export function tellAside(notices: Notices, names: string[]): void {
  const take = names.length === 1 ? "takes" : "take";
  notices.show(
    "aside",
    "hint",
    `${sentence(names)} ${take} no part now: the toys and real models don't answer together.`,
  );
}
