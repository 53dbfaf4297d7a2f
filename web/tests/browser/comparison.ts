/** Our times beside another engine's in the same browser, and how many times as long theirs are. */
import type { Plan, Report } from "../../src/bench/report.ts";
import { median } from "../../src/bench/statistics.ts";
import { figure, type Table } from "../../src/bench/tables.ts";
import type { PeerSeries } from "./peer-page.ts";

/** One run of each, one after the other. */
export interface Turn {
  ours: Report;
  /** By engine, and by random workload of the plan. */
  theirs: Record<string, PeerSeries[][]>;
}

/** One workload, a row for each prefix and measure. A ratio is the median over the turns, with the least and the most. */
export function compared(name: string, engine: string, plan: Plan, turns: readonly Turn[], index: number): Table {
  const rows: string[][] = [];
  const most = Math.max(...plan.ensembles);
  for (const [at, prefix] of plan.prefixes.entries()) {
    const add = (what: string, ours: (turn: Turn) => number | undefined, theirs: (series: PeerSeries) => number): void => {
      const pairs = turns
        .map((turn) => {
          const series = turn.theirs[engine]?.[index]?.[at];
          return [ours(turn) ?? NaN, series ? theirs(series) : NaN] as const;
        })
        .filter((pair) => pair.every(Number.isFinite));
      if (pairs.length === 0) return;
      const ratios = pairs.map(([own, other]) => other / own);
      const wander = turns.length > 1 ? ` (${figure(Math.min(...ratios))}–${figure(Math.max(...ratios))})` : "";
      rows.push([figure(prefix), what, figure(median(pairs.map(([own]) => own))), figure(median(pairs.map(([, other]) => other))), figure(median(ratios)) + wander]);
    };
    const workload = ({ ours }: Turn) => ours.workloads.filter(({ models }) => models !== "bundled")[index];
    const member = (turn: Turn) => workload(turn)?.members.find((each) => each.prefix === prefix);
    const round = (turn: Turn) => workload(turn)?.rounds.find((each) => each.prefix === prefix && each.members === most);
    add("prefill ms", (turn) => member(turn)?.prefill.ms?.median, (series) => median(series.prefillMs));
    add("decode step ms", (turn) => member(turn)?.draftStep.ms?.median, (series) => median(series.stepMs));
    add(`round of ${most} ms`, (turn) => round(turn)?.ms?.median, (series) => median(series.roundMs));
    const count = (what: "dispatches" | "readbacks" | "readBytes"): void => {
      add(`${what} a step`, (turn) => member(turn)?.draftStep.counts?.[what], (series) => series.stepCounts?.[what] ?? NaN);
      add(`${what} a round`, (turn) => round(turn)?.counts?.[what], (series) => series.roundCounts?.[what] ?? NaN);
    };
    if (plan.backend === "webgpu") for (const what of ["dispatches", "readbacks", "readBytes"] as const) count(what);
  }
  return { caption: `${name}: ours and ${engine}`, head: ["prefix", "measure", "ours", "theirs", "theirs / ours"], rows };
}
