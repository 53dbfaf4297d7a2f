/** Our times beside another engine's in the same run, with the ratio of theirs to ours. */
import type { Counts, MemberReport, PeerSeries, Run } from "./report.ts";
import { median } from "./statistics.ts";
import { figure, type Table } from "./tables.ts";

/** One measure: a median, or a lower bound if the measurement was cut off. */
interface Taken {
  value: number;
  cutOff: boolean;
}

function taken(values: readonly number[], atLeast: number | undefined): Taken | undefined {
  if (values.length > 0) return { value: median(values), cutOff: false };
  return atLeast === undefined ? undefined : { value: atLeast, cutOff: true };
}

/** Time to run the whole prefix: the constant beginning of a published template was cached. */
function prefillMs(member: MemberReport | undefined): number | undefined {
  if (!member?.prefill.ms) return undefined;
  return (member.prefill.ms.median * member.prefix) / member.prefill.tokens;
}

/**
 * Runs of one workload, one a turn; a row for each prefix and measure. A ratio is the median over
 * the turns, with minimum and maximum; `>` marks one that was cut off in any turn.
 */
export function compared(name: string, engine: string, runs: readonly Run[]): Table {
  const rows: string[][] = [];
  const { prefixes, ensembles, backend } = runs[0]!.ours.plan;
  const most = Math.max(...ensembles);
  for (const [at, prefix] of prefixes.entries()) {
    const seriesOf = (run: Run): PeerSeries | undefined => run.theirs[engine]?.[at];
    const workload = (run: Run) => run.ours.workloads[0];
    const member = (run: Run) => workload(run)?.members[at];
    const round = (run: Run) =>
      workload(run)?.rounds.filter((each) => each.members === most && each.drafting === "all")[at];
    const add = (
      what: string,
      ours: (run: Run) => number | null | undefined,
      theirs: (series: PeerSeries) => Taken | undefined,
    ): void => {
      const pairs = runs.flatMap((run) => {
        const [own, series] = [ours(run), seriesOf(run)];
        const other = series && theirs(series);
        return own !== null &&
          own !== undefined &&
          Number.isFinite(own) &&
          other &&
          Number.isFinite(other.value)
          ? [{ own, ...other }]
          : [];
      });
      if (pairs.length === 0) return;
      const ratios = pairs.map(({ own, value }) => value / own);
      const least = pairs.some(({ cutOff }) => cutOff) ? "> " : "";
      const wander =
        pairs.length > 1 ? ` (${figure(Math.min(...ratios))}–${figure(Math.max(...ratios))})` : "";
      const count = runs.reduce((sum, run) => sum + (seriesOf(run)?.prefillMs.length ?? 0), 0);
      rows.push([
        figure(prefix),
        what,
        figure(median(pairs.map(({ own }) => own))),
        least + figure(median(pairs.map(({ value }) => value))),
        least + figure(median(ratios)) + wander,
        seriesOf(runs[0]!)?.cold ? "cold" : figure(count),
      ]);
    };
    add(
      "prefill ms",
      (run) => prefillMs(member(run)),
      ({ prefillMs, atLeastMs }) => taken(prefillMs, atLeastMs.prefill),
    );
    add(
      "decode step ms",
      (run) => member(run)?.draftStep.ms?.median,
      ({ stepMs, atLeastMs }) => taken(stepMs, atLeastMs.step),
    );
    add(
      `round of ${most} ms`,
      (run) => round(run)?.ms?.median,
      ({ roundMs, atLeastMs }) => taken(roundMs, atLeastMs.round),
    );
    const counted = (what: keyof Counts, counts: Counts | null): Taken | undefined =>
      counts?.[what] === undefined ? undefined : { value: counts[what], cutOff: false };
    if (backend === "webgpu") {
      for (const what of ["dispatches", "readbacks", "readBytes", "buffers"] as const) {
        add(
          `${what} a step`,
          (run) => member(run)?.draftStep.counts?.[what],
          ({ stepCounts }) => counted(what, stepCounts),
        );
        add(
          `${what} a round`,
          (run) => round(run)?.counts?.[what],
          ({ roundCounts }) => counted(what, roundCounts),
        );
      }
    }
  }
  return {
    caption: `${name}: ours and ${engine}`,
    head: ["prefix", "measure", "ours", "theirs", "theirs / ours", "their repeats"],
    rows,
  };
}
