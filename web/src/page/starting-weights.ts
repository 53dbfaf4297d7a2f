/** Weights of the members' votes at the start of an answer, and how far they have moved since. */
import type { BeginEvent } from "../protocol/messages.ts";

/** Relative difference of weights, to the smaller, below which they count as equal. */
const noticeable = 0.1;

/**
 * Weights before the first round, by member, summing to 1: proportional to strength^trust. Unknown
 * members count as the strongest.
 */
export function startingWeights({
  strengths,
  settings,
  members,
}: Pick<BeginEvent, "members"> & {
  strengths: (number | null)[];
  settings: { trust: number };
}): number[] {
  const most = Math.max(...strengths.map((strength) => strength ?? 0));
  const raised = members.map((_, member) => {
    const strength = strengths[member];
    return strength == null || most === 0 ? 1 : (strength / most) ** settings.trust;
  });
  const sum = raised.reduce((all, one) => all + one, 0);
  return raised.map((one) => one / sum);
}

/** Whether positive numbers differ by more than a tenth of the smallest. */
export const differ = (numbers: number[]): boolean =>
  numbers.length > 0 && Math.max(...numbers) > (1 + noticeable) * Math.min(...numbers);

/**
 * Whether feedback has changed the ratio of weights in any round; `rows[member]` has them by round,
 * starting before the first, null after a member has left.
 */
export function haveMoved(rows: (number | null)[][]): boolean {
  const rounds = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: rounds }, (_, round) =>
    rows.flatMap((row) => (row[round] == null || !row[0] ? [] : [row[round] / row[0]])),
  ).some(differ);
}

/** Text shown instead of a chart for steady weights. */
export function steadyText(rows: (number | null)[][]): string {
  if (rows.length < 2) return "One member answers: nothing is weighed.";
  const start = rows.map((row) => row[0] ?? 0);
  const uneven = differ(start);
  const last = Math.max(...rows.map((row) => row.length)) - 1;
  if (last < 1) return uneven ? "" : "All votes count the same at the start.";
  if (uneven) return "Feedback has hardly moved the weights since.";
  const now = rows.flatMap((row) => row[last] ?? []);
  const [low, high] = [Math.min(...now), Math.max(...now)].map((weight) => weight.toFixed(2));
  return `All votes count alike: each weight is ${low === high ? `about ${low}` : `between ${low} and ${high}`}.`;
}
