/** Numbers formatted for display. */
import type { RoundEvent } from "../protocol/messages.ts";

/** Bytes in decimal units, as for disks and downloads: 3.4 MB. */
export function bytes(count: number): string {
  if (count < 1000) return `${count}\u00a0B`;
  const units = ["kB", "MB", "GB"];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)}\u00a0${units[unit]}`;
}

/** A parameter count: 950 k, 3.2 M. */
export function parameters(count: number): string {
  if (count < 1e6) return `${Math.round(count / 1e3)}\u00a0k`;
  if (count < 1e9) return `${(count / 1e6).toFixed(1)}\u00a0M`;
  return `${(count / 1e9).toFixed(1)}\u00a0G`;
}

/** A time: 340 ms, 2.5 s, 75 s. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return ms < 9950 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}

/** Tokens a second, with two significant digits. */
export function speed(tokens: number, ms: number): string {
  const rate = ms > 0 ? (tokens * 1000) / ms : 0;
  return `${rate < 10 ? rate.toFixed(rate < 1 ? 2 : 1) : Math.round(rate)} tokens/s`;
}

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

export const plural = (count: number, one: string): string =>
  `${count} ${one}${count === 1 ? "" : "s"}`;

/** A time to come, rounded to its accuracy: 8 s, 4 min, 1.5 h. */
export function roughly(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Remaining time: 8 s left. */
export const timeLeft = (seconds: number): string => `${roughly(seconds)} left`;

/** Number of segments that a member wrote, and how many of those in the same words as others. */
export function written(
  rounds: Pick<RoundEvent, "drafters" | "writers">[],
  member: number,
): { segments: number; shared: number } {
  const own = rounds.filter(({ drafters, writers }) =>
    writers.some((place) => drafters[place] === member),
  );
  return { segments: own.length, shared: own.filter(({ writers }) => writers.length > 1).length };
}

/** Names as a list in a sentence: a, b and c. */
export const sentence = (names: string[]): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** Labels of an axis, all with the decimals that the finest needs: 0.00, 0.25, 0.50. */
export function marks(values: number[]): string[] {
  const decimals = values.map((value) => /\.(\d*?)0*$/.exec(value.toFixed(3))?.[1]?.length ?? 0);
  return values.map((value) => value.toFixed(Math.max(1, ...decimals)));
}
