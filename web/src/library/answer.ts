/**
 * Facts about an answer for the interfaces of other clients: writers of each segment, finish
 * reason.
 */
import { BadSettings, type RoundEvent, type StopReason } from "./conclave.ts";

/** Reason that an answer ended: `length` is a limit set by the caller or the members' context. */
export type FinishReason = "stop" | "length";

/** Votes for one segment of the answer. */
export interface SegmentVote {
  /** Accepted text of the segment. */
  text: string;
  /** Names of its drafters. */
  writers: string[];
  /**
   * Share of the weighted votes by the drafter's name; for a member that drafted two candidates, of
   * the better one. Empty without a vote.
   */
  votes: Record<string, number>;
  /**
   * Mean log-probability of the segment's tokens per scoring member, by name: in the member's own
   * tokenizer, at temperature 1, given the text accepted before; an end of the answer counts as one
   * token. Empty if no member scored it, and with settings that score by logits.
   */
  logprobs: Record<string, number>;
}

export const finishOf = (stop: StopReason): FinishReason =>
  stop === "ended" || stop === "stop" || stop === "silence" ? "stop" : "length";

/** Error of an answer whose events stop before its end. */
export const unfinished = (): BadSettings =>
  new BadSettings(
    "The answer has no end: its engine was closed. " +
      "Keep the engine open until the answer is complete.",
  );

/** `members`: members of the answer, as in its `begin` event. */
export function voteOf(
  { text, candidates, writers, totals, active, scores, winner }: RoundEvent,
  members: readonly string[],
): SegmentVote {
  const likely = scores.map(
    (row, verifier) => [members[active[verifier]!]!, row[winner]?.meanLogprob] as const,
  );
  const votes: Record<string, number> = {};
  for (const [place, total] of totals.entries()) {
    const { member } = candidates[place]!;
    votes[member] = Math.max(total, votes[member] ?? 0);
  }
  return {
    text,
    writers: [...new Set(writers.map((place) => candidates[place]!.member))],
    votes,
    logprobs: Object.fromEntries(
      likely.flatMap(([member, mean]) => (mean === undefined ? [] : [[member, mean]])),
    ),
  };
}
