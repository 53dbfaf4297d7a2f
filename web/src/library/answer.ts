/** What the interfaces of other clients tell of an answer: who wrote each segment, and why it is over. */
import type { RoundEvent, StopReason } from "./conclave.ts";

/** Why an answer is over: `length` by a limit, of the caller or of the members' room. */
export type FinishReason = "stop" | "length";

/** What the members did for a segment of the answer. */
export interface SegmentVote {
  /** The segment, as far as it is in the answer. */
  text: string;
  /** Who drafted it, by name. */
  writers: string[];
  /** What each candidate got of the weighted votes, by its drafter's name; empty where there was no vote. */
  votes: Record<string, number>;
}

export const finishOf = (stop: StopReason): FinishReason => (stop === "ended" || stop === "stop" || stop === "silence" ? "stop" : "length");

export function voteOf({ text, candidates, writers, totals }: RoundEvent): SegmentVote {
  return {
    text,
    writers: writers.map((place) => candidates[place]!.member),
    votes: Object.fromEntries(totals.map((total, place) => [candidates[place]!.member, total])),
  };
}
