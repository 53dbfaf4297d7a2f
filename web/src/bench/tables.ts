/** A workload's report as rows of text: the same tables on the page and in a terminal. */
import type { WorkloadReport } from "./report.ts";
import type { Spread } from "./statistics.ts";

export interface Table {
  caption: string;
  head: string[];
  rows: string[][];
}

/** Three digits that mean something. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}

const times = (spread: Spread | null): string => (spread ? `${figure(spread.median)} (${figure(spread.low)}–${figure(spread.high)})` : "–");
const megabytes = (bytes: number | null): string => (bytes === null ? "–" : `${figure(bytes / 1e6)} MB`);

/** Members alone, then rounds. */
export function tablesOf(workload: WorkloadReport): Table[] {
  const { models, format, weightBytes, gpuBytes, loadMs } = workload;
  const title = `${models} ${format}`;
  const tables: Table[] = [
    {
      caption: `${title}: each member alone. ${megabytes(weightBytes)} of weights in all, loaded in ${figure(loadMs / 1000)} s, ${megabytes(gpuBytes)} in GPU buffers`,
      head: ["member", "prefix", "prefill tok/s", "step ms", "tok/s", "verify ms", "rows", "verify / steps", "dispatches a layer", "read-backs a step", "buffers a step"],
      rows: workload.members.map(({ name, prefix, prefill, draftStep, verify, verifyOverSteps }) => [
        name,
        figure(prefix),
        figure(prefill.tokensPerSecond),
        times(draftStep.ms),
        figure(draftStep.tokensPerSecond),
        times(verify.ms),
        figure(verify.tokens),
        figure(verifyOverSteps),
        figure(draftStep.dispatchesPerLayer),
        figure(draftStep.counts?.readbacks),
        figure(draftStep.counts?.buffers),
      ]),
    },
  ];
  if (workload.rounds.length > 0) {
    tables.push({
      caption: `${title}: rounds`,
      head: ["members", "prefix", "round ms", "draft ms", "verify ms", "first segment ms", "tok/s", "round / own steps", "read-backs", "submits", "passes", "dispatches", "buffers", "bind groups", "µs a dispatch", "GPU buffers"],
      rows: workload.rounds.map(({ members, prefix, ms, draftMs, verifyMs, firstSegmentMs, tokensPerSecond, overSteps, counts, gpuBytes: now }) => [
        figure(members),
        figure(prefix),
        times(ms),
        times(draftMs),
        times(verifyMs),
        figure(firstSegmentMs),
        figure(tokensPerSecond),
        figure(overSteps),
        figure(counts?.readbacks),
        figure(counts?.submits),
        figure(counts?.passes),
        figure(counts?.dispatches),
        figure(counts?.buffers),
        figure(counts?.bindGroups),
        figure(counts && (1000 * counts.recordMs) / counts.dispatches),
        megabytes(now),
      ]),
    });
  }
  return tables;
}
