/** Notices about the engine: a slow adapter, a replaced engine, another tab's memory. */
import type { Conclave } from "../library/conclave.ts";
import type { Notices } from "./notices.ts";

/** Warns of an adapter that emulates a graphics card. */
export function tellSoftware(
  notices: Notices,
  { backend, adapter }: Pick<Conclave, "backend" | "adapter">,
  onCpu: () => void,
): void {
  if (backend !== "webgpu" || !adapter.software) return notices.clear("software");
  const text =
    `${adapter.name} is a software adapter: it emulates a graphics card on the CPU. ` +
    "Answers are right but very slow.";
  notices.show("software", "warning", text, [{ label: "Run on the CPU instead", run: onCpu }]);
}

/** `moved`: the engine was in another tab, which is gone. */
export function tellReopened(notices: Notices, moved: boolean): void {
  const why = moved
    ? "The tab with the engine was closed or frozen, and the engine was reopened."
    : "The engine failed and was reopened.";
  notices.show(
    "engine",
    "warning",
    `${why} The members read the conversation again, and the answer goes on from where it was.`,
  );
}

/** The engine stopped while it loaded a member. */
export function tellStartedAgain(notices: Notices, member: string): void {
  notices.show(
    "engine",
    "warning",
    `The engine stopped while it loaded ${member}, ` +
      "and was started again with the other members. " +
      "The conversation and your question are as they were. " +
      "“Try again” on its card loads it once more.",
  );
}

export function tellTabCost(notices: Notices): void {
  notices.show(
    "tabs",
    "hint",
    "This page is open in another tab as well. " +
      "Each tab holds its models in memory by itself: close one if this machine runs short.",
  );
}
