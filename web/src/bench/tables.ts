/** A workload's report as text tables, for the page and a terminal. */
import { ensembleOf } from "./figures.ts";
import type { Counts, WorkloadReport } from "./report.ts";
import type { Spread } from "./statistics.ts";

export interface Table {
  caption: string;
  /** Further remarks. */
  note?: string;
  head: string[];
  rows: string[][];
}

/** A number with three significant digits. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 || Number.isInteger(value)
    ? Math.round(value).toLocaleString("en")
    : value.toPrecision(3);
}

/** Median and quartiles. */
export const times = (spread: Spread | null | undefined): string =>
  spread ? `${figure(spread.median)} (${figure(spread.low)}–${figure(spread.high)})` : "–";
const megabytes = (bytes: number | null): string =>
  bytes === null ? "–" : `${figure(bytes / 1e6)} MB`;
/** Marks a measurement made only once, which includes the warm-up. */
const repeats = (cold: boolean, spread: Spread | null): string =>
  cold ? "cold" : figure(spread?.count ?? 0);

/** Tables of single members, rounds, their GPU calls, and derived figures. */
export function tablesOf(workload: WorkloadReport): Table[] {
  const {
    models,
    format,
    loaded,
    leftOut = [],
    gpuBytes,
    gpuBytesReserved = null,
    loadMs,
    members,
    rounds,
    figures,
  } = workload;
  const title = `${models} ${format}`;
  const sum = (what: "weights" | "kv" | "scratch"): string =>
    megabytes(loaded.reduce((total, each) => total + each[what], 0));
  const ofDriver =
    gpuBytesReserved === null ? "" : ` (${megabytes(gpuBytesReserved)} of the driver's)`;
  const inUse = gpuBytes === null ? "" : `, ${megabytes(gpuBytes)} in GPU buffers${ofDriver}`;
  const missing =
    leftOut.length === 0
      ? ""
      : ` Prefixes of ${leftOut.map(figure).join(" and ")} tokens were left out: ` +
        "with the rounds after them they are longer than the smallest context of a member.";
  const tables: Table[] = [
    {
      caption: `${title}: each member alone`,
      note:
        `${sum("weights")} of weights, ${sum("kv")} of keys and values, ` +
        `${sum("scratch")} of scratch in all, ` +
        `loaded in ${figure(loadMs / 1000)} s${inUse}.${missing}`,
      head: [
        "member",
        "prefix",
        "prefill tok/s",
        "first token ms",
        "step ms",
        "tok/s",
        "verify ms",
        "tokens",
        "MB read a step: weights",
        "keys and values",
        "repeats",
      ],
      rows: members.map(({ name, prefix, cold, prefill, firstTokenMs, draftStep, verify }) => {
        const own = loaded.find((each) => each.name === name);
        return [
          name,
          figure(prefix),
          figure(prefill.tokensPerSecond),
          times(firstTokenMs),
          times(draftStep.ms),
          figure(draftStep.tokensPerSecond),
          times(verify.ms),
          figure(verify.tokens),
          figure((own?.weights ?? NaN) / 1e6),
          figure(((own?.kvRow ?? NaN) * prefix) / 1e6),
          repeats(cold, prefill.ms),
        ];
      }),
    },
  ];
  if (rounds.length > 0) {
    tables.push({
      caption: `${title}: rounds`,
      head: [
        "members",
        "who drafts",
        "prefix",
        "round ms",
        "draft ms",
        "verify ms",
        "first segment ms",
        "tok/s",
        "tokens run",
        "due",
        "GPU buffers",
        "repeats",
      ],
      rows: rounds.map(
        ({
          members: size,
          drafting,
          prefix,
          cold,
          ms,
          draftMs,
          verifyMs,
          firstSegmentMs,
          tokensPerSecond,
          tokensRun,
          tokensDue,
          gpuBytes: now,
        }) => [
          figure(size),
          drafting === "all" ? "all" : "one",
          figure(prefix),
          times(ms),
          times(draftMs),
          times(verifyMs),
          times(firstSegmentMs),
          figure(tokensPerSecond),
          figure(tokensRun),
          figure(tokensDue),
          megabytes(now),
          repeats(cold, firstSegmentMs),
        ],
      ),
    });
  }
  const asked: string[][] = [];
  const add = (subject: string, what: string, prefix: number, counts: Counts | null): void => {
    if (!counts) return;
    const {
      readbacks,
      readBytes,
      submits,
      passes,
      dispatches,
      writes,
      buffers,
      bindGroups,
      pipelines,
    } = counts;
    asked.push([
      subject,
      what,
      figure(prefix),
      ...[
        readbacks,
        readBytes,
        submits,
        passes,
        dispatches,
        writes,
        buffers,
        bindGroups,
        pipelines,
      ].map(figure),
    ]);
  };
  for (const { name, prefix, draftStep, verify } of members) {
    add(name, "step", prefix, draftStep.counts);
    add(name, "verify", prefix, verify.counts);
  }
  for (const round of rounds) add(ensembleOf(round), "round", round.prefix, round.counts);
  // Omitted on the CPU, without GPU calls.
  if (asked.some((row) => row.slice(3).some((cell) => cell !== "0"))) {
    tables.push({
      caption: `${title}: what they ask of the GPU`,
      head: [
        "of",
        "one",
        "prefix",
        "read-backs",
        "bytes read",
        "submits",
        "passes",
        "dispatches",
        "writes",
        "buffers",
        "bind groups",
        "pipelines",
      ],
      rows: asked,
    });
  }
  tables.push({
    caption: `${title}: what follows`,
    head: ["ratio", "of", "prefix", "is", "target"],
    rows: figures.map(({ what, of, prefix, value, target }) => [
      what,
      of,
      prefix === null ? "" : figure(prefix),
      figure(value),
      target,
    ]),
  });
  return tables.filter(({ rows, note }) => rows.length > 0 || note !== undefined);
}
