/**
 * The method, one round after the other: draft, cut, verify in line, normalise, feedback, select,
 * keep, exit. SpecFuse (arXiv 2412.07380) and its later form SpecEM; step numbers are the paper's.
 * What each step computes is in crates/ensemble (`Query`) and crates/member (`Member`).
 */
import type { Candidate, Member, Query, Score, Settings } from "./engine.ts";
import { ConclaveError, typed } from "./errors.ts";
import { failures, together } from "./together.ts";

/** A candidate with its drafter; `tokens`: its length in the drafter's own tokenisation. */
export interface Drafted extends Candidate {
  member: string;
  tokens: number;
}

/** What one round did. Rows and columns follow `active`: who took part, as indices into the members. */
export interface Round {
  round: number;
  active: number[];
  candidates: Drafted[];
  /** `scores[i][j]`: verifier i's raw score of candidate j. Empty when fast mode took a candidate unverified. */
  scores: Score[][];
  /** `scores`, normalised: every row sums to 1 (Eq. 3). */
  shares: number[][];
  /** Y_j, the weighted sum of candidate j's shares. */
  totals: number[];
  /** How often another member preferred candidate j to some other candidate, at least 1. */
  counts: number[];
  /** Index into `active` and `candidates`. */
  winner: number;
  /** Who drafted the accepted segment, by index into `active`: the winner, and every other whose draft is the same and ends alike. */
  writers: number[];
  /** After this round's feedback, by active member. */
  weights: number[];
  /** Members that leave the query now, as indices into the members. */
  exited: number[];
  /** The accepted segment: what this round added to the answer. */
  text: string;
  ms: { draft: number; verify: number };
}

/** A member (by index) that failed in a round, and left the answer to the others. */
export interface Left {
  round: number;
  left: number;
  error: ConclaveError;
}

/** Why an answer is over. `context`: the last member's is full; `stopped`: the caller's signal. */
export type StopReason = "ended" | "rounds" | "length" | "silence" | "context" | "stopped" | (string & {});

type Cut = (text: string, ended: boolean) => string;

/** Runs rounds until the answer is over; members have begun the conversation already. Who fails leaves. */
export async function* rounds(members: Member[], query: Query, cut: Cut, settings: Settings, signal: AbortSignal): AsyncGenerator<Round | Left, StopReason> {
  for (let round = 1; !signal.aborted; ) {
    const played = await play(round, members, query, cut, settings, signal).catch(typed);
    if (played === undefined) break;
    const broken = played instanceof ConclaveError; // nobody has kept anything: the others begin the round anew
    if (!broken) yield played.round;
    if (!broken && played.stop !== undefined) return played.stop; // 8.
    for (const error of broken ? [played] : played.failed) {
      const active = [...query.active()];
      const left = active.find((index) => members[index]!.name === error.member);
      if (left === undefined && !broken) continue; // it has left by the rule
      if (active.length === 1 && error.kind === "ContextFull" && round > 1) return "context";
      if (left === undefined || active.length === 1) throw error;
      query.leave(left);
      members[left]!.release();
      yield { round, left, error };
    }
    if (!broken) round++;
  }
  return "stopped";
}

/** One round, and who could not keep its winner; undefined when it was stopped. */
async function play(
  round: number, members: Member[], query: Query, cut: Cut, settings: Settings, signal: AbortSignal,
): Promise<{ round: Round; stop: StopReason | undefined; failed: ConclaveError[] } | undefined> {
  const active = [...query.active()];
  const voices = active.map((index) => members[index]!);
  const started = performance.now();

  // 1–2. Every member drafts from the same prefix; drafts are cut to whole words and cross as text.
  const drafts = await together(voices, (member) => member.draft(settings.segmentTokens));
  const candidates = drafts.map(({ text, ended }) => ({ text: cut(text, ended), ended }));
  const draftedAt = performance.now();
  if (signal.aborted) return undefined;

  // Fast mode: a candidate with an end token is accepted at once, unverified.
  const accepted = settings.fast ? candidates.findIndex((candidate) => candidate.ended) : -1;
  if (accepted >= 0) {
    const unverified = { scores: [], shares: [], totals: [], counts: [], weights: [...query.weights()], exited: [] };
    const ms = { draft: draftedAt - started, verify: 0 };
    const signed = candidates.map((candidate, j) => ({ member: voices[j]!.name, ...candidate, tokens: drafts[j]!.tokens }));
    const text = candidates[accepted]!.text;
    return { round: { round, active, candidates: signed, ...unverified, winner: accepted, writers: writers(candidates, accepted), text, ms }, stop: "ended", failed: [] };
  }

  // 3. Every member scores ALL candidates in one pass over [prefix | c_1 | … | c_N].
  const scores = await together(voices, (member) => member.verify(candidates, settings));
  const verifiedAt = performance.now();
  if (signal.aborted) return undefined;

  // 4–6. Shares, weights, winner. The authors' code updates the weights first, the text reads as after.
  const shares = query.normalise(scores);
  const early = settings.update === "before" ? query.feedback(shares) : undefined;
  const { totals, winner } = query.select(shares);
  const { counts, weights } = early ?? query.feedback(shares);

  // 7. The winner's rows stay in every member's KV cache, the losers' go; who exits frees its cache.
  const failed = await failures(voices, (member) => member.keep(winner));
  const exited = [...query.exit(winner)];
  for (const index of exited) members[index]!.release();
  const stop = query.stop(candidates[winner]!);

  const ms = { draft: draftedAt - started, verify: verifiedAt - draftedAt };
  const signed = candidates.map((candidate, j) => ({ member: voices[j]!.name, ...candidate, tokens: scores[j]![j]!.tokens }));
  const text = candidates[winner]!.text;
  return { round: { round, active, candidates: signed, scores, shares, totals, counts, winner, writers: writers(candidates, winner), weights, exited, text, ms }, stop, failed };
}

/** Who drafted what the winner did. */
function writers(candidates: Candidate[], winner: number): number[] {
  const { text, ended } = candidates[winner]!;
  return [...candidates.keys()].filter((j) => candidates[j]!.text === text && candidates[j]!.ended === ended);
}
