/**
 * The method, one round after the other: draft, cut, verify in line, normalise, feedback, select,
 * keep, exit. SpecFuse (arXiv 2412.07380) and its later form SpecEM; step numbers are the paper's.
 * What each step computes is in crates/ensemble (`Query`) and crates/member (`Member`).
 */
import type { Candidate, Member, Query, Score, Settings } from "../protocol/engine.ts";
import { ConclaveError, RemoteFailure, typed } from "../protocol/errors.ts";
import type { StopReason } from "../protocol/messages.ts";
import { failures, inTurn, together } from "./together.ts";

/** A candidate with its drafter; `tokens`: its length in the drafter's own tokenisation. */
export interface Drafted extends Candidate {
  member: string;
  tokens: number;
}

/**
 * What one round did. Rows follow `active`, who took part, as indices into the members; columns
 * follow `candidates`.
 */
export interface Round extends Vote {
  round: number;
  active: number[];
  /**
   * Those of the active behind a server, and those that gave no scores, as indices into the
   * members.
   */
  remote: number[];
  abstained: number[];
  /**
   * Who drafted each of the `candidates`, as indices into the members: all who took part but for
   * judges and who was late, or the leader alone.
   */
  drafters: number[];
  candidates: Drafted[];
  /** Index into `candidates`. */
  winner: number;
  /**
   * Who drafted the accepted segment, by index into `candidates`: the winner, and every other whose
   * draft is the same and ends alike.
   */
  writers: number[];
  /** Members that leave the query now, as indices into the members. */
  exited: number[];
  /** The accepted segment: what this round added to the answer. */
  text: string;
  ms: { draft: number; verify: number };
}

type Verified = Score & { tokens: number };

/** A candidate with its drafter's place among the active, and its length in tokens as drafted. */
interface Segment {
  place: number;
  candidate: Candidate;
  tokens: number;
}

