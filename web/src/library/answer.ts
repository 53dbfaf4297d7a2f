/**
 * What the interfaces of other clients tell of an answer: who wrote each segment, and why it is
 * over.
 */
import type { RoundEvent, StopReason } from "./conclave.ts";

/** Why an answer is over: `length` by a limit, of the caller or of the members' room. */
export type FinishReason = "stop" | "length";

/** What the members did for a segment of the answer. */
export interface SegmentVote {
  /** The segment, as far as it is in the answer. */
  text: string;
  /** Who drafted it, by name. */
  writers: string[];
  /**
   * What each candidate got of the weighted votes, by its drafter's name; empty where there was no
   * vote.
   */
  votes: Record<string, number>;
  /**
   * How likely each member that scored it found it, by the member's name: the mean log-probability
   * of its tokens in the member's own tokenizer, at temperature 1, behind what was accepted before;
   * where it ends the answer, its end counts as one. Empty where nobody scored it, and with
   * settings that score by logits.
   */
  logprobs: Record<string, number>;
}

export const finishOf = (stop: StopReason): FinishReason =>
  stop === "ended" || stop === "stop" || stop === "silence" ? "stop" : "length";

/** `members`: those of the answer, as its `begin` names them. */
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
