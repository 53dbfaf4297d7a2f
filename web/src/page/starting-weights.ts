/**
 * How far the weights of the members' votes differ, and have moved since the start of an answer.
 */

/** Relative difference of weights, to the smaller, below which they count as equal. */
const noticeable = 0.1;

/** Whether positive numbers differ by more than a tenth of the smallest. */
export const differ = (numbers: number[]): boolean =>
  numbers.length > 0 && Math.max(...numbers) > (1 + noticeable) * Math.min(...numbers);

/**
 * Whether feedback has changed the ratio of weights in any round. `rows[member]` are the member's
 * weights by round, beginning before the first round; null before the member joins and after it has
 * left.
 */
export function haveMoved(rows: (number | null)[][]): boolean {
  const rounds = Math.max(0, ...rows.map((row) => row.length));
  return Array.from({ length: rounds }, (_, round) => {
    const here = rows.flatMap((row) => (row[round] == null ? [] : [[row[round], row[0]] as const]));
    const ratios = here.flatMap(([now, start]) => (start ? [now / start] : []));
    // Members that joined later have no start to compare with.
    return differ(ratios.length < here.length ? here.map(([now]) => now) : ratios);
  }).some(Boolean);
}

/** Text shown instead of a chart for steady weights. `round`: one that is open; else the last. */
export function steadyText(rows: (number | null)[][], round?: number): string {
  const last = Math.max(...rows.map((row) => row.length)) - 1;
  const now = rows.flatMap((row) => row[round ?? last] ?? []);
  const [where, all, one] = round
    ? [`In round ${round} `, "all votes", "one member"]
    : ["", "All votes", "One member"];
  if (now.length < 2) return `${where}${one} answers: nothing is weighed.`;
  const uneven = differ(rows.flatMap((row) => row[0] ?? []));
  if (last < 1) return uneven ? "" : "All votes count the same at the start.";
  if (uneven) return "Feedback has hardly moved the weights since.";
  const [low, high] = [Math.min(...now), Math.max(...now)].map((weight) => weight.toFixed(3));
  const range = low === high ? `about ${low}` : `between ${low} and ${high}`;
  return `${where}${all} count alike: each weight is ${range}.`;
}
