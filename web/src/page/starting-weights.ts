/** How far the weights of the members' votes differ, and have moved since the start of an answer. */

/** Relative difference of weights, to the smaller, below which they count as equal. */
const noticeable = 0.1;

/** Whether positive numbers differ by more than a tenth of the smallest. */
export const differ = (numbers: number[]): boolean =>
  numbers.length > 0 && Math.max(...numbers) > (1 + noticeable) * Math.min(...numbers);

/**
 * Whether feedback has changed the ratio of weights in any round. `rows[member]` are the member's
 * weights by round, beginning before the first round; null after the member has left.
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
