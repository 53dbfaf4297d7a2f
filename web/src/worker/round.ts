/**
 * The method, one round after the other: draft, cut, verify in line, normalise, feedback, select,
 * keep, exit. SpecFuse (arXiv 2412.07380) and its later form SpecEM; step numbers are the paper's.
 * What each step computes is in crates/ensemble (`Query`) and crates/member (`Member`).
 */
import type { Candidate, Member, Query, Score, Settings } from "../protocol/engine.ts";
import { ConclaveError, typed } from "../protocol/errors.ts";
import type { StopReason } from "../protocol/messages.ts";
import { failures, together } from "./together.ts";

/** A candidate with its drafter; `tokens`: its length in the drafter's own tokenisation. */
export interface Drafted extends Candidate {
  member: string;
  tokens: number;
}

/** What one round did. Rows follow `active`, who took part, as indices into the members; columns follow `candidates`. */
export interface Round extends Vote {
  round: number;
  active: number[];
  /** Who drafted each of the `candidates`, as indices into the members: all who took part, or the leader alone. */
  drafters: number[];
  candidates: Drafted[];
  /** Index into `candidates`. */
  winner: number;
  /** Who drafted the accepted segment, by index into `candidates`: the winner, and every other whose draft is the same and ends alike. */
  writers: number[];
  /** Members that leave the query now, as indices into the members. */
  exited: number[];
  /** The accepted segment: what this round added to the answer. */
  text: string;
  ms: { draft: number; verify: number };
}

type Verified = Score & { tokens: number };

/** What the members said. */
interface Vote {
  /** `scores[i][j]`: verifier i's raw score of candidate j. Empty when fast mode took a candidate unverified. */
  scores: Verified[][];
  /** `scores`, normalised: every row sums to 1 (Eq. 3). Empty, as totals and counts, where there was no vote. */
  shares: number[][];
  /** Y_j, the weighted sum of candidate j's shares; with level votes each row's are first divided by their largest. */
  totals: number[];
  /** How often another member preferred candidate j to some other candidate, at least 1. */
  counts: number[];
  /** After this round's feedback, by active member. */
  weights: number[];
}

/** A member (by index) that failed in a round, and left the answer to the others. */
export interface Left {
  round: number;
  left: number;
  error: ConclaveError;
}

type Cut = (text: string, ended: boolean) => string;

/** Runs rounds until the answer is over; members have begun the conversation already. Who fails leaves. Each round looks at the `settings` anew; the `first` has this number. */
export async function* rounds(members: Member[], query: Query, cut: Cut, settings: Settings, signal: AbortSignal, first = 1): AsyncGenerator<Round | Left, StopReason> {
  for (let round = first; !signal.aborted; ) {
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
  round: number,
  members: Member[],
  query: Query,
  cut: Cut,
  settings: Settings,
  signal: AbortSignal,
): Promise<{ round: Round; stop: StopReason | undefined; failed: ConclaveError[] } | undefined> {
  const active = [...query.active()];
  const voices = active.map((index) => members[index]!);
  const ms = { draft: 0, verify: 0 };
  const draft = (drafters: number[]) =>
    timed(
      ms,
      "draft",
      together(
        drafters.map((index) => members[index]!),
        (member) => member.draft(settings.segmentTokens),
      ),
    );
  const verify = () =>
    timed(
      ms,
      "verify",
      together(voices, (member) => member.verify(candidates, settings)),
    );

  // 1–2. Every member drafts from the same prefix, or the leader alone; drafts are cut to whole words and cross as text.
  const leader = query.leader();
  let drafters = leader === undefined ? active : [active[leader]!];
  let drafts = await draft(drafters);
  if (leader !== undefined) query.drafted(Uint32Array.of(leader));
  const segment = ({ text, ended }: Candidate) => ({ text: cut(text, ended), ended });
  let candidates = drafts.map(segment);
  if (signal.aborted) return undefined;

  // Fast mode: a candidate with an end token is accepted at once, unverified.
  const unvoted = (scores: Verified[][]): Vote => ({ scores, shares: [], totals: [], counts: [], weights: [...query.weights()] });
  const accepted = query.fastWinner(candidates);
  if (accepted !== undefined) return over(accepted, unvoted([]));

  // 3. Every member scores ALL candidates in one pass over [prefix | c_1 | … | c_N].
  let scores = await verify();
  if (signal.aborted) return undefined;

  // Leader drafts: what it drafted alone is taken without a vote, unless it surprises somebody. Then the others draft as well.
  if (leader !== undefined) {
    if (query.trusts(scores)) return over(0, unvoted(scores));
    const others = await draft(active.filter((_, place) => place !== leader));
    drafters = active;
    query.drafted(Uint32Array.from(active.keys()));
    drafts = others.toSpliced(leader, 0, drafts[0]!);
    candidates = drafts.map(segment);
    if (signal.aborted) return undefined;
    scores = await verify();
    if (signal.aborted) return undefined;
  }

  // 4–6. Shares, weights, winner. The authors' code updates the weights first, the text reads as after.
  const shares = query.normalise(scores);
  const early = settings.update === "before" ? query.feedback(shares) : undefined;
  const { totals, winner } = query.select(shares);
  const { counts, weights } = early ?? query.feedback(shares);
  return over(winner, { scores, shares, totals, counts, weights });

  async function over(winner: number, vote: Vote) {
    // 7. The winner's rows stay in every member's KV cache, the losers' go; who exits frees its cache.
    const failed = vote.scores.length === 0 ? [] : await failures(voices, (member) => member.keep(winner));
    const exited = vote.totals.length === 0 ? [] : [...query.exit(winner)];
    for (const index of exited) members[index]!.release();
    const stop = query.stop(candidates[winner]!);
    const signed = candidates.map((candidate, j) => {
      const own = active.indexOf(drafters[j]!);
      return { member: members[drafters[j]!]!.name, ...candidate, tokens: vote.scores[own]?.[j]?.tokens ?? drafts[j]!.tokens };
    });
    const { text } = candidates[winner]!;
    return { round: { round, active, drafters, candidates: signed, ...vote, winner, writers: writers(candidates, winner), exited, text, ms }, stop, failed };
  }
}

/** Who drafted what the winner did. */
function writers(candidates: Candidate[], winner: number): number[] {
  const { text, ended } = candidates[winner]!;
  return [...candidates.keys()].filter((j) => candidates[j]!.text === text && candidates[j]!.ended === ended);
}

async function timed<T>(ms: Round["ms"], what: keyof Round["ms"], work: Promise<T>): Promise<T> {
  const began = performance.now();
  const done = await work;
  ms[what] += performance.now() - began;
  return done;
}
