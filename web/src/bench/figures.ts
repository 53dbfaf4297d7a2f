/**
 * Figures derived from a workload's times and counts: machine-independent ratios, each with its
 * target. The only place of the formulas, for pages and native runs alike.
 */
import type { Counts, Figure, Loaded, RoundReport, WorkloadReport } from "./report.ts";

/**
 * Limit on GPU memory as a multiple of weights, keys and values, and a constant number of bytes
 * added for every model.
 */
const memoryShare = 1.15;
const memoryFixed = 64e6;

/** Figure of a decode step's share of the memory bandwidth. */
export const readBesideCopied = "weights read a second / copy bandwidth";

/**
 * Bytes read by a decode step after `rows` tokens: all weights including the head, and those
 * tokens' keys and values. An estimate from the model's device memory: a model with a separate head
 * reads one row of its embedding, but all of it is counted; norms, the rotary table and activations
 * are small. On the CPU weights take about as much as on a GPU.
 */
export function stepBytes(
  { weights, kvRow }: Pick<Loaded, "weights" | "kvRow">,
  rows: number,
): number {
  return weights + kvRow * rows;
}

/**
 * Bytes that members read in a round after a prefix: in each of L − 1 decode steps the weights
 * and one more row of keys and values than before; in the verify pass once the weights, and the
 * keys and values of the prefix and of the tokens in line.
 */
export function roundBytes(
  members: readonly Pick<Loaded, "weights" | "kvRow">[],
  prefix: number,
  segmentTokens: number,
  tokensInLine: number,
): number {
  let bytes = 0;
  for (const member of members) {
    for (let step = 1; step < segmentTokens; step++) bytes += stepBytes(member, prefix + step);
    bytes += stepBytes(member, prefix + tokensInLine);
  }
  return bytes;
}

/**
 * Bytes that the members of a measured round read. The tokens verified in line are all tokens that
 * were run, less the L − 1 decode steps of the draft.
 */
function bytesOf(round: RoundReport, loaded: readonly Loaded[], segmentTokens: number): number {
  return roundBytes(
    loaded.slice(0, round.members),
    round.prefix,
    segmentTokens,
    round.tokensRun - (segmentTokens - 1),
  );
}

/** Name of an ensemble in tables: its size, and whether only the leader drafts. */
export const ensembleOf = ({
  members,
  drafting,
}: Pick<RoundReport, "members" | "drafting">): string =>
  `${members} members${drafting === "all" ? "" : ", one drafts"}`;

