/** Reports of other engines during their measurement, kept if one is cut off. */
import type { PeerSeries } from "./report.ts";

/** Measurements so far, and the one under way. */
export interface PeerNews {
  series: PeerSeries[];
  doing: { prefix: number; what: "load" | "prefill" | "step" | "round" };
}

/** Nothing measured yet. */
export const emptySeries = (prefix: number): PeerSeries => ({
  prefix,
  cold: false,
  prefillMs: [],
  stepMs: [],
  stepCounts: null,
  roundMs: [],
  roundCounts: null,
  atLeastMs: {},
});

/** Measurements of an engine that was cut off `ms` into its last step. */
export function leftAt({ series, doing: { prefix, what } }: PeerNews, ms: number): PeerSeries[] {
  const step = what === "load" ? "loading" : `a ${what}`;
  const failure = `left after ${Math.round(ms / 1000)} s of ${step}`;
  return series.map((at) => {
    if (at.prefix !== prefix) return at;
    return {
      ...at,
      failure,
      atLeastMs: what === "load" ? at.atLeastMs : { ...at.atLeastMs, [what]: ms },
    };
  });
}
