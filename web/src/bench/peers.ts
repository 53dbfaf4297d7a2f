/** What is told of other engines while they are measured, and kept where one of them is left. */
import type { PeerSeries } from "./report.ts";

/** What was measured up to now, and what is under way. */
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

/** What an engine had measured that was left after it had been `ms` at what it did last. */
export function leftAt({ series, doing: { prefix, what } }: PeerNews, ms: number): PeerSeries[] {
  const failure = `left after ${Math.round(ms / 1000)} s of ${what === "load" ? "loading" : `a ${what}`}`;
  return series.map((at) => {
    if (at.prefix !== prefix) return at;
    return {
      ...at,
      failure,
      atLeastMs: what === "load" ? at.atLeastMs : { ...at.atLeastMs, [what]: ms },
    };
  });
}
