/** Median and quartiles of timings. */

export interface Spread {
  median: number;
  /** A quarter of the values lie below `low`, a quarter above `high`. */
  low: number;
  high: number;
  count: number;
}

/** Median and quartiles, interpolated; null for an empty list. */
export function spread(values: readonly number[]): Spread | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number => {
    const place = part * (sorted.length - 1);
    const below = sorted[Math.floor(place)]!;
    return below + (sorted[Math.ceil(place)]! - below) * (place % 1);
  };
  return { median: at(0.5), low: at(0.25), high: at(0.75), count: sorted.length };
}

/** The median; NaN for an empty list. */
export function median(values: readonly number[]): number {
  return spread(values)?.median ?? NaN;
}
