/**
 * Facts about an answer for the interfaces of other clients: writers of each segment, finish
 * reason.
 */
import type { RoundEvent, StopReason } from "./conclave.ts";

/** Reason that an answer ended: `length` is a limit set by the caller or the members' context. */
export type FinishReason = "stop" | "length";

/** Votes for one segment of the answer. */
export interface SegmentVote {
  /** Accepted text of the segment. */
  text: string;
  /** Names of its drafters. */
  writers: string[];
  /** Share of the weighted votes per candidate, by the drafter's name; empty without a vote. */
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

/** `members`: members of the answer, as in its `begin` event. */
export function voteOf(
  { text, candidates, writers, totals, active, scores, winner }: RoundEvent,
  members: readonly string[],
): SegmentVote {
  const likely = scores.map(
    (row, verifier) => [members[active[verifier]!]!, row[winner]?.meanLogprob] as const,
  );
  return {
    text,
    writers: writers.map((place) => candidates[place]!.member),
    votes: Object.fromEntries(totals.map((total, place) => [candidates[place]!.member, total])),
    logprobs: Object.fromEntries(
      likely.flatMap(([member, mean]) => (mean === undefined ? [] : [[member, mean]])),
    ),
  };
}
