/** Reports of rounds, as `rounds` yields them. */
import type { Draft, Member, RoundReport } from "../protocol/engine.ts";
import type { ConclaveError } from "../protocol/errors.ts";
import { byOne } from "../protocol/rounds.ts";

/** A candidate with its drafter; `tokens`: its length in the drafter's own tokenisation. */
interface Drafted extends Draft {
  member: string;
}

/** One round. Rows follow `active`, columns `candidates`; members are indices. */
export interface Round extends Omit<RoundReport, "candidates"> {
  candidates: Drafted[];
  /** Active members on a server. */
  remote: number[];
  /** Active members that gave no scores when candidates were verified. */
  abstained: number[];
  ms: { draft: number; verify: number };
}

/** A member that failed in a round, and left the answer to the others. */
export interface Left {
  round: number;
  left: number;
  error: ConclaveError;
}

/** The machine's report, completed with the members' names and further facts. */
export const report = (members: readonly Member[], round: RoundReport, ms: Round["ms"]): Round => ({
  ...round,
  candidates: round.candidates.map((draft, j) => ({
    member: members[round.drafters[j]!]!.name,
    ...draft,
  })),
  remote: round.active.filter((index) => members[index]!.remote !== undefined),
  abstained: byOne(round) ? [] : round.active.filter((_, row) => round.scores[row]?.length === 0),
  ms,
});
