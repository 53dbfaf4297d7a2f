/** One workload natively and in wasm, side by side. */
import { ensembleOf, readBesideCopied } from "./figures.ts";
import type { WorkloadReport } from "./report.ts";
import type { Spread } from "./statistics.ts";
import { figure, times, type Table } from "./tables.ts";

/** A measurement or a ratio. */
interface Line {
  what: string;
  prefix: number;
  value: Spread | number | null | undefined;
}

/**
 * Medians with quartiles in both places, and the ratio of wasm to native; either may be missing.
 */
export function beside(
  name: string,
  native: WorkloadReport | undefined,
  wasm: WorkloadReport | undefined,
): Table {
  const [own, module] = [linesOf(native), linesOf(wasm)];
  const rows = (native ? own : module).map(({ what, prefix }) => {
    const values = [own, module].map(
      (lines) => lines.find((line) => line.what === what && line.prefix === prefix)?.value,
    );
    const [first = NaN, second = NaN] = values.map(median);
    return [what, figure(prefix), ...values.map(text), figure(second / first)];
  });
  return {
    caption: `${name}: native beside wasm`,
    head: ["what", "prefix", "native", "wasm", "×"],
    rows,
  };
}

/** Lines of a workload. Members are named by their numbers, since their names differ natively. */
function linesOf(workload: WorkloadReport | undefined): Line[] {
  const { members = [], rounds = [], loaded = [], figures = [] } = workload ?? {};
  const lines: Line[] = [];
  for (const { name, prefix, firstTokenMs, draftStep, verify } of members) {
    const share = figures.find(
      (each) => each.what === readBesideCopied && each.of === name && each.prefix === prefix,
    );
    const measured: [string, Line["value"]][] = [
      ["decode, tokens/s", perSecond(draftStep.ms)],
      ["first token, ms", firstTokenMs],
      ["step, ms", draftStep.ms],
      ["verify, ms", verify.ms],
      [readBesideCopied, share?.value],
    ];
    const number = 1 + loaded.findIndex((each) => each.name === name);
    for (const [what, value] of measured)
      lines.push({ what: `member ${number}: ${what}`, prefix, value });
  }
  for (const round of rounds) {
    const { prefix, ms, firstSegmentMs } = round;
    const ensemble = ensembleOf(round);
    lines.push({ what: `${ensemble}: round, ms`, prefix, value: ms });
    lines.push({ what: `${ensemble}: first segment, ms`, prefix, value: firstSegmentMs });
  }
  return lines;
}

/** Tokens a second, of steps of so many milliseconds. */
function perSecond(ms: Spread | null): Spread | null {
  return ms && { ...ms, median: 1000 / ms.median, low: 1000 / ms.high, high: 1000 / ms.low };
}

const median = (value: Line["value"]): number =>
  typeof value === "number" ? value : (value?.median ?? NaN);

const text = (value: Line["value"]): string =>
  typeof value === "number" ? figure(value) : times(value);
