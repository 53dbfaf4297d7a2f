/**
 * The method, one round after the other: SpecFuse (arXiv 2412.07380) and its later form SpecEM;
 * step numbers are the paper's. Members draft, verify in line and keep here; `Rounds`
 * (crates/ensemble/src/moves.rs) selects them and computes the steps between (shares, feedback,
 * selection, exit, stop). Members' computations are in crates/member.
 */
import type {
  Candidate,
  Draft,
  Member,
  Rounds,
  RoundsEvent,
  RoundsMove,
  Settings,
} from "../protocol/engine.ts";
import type { ConclaveError } from "../protocol/errors.ts";
import type { StopReason } from "../protocol/messages.ts";
import { report, type Left, type Round } from "./round-report.ts";
import { failureOf, inTurn, settled, type Failed } from "./together.ts";

/** A step of a round that is under way; `member` is an index. */
type Step = ({ type: "draft"; member: number } & Draft) | { type: "vote"; candidates: Candidate[] };

/** Moves that members make. */
type MembersMove = Extract<RoundsMove, { kind: "draft" | "verify" | "keep" }>;

/**
 * Plays the moves of `machine` until the answer is over. Members have begun the conversation; those
 * that have `failed` since leave. A member that fails leaves the answer to the others. `onStep` is
 * called with each draft as it arrives, and before each vote.
 */
export async function* rounds(
  members: readonly Member[],
  machine: Rounds,
  settings: Settings,
  signal: AbortSignal,
  failed: readonly Failed[] = [],
  onStep?: (step: Step) => void,
): AsyncGenerator<Round | Left, StopReason> {
  const ms = { draft: 0, verify: 0, keep: 0 };
  const errors = new Map<number, ConclaveError>();
  const failures = (all: readonly Failed[]) =>
    all.map(({ index, error }) => (errors.set(index, error), failureOf(index, error)));
  const drafts = members.map(({ onlyJudges }) => !onlyJudges);
  let event: RoundsEvent = { begun: { drafts, failed: failures(failed) } };

  const next = (): RoundsMove => {
    const move = machine.next(event);
    return signal.aborted && "members" in move ? machine.next("stopped") : move;
  };
  /** Lets the members of a move make it, in parallel or in turn. */
  const made = async <T>(
    move: MembersMove,
    task: (member: Member, index: number) => Promise<T>,
  ) => {
    const began = performance.now();
    const outcome = await (move.inTurn ? inTurn : settled)(members, move.members, task);
    ms[move.kind] += performance.now() - began;
    const { results } = outcome;
    return { results, failed: outcome.failed.length > 0 && { failed: failures(outcome.failed) } };
  };

  for (;;) {
    const move = next();
    switch (move.kind) {
      case "draft": {
        // 1–2. All draft from the same prefix, or the leader alone; only text crosses.
        const drafts = await made(move, async (member, index) => {
          const draft = await member.draft(move.tokens, move.branch, move.novel, signal);
          if (draft) onStep?.({ type: "draft", member: index, ...draft });
          return draft;
        });
        event = drafts.failed || { drafted: drafts.results };
        break;
      }
      case "verify": {
        // 3. Every member scores ALL candidates in one pass over [prefix | c_1 | … | c_N].
        const { candidates } = move;
        onStep?.({ type: "vote", candidates });
        const scores = await made(move, (member) => member.verify(candidates, settings, signal));
        event = scores.failed || { verified: scores.results };
        break;
      }
      case "keep": {
        // 4–7. Shares, feedback and selection name the winner; all keep its rows in the KV cache.
        const kept = await made(move, (member) => member.keep(move.winner));
        event = kept.failed || "kept";
        break;
      }
      case "round": // 8. Members that exit by the rule free their caches.
        for (const index of move.round.exited) members[index]!.release();
        yield report(members, move.round, { draft: ms.draft, verify: ms.verify });
        event = "next";
        break;
      case "leave": // It failed; the others restart the round, or continue.
        members[move.member]!.release();
        yield { round: move.round, left: move.member, error: errors.get(move.member)! };
        event = "next";
        break;
      case "fail": // It was the last.
        throw errors.get(move.member)!;
      case "done":
        return move.stop;
    }
    if (event === "next") ms.draft = ms.verify = 0;
  }
}
