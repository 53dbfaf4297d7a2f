/**
 * Each member's own answer to a question that all have answered together: what the ensemble is to
 * be held against.
 */
import type { AskOptions, Conclave, ConclaveEvent, Message } from "../library/conclave.ts";
import { isFatal, typed, type ConclaveError } from "../protocol/errors.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { duration, plural } from "./figures.ts";

/** A question as the ensemble was asked it. */
export interface Asked extends Pick<AskOptions, "settings" | "sampling" | "thinking"> {
  messages: Message[];
  members: string[];
}

/** What one of the members, by index, says or fails with. */
export type Alone = { member: number } & ({ event: ConclaveEvent } | { error: ConclaveError });

/**
 * Asks one member after the other, under the settings and the seed of the ensemble. After a stop
 * nobody else is asked, nor once the engine has failed; a member that fails otherwise leaves the
 * next its turn.
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
      if (signal.aborted) return; // the engine may be another by now
      const error = typed(thrown);
      yield { member, error };
      if (isFatal(error)) return;
    }
  }
}

/**
 * Tokens of the accepted segments, and the time it took to write them; to read the question is not
 * in it.
 */
export function cost(rounds: Pick<RoundEvent, "candidates" | "winner" | "ms">[]): string {
  const tokens = rounds.reduce(
    (sum, { candidates, winner }) => sum + (candidates[winner]?.tokens ?? 0),
    0,
  );
  const ms = rounds.reduce((sum, { ms }) => sum + ms.draft + ms.verify, 0);
  return `${plural(tokens, "token")} in ${duration(ms)}`;
}
