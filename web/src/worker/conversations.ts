/**
 * Conversations whose rounds the caller drives, move by move, in the place of `round.ts`. An open
 * one has the engine to itself: what is asked meanwhile waits until it ends.
 */
import type {
  Candidate,
  Draft,
  Form,
  Member,
  Settings,
  VerifiedScore,
} from "../protocol/engine.ts";
import { BadSettings } from "../protocol/errors.ts";
import type { Request } from "../protocol/messages.ts";
import { nextTask, together } from "./together.ts";

/** As `Service` runs what uses the engine: one task after the other. */
type InTurn = <T>(task: () => Promise<T>) => Promise<T>;

/** Of one pass, which nothing stops. */
const mostCandidates = 64;

interface Open {
  members: readonly Member[];
  /** How many candidates were verified since the last that was kept. */
  verified: number;
  /** Gives the engine to whoever waits. */
  end: () => void;
}

export class Conversations {
  readonly #inTurn: InTurn;
  readonly #open = new Map<number, Open>();

  constructor(inTurn: InTurn) {
    this.#inTurn = inTurn;
  }

  /**
   * Waits for the engine; then members read the messages, held to a form where there is one.
   * Resolves with the tokens of each one's prefix.
   */
  begin(
    { id, messages, sampling }: Extract<Request, { type: "begin" }>,
    membersNow: () => readonly Member[],
    formNow: (members: readonly Member[]) => Promise<Form | undefined>,
    signal: AbortSignal,
  ): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const held = (end: () => void): void => {
        const read = async (): Promise<number[]> => {
          signal.throwIfAborted();
          const members = membersNow();
          const form = await formNow(members);
          for (const member of members) await member.measure(messages);
          const begun = await together(members, (member, index) =>
            member.begin(
              messages,
              sampling,
              index,
              async () => {
                await nextTask(); // lets a stop in
                return !signal.aborted;
              },
              form,
            ),
          );
          signal.throwIfAborted();
          this.#open.set(id, { members, verified: 0, end });
          return begun.map(({ prefix }) => prefix);
        };
        read().then(resolve, (error: unknown) => (end(), reject(error)));
      };
      void this.#inTurn(() => new Promise<void>(held));
    });
  }

  /**
   * A draft of at most so many tokens of each of these members, by their places in the
   * conversation.
   */
  async draft(
    conversation: number,
    drafters: readonly number[],
    maxTokens: number,
  ): Promise<Draft[]> {
    const { members } = this.#of(conversation);
    if (new Set(drafters).size < drafters.length)
      throw new BadSettings("A member is to draft twice. Name each member once.");
    const drafts = await together(
      drafters.map((place) => members[place] ?? none(place)),
      (member) => member.draft(maxTokens),
    );
    return drafts.map((draft) => draft ?? { text: "", ended: false, tokens: 0 });
  }

  /** `[members][candidates]`: every member's scores, each in one pass. */
  async verify(
    conversation: number,
    candidates: Candidate[],
    settings: Settings,
  ): Promise<VerifiedScore[][]> {
    const open = this.#of(conversation);
    if (candidates.length === 0 || candidates.length > mostCandidates)
      throw new BadSettings(
        `1 to ${mostCandidates} candidates can be verified at a time; there are ${candidates.length}.`,
      );
    open.verified = 0;
    const scores = await together(open.members, (member) => member.verify(candidates, settings));
    open.verified = candidates.length;
    return scores;
  }

  /** Every member keeps one of the candidates that were verified last. */
  async keep(conversation: number, winner: number): Promise<void> {
    const open = this.#of(conversation);
    if (winner >= open.verified)
      throw new BadSettings(
        `There is no candidate ${winner} to keep: ${open.verified} were verified since the last one was kept.`,
      );
    open.verified = 0;
    await together(open.members, (member) => member.keep(winner));
  }

  /** Ends one; it may have ended before. */
  end(conversation: number): void {
    this.#open.get(conversation)?.end();
    this.#open.delete(conversation);
  }

  #of(conversation: number): Open {
    const open = this.#open.get(conversation);
    if (open) return open;
    throw new BadSettings("This conversation is over. Begin another one.");
  }
}

function none(place: number): never {
  throw new BadSettings(`There is no member ${place} in this conversation.`);
}