/** What the members said. */
interface Vote {
  /**
   * `scores[i][j]`: verifier i's raw score of candidate j, nothing in the row of one that
   * abstained. Empty when fast mode took a candidate unverified.
   */
  scores: Verified[][];
  /**
   * `scores`, normalised: every row sums to 1 (Eq. 3). Empty, as totals and counts, where there was
   * no vote.
   */
  shares: number[][];
  /**
   * Y_j, the weighted sum of candidate j's shares; with level votes each row's are first divided by
   * their largest.
   */
  totals: number[];
  /** Verifiers, by active member, whose vote alone turned a round that all others agreed on. */
  turnedBy: number[];
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

/**
 * Runs rounds until the answer is over; members have begun the conversation already. Who fails
 * leaves. Each round looks at the `settings` anew; the `first` has this number. `onOneDevice`:
 * members share a GPU, which tells of work that it has refused to whoever reads first, since what
 * several have queued goes there together. Such a round is played again, one member after the
 * other: then it is who fails that hears it.
 */
export async function* rounds(
  members: Member[],
  query: Query,
  cut: Cut,
  settings: Settings,
  signal: AbortSignal,
  first = 1,
  onOneDevice = false,
): AsyncGenerator<Round | Left, StopReason> {
  for (let round = first; !signal.aborted; ) {
    const attempt = (each: typeof together) =>
      play(round, members, query, cut, settings, signal, each).catch(typed);
    const tried = await attempt(together);
    const played =
      onOneDevice && isAnybodys(tried) && [...query.active()].length > 1
        ? await attempt(inTurn)
        : tried;
    if (played === undefined) break;
    if (played === "nobody") continue; // all were late: they begin the round anew
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

/**
 * One round, and who could not keep its winner; undefined when it was stopped, `nobody` when no
 * draft came.
 */
async function play(
  round: number,
  members: Member[],
  query: Query,
  cut: Cut,
  settings: Settings,
  signal: AbortSignal,
  each: typeof together,
): Promise<
  { round: Round; stop: StopReason | undefined; failed: ConclaveError[] } | "nobody" | undefined
> {
  const active = [...query.active()];
  const voices = active.map((index) => members[index]!);
  if (!voices.some(canDraft))
    throw new RemoteFailure(
      "Nobody is left who drafts: the members that take part only judge. Add one that drafts.",
    );
  const ms = { draft: 0, verify: 0 };
  // Cut to whole words; judges have none, nor has who is late.
  const draft = async (places: number[]): Promise<Segment[]> => {
    const drafters = places.map((place) => voices[place]!);
    const drafts = await timed(
      ms,
      "draft",
      each(drafters, (member) => member.draft(settings.segmentTokens, signal)),
    );
    return drafts.flatMap((drafted, at) =>
      drafted
        ? [
            {
              place: places[at]!,
              tokens: drafted.tokens,
              candidate: { text: cut(drafted.text, drafted.ended), ended: drafted.ended },
            },
          ]
        : [],
    );
  };
  const verify = () => {
    const candidates = segments.map(({ candidate }) => candidate);
    query.drafted(
      Uint32Array.from(segments, ({ place }) => place),
      candidates,
    );
    return timed(
      ms,
      "verify",
      each(voices, (member) => member.verify(candidates, settings, signal)),
    );
  };

  // 1–2. Every member drafts from the same prefix, or the leader alone; drafts are cut to whole
  // words and cross as text.
  const all = [...active.keys()];
  const leader = query.leader();
  let segments = leader === undefined ? [] : await draft([leader]);
  const led = segments.length > 0;
  if (!led && !signal.aborted) segments = await draft(all.filter((place) => place !== leader));
  if (signal.aborted) return undefined;
  if (segments.length === 0) return "nobody";

  // Fast mode: a candidate with an end token is accepted at once, unverified.
  const unvoted = (scores: Verified[][]): Vote => ({
    scores,
    shares: [],
    totals: [],
    turnedBy: [],
    counts: [],
    weights: [...query.weights()],
  });
  const accepted = query.fastWinner(segments.map(({ candidate }) => candidate));
  if (accepted !== undefined) return over(accepted, unvoted([]));

  // 3. Every member scores ALL candidates in one pass over [prefix | c_1 | … | c_N]; who is late
  //    abstains.
  let scores = await verify();
  if (signal.aborted) return undefined;

  // Leader drafts: what it drafted alone is taken without a vote, unless it surprises somebody.
  // Then the others draft as well.
  if (led) {
    if (query.trusts(scores)) return over(0, unvoted(scores));
    segments = [...segments, ...(await draft(all.filter((place) => place !== leader)))].sort(
      (a, b) => a.place - b.place,
    );
    if (signal.aborted) return undefined;
    scores = await verify();
    if (signal.aborted) return undefined;
  }

  // 4–6. Shares, weights, winner. The authors' code updates the weights first, the text reads as
  // after.
  const shares = query.normalise(scores);
  const early = settings.update === "before" ? query.feedback(shares) : undefined;
  const { totals, winner, turnedBy } = query.select(shares);
  const { counts, weights } = early ?? query.feedback(shares);
  return over(winner, { scores, shares, totals, turnedBy, counts, weights });

  async function over(winner: number, vote: Vote) {
    // 7. The winner's rows stay in every member's KV cache, the losers' go; who exits frees its
    //    cache.
    const failed =
      vote.scores.length === 0 ? [] : await failures(voices, (member) => member.keep(winner));
    const exited = vote.totals.length === 0 ? [] : [...query.exit(winner)];
    for (const index of exited) members[index]!.release();
    const stop = query.stop(segments[winner]!.candidate);
    const signed = segments.map(({ place, candidate, tokens }, j) => ({
      member: voices[place]!.name,
      ...candidate,
      tokens: vote.scores[place]?.[j]?.tokens || tokens,
    }));
    const of = (which: (place: number) => boolean) => active.filter((_, place) => which(place));
    const who = {
      drafters: segments.map(({ place }) => active[place]!),
      remote: of((place) => voices[place]!.remote !== undefined),
      abstained: of((place) => vote.scores[place]?.length === 0),
    };
    return {
      round: {
        round,
        active,
        ...who,
        candidates: signed,
        ...vote,
        winner,
        writers: writers(signed, winner),
        exited,
        text: signed[winner]!.text,
        ms,
      },
      stop,
      failed,
    };
  }
}

/** Whether a device's error may have been heard by another than it concerns. */
const isAnybodys = (tried: unknown): boolean =>
  tried instanceof ConclaveError &&
  tried.member !== undefined &&
  (tried.kind === "Engine" || tried.kind === "OutOfMemory");
const canDraft = ({ onlyJudges }: Member): boolean => !onlyJudges;

/** Who drafted what the winner did. */
function writers(candidates: Candidate[], winner: number): number[] {
  const { text, ended } = candidates[winner]!;
  return [...candidates.keys()].filter(
    (j) => candidates[j]!.text === text && candidates[j]!.ended === ended,
  );
}

async function timed<T>(ms: Round["ms"], what: keyof Round["ms"], work: Promise<T>): Promise<T> {
  const began = performance.now();
  const done = await work;
  ms[what] += performance.now() - began;
  return done;
}