/** All figures of a workload. `copyBytesPerSecond`: the adapter's, if known. */
export function figuresOf(
  workload: Omit<WorkloadReport, "figures">,
  segmentTokens: number,
  copyBytesPerSecond: number | null,
): Figure[] {
  const { members, rounds, loaded, gpuBytes } = workload;
  const figures: Figure[] = [];
  const add = (
    what: string,
    of: string,
    prefix: number | null,
    value: number | null | undefined,
    target: string,
  ): void => {
    if (value !== null && value !== undefined && Number.isFinite(value))
      figures.push({ what, of, prefix, value, target });
  };
  const step = (name: string, prefix: number): number =>
    members.find((each) => each.name === name && each.prefix === prefix)?.draftStep.ms?.median ??
    NaN;
  // Without GPU work, as on the CPU, there are no figures.
  const asked = (counts: Counts | null): Counts | null =>
    counts && counts.dispatches > 0 ? counts : null;

  for (const { name, prefix, draftStep, verify } of members) {
    const ms = step(name, prefix);
    add(
      `verify pass of ${verify.tokens} tokens / as many decode steps`,
      name,
      prefix,
      (verify.ms?.median ?? NaN) / (verify.tokens * ms),
      "≤ 0.6 in software, ≤ 0.1 on a GPU",
    );
    const { weights, layers } = loaded.find((each) => each.name === name) ?? {
      weights: NaN,
      layers: NaN,
    };
    add(
      readBesideCopied,
      name,
      prefix,
      copyBytesPerSecond && (1000 * weights) / ms / copyBytesPerSecond,
      "0.6 of a 1B model on a GPU",
    );
    // The six dispatches around the layers: embedding, norm, head, draw, copy of the state, and a
    // share of the first token's three dispatches, which is at most one a step from L = 4 on.
    const counts = asked(draftStep.counts);
    add(
      "dispatches a step / (8 a layer + 6 around them)",
      name,
      prefix,
      counts && counts.dispatches / (8 * layers + 6),
      "≤ 1",
    );
    add(
      "CPU µs a dispatch, drafting",
      name,
      prefix,
      draftStep.microsecondsPerDispatch?.median,
      "≤ 3",
    );
  }
  for (const round of rounds) {
    const led = round.drafting === "leader";
    const ensemble = ensembleOf(round);
    const counts = asked(round.counts);
    const own = loaded
      .slice(0, round.members)
      .reduce((sum, { name }) => sum + segmentTokens * stepNear(workload, name, round.prefix), 0);
    if (!led)
      add(
        "round / the members' own L decode steps",
        ensemble,
        round.prefix,
        (round.ms?.median ?? NaN) / own,
        "≤ 1.20 on a GPU",
      );
    const first = segmentTokens * stepNear(workload, loaded[0]?.name ?? "", round.prefix);
    add(
      "round / L decode steps of the first member",
      ensemble,
      round.prefix,
      (round.ms?.median ?? NaN) / first,
      led ? "≤ 1.6 of 3 on the CPU" : "≤ 4.0 of 3 on the CPU",
    );
    // A draft does not run its last token. A candidate that still has this token after the cut to
    // whole words runs it in line, one token more than is due.
    add(
      "tokens run / those due",
      ensemble,
      round.prefix,
      round.tokensRun / round.tokensDue,
      "≤ 1, + 1 token",
    );
    add("read-backs a round", ensemble, round.prefix, counts?.readbacks, "2");
    add(
      "dispatches a submit",
      ensemble,
      round.prefix,
      counts && counts.dispatches / counts.submits,
      "64; 32 for the first of a wait",
    );
    add(
      "buffers, bind groups and pipelines made a round",
      ensemble,
      round.prefix,
      counts && counts.buffers + counts.bindGroups + counts.pipelines,
      "0",
    );
    add(
      "CPU µs a dispatch, all of a round",
      ensemble,
      round.prefix,
      ownMicroseconds(counts),
      "≤ 3",
    );
  }
  const full = rounds.filter((round) => round.drafting === "all");
  for (const size of new Set(full.map((round) => round.members))) {
    const same = full.filter((round) => round.members === size).sort((a, b) => a.prefix - b.prefix);
    const [near, far] = [same[0]!, same.at(-1)!];
    if (near === far) continue;
    const times = (far.ms?.median ?? NaN) / (near.ms?.median ?? NaN);
    const bytes = bytesOf(far, loaded, segmentTokens) / bytesOf(near, loaded, segmentTokens);
    add(
      `round at prefix ${far.prefix} / at ${near.prefix}, over the same of bytes read`,
      `${size} members`,
      null,
      times / bytes,
      "≤ 1.25",
    );
  }
  if (gpuBytes) {
    const needed = loaded.reduce((sum, { weights, kv }) => sum + weights + kv, 0);
    add(
      "GPU memory / (weights + KV)",
      "all members",
      null,
      gpuBytes / needed,
      `≤ ${memoryShare} + 64 MB`,
    );
    add(
      `GPU memory / (${memoryShare} × (weights + KV) + 64 MB)`,
      "all members",
      null,
      gpuBytes / (memoryShare * needed + memoryFixed),
      "≤ 1",
    );
  }
  return figures;
}

/** CPU time of our own code for a dispatch; NaN if none was counted. */
export function ownMicroseconds(counts: Counts | null): number {
  const { recordMs = NaN, callMs = NaN, dispatches = NaN } = counts ?? {};
  return (1000 * (recordMs - callMs)) / dispatches;
}

/**
 * Median time in ms of a member's decode step, at the measured prefix nearest to `prefix`: members
 * with other vocabularies count the prefix differently. NaN if none was measured.
 */
function stepNear(
  { members }: Pick<WorkloadReport, "members">,
  name: string,
  prefix: number,
): number {
  const own = members
    .filter((each) => each.name === name)
    .sort((a, b) => Math.abs(a.prefix - prefix) - Math.abs(b.prefix - prefix));
  return own[0]?.draftStep.ms?.median ?? NaN;
}
