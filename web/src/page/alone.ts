/** Each member's own answer to a question that all answered together, for comparison. */
import type { AskOptions, Conclave, ConclaveEvent, Message } from "../library/conclave.ts";
import { isFatal, typed, type ConclaveError } from "../protocol/errors.ts";
import type { BeginEvent, RoundEvent } from "../protocol/messages.ts";
import { duration, plural } from "./figures.ts";

/** A question with the options it was asked with. */
export interface Asked extends Pick<AskOptions, "settings" | "sampling" | "thinking"> {
  messages: Message[];
  members: string[];
}

/** Event or error of one member, by index. */
export type Alone = { member: number } & ({ event: ConclaveEvent } | { error: ConclaveError });

/**
 * Asks the members one after another, with the ensemble's settings and seed. Ends after a stop or
 * an engine failure; after any other failure the next member is asked.
 */
export async function* eachAlone(
  conclave: Pick<Conclave, "ask">,
  { messages, members, ...options }: Asked,
  signal: AbortSignal,
): AsyncGenerator<Alone, void> {
  for (const [member, name] of members.entries()) {
    if (signal.aborted) return;
    try {
      for await (const event of conclave.ask(messages, { ...options, members: [name], signal }))
        yield { member, event };
    } catch (thrown) {
      if (signal.aborted) return; // The engine may have been replaced.
      const error = typed(thrown);
      yield { member, error };
      if (isFatal(error)) return;
    }
  }
}

/**
 * Index of the strongest member that drafts, by the estimates from which trust derives the starting
 * weights; as there, one of unknown strength counts as the strongest.
 */
export function strongest(
  begun: Pick<BeginEvent, "strengths"> | undefined,
  rounds: Pick<RoundEvent, "drafters">[],
): number | undefined {
  const drafters = [...new Set(rounds.flatMap((round) => round.drafters))].sort((a, b) => a - b);
  const strength = (member: number): number => begun?.strengths[member] ?? Infinity;
  return drafters.reduce<number | undefined>(
    (best, member) => (best === undefined || strength(member) > strength(best) ? member : best),
    undefined,
  );
}

/** Tokens of the accepted segments and the time to write them, excluding reading the question. */
export function cost(rounds: Pick<RoundEvent, "candidates" | "winner" | "ms">[]): string {
  const tokens = rounds.reduce(
    (sum, { candidates, winner }) => sum + (candidates[winner]?.tokens ?? 0),
    0,
  );
  const ms = rounds.reduce((sum, { ms }) => sum + ms.draft + ms.verify, 0);
  return `${plural(tokens, "token")} in ${duration(ms)}`;
}
