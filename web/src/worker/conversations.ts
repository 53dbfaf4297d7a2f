/**
 * Conversations whose rounds the caller drives, move by move, instead of `round.ts`. An open one
 * owns the engine: other requests wait until it ends.
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

/** Runs tasks that use the engine one after the other (see `Service`). */
type InTurn = <T>(task: () => Promise<T>) => Promise<T>;

/** Maximum candidates of one pass, which can't be stopped. */
const mostCandidates = 64;

interface Open {
  members: readonly Member[];
  /** Candidates verified since the last keep. */
  verified: number;
  /** The move under way. */
  move: Promise<unknown> | undefined;
  /** Releases the engine. */
  end: () => void;
}

export class Conversations {
  readonly #inTurn: InTurn;
  readonly #open = new Map<number, Open>();

  constructor(inTurn: InTurn) {
    this.#inTurn = inTurn;
  }

  /**
   * Waits for the engine; then members read the messages, constrained to a form if there is one.
   * Resolves with the number of tokens in each one's prefix.
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
          this.#open.set(id, { members, verified: 0, move: undefined, end });
          return begun.map(({ prefix }) => prefix);
        };
        read().then(resolve, (error: unknown) => (end(), reject(error)));
      };
      void this.#inTurn(() => new Promise<void>(held));
    });
  }

  /** Lets each of these members (indices into the conversation's) draft at most `tokens` tokens. */
  async draft(
    conversation: number,
    drafters: readonly number[],
    maxTokens: number,
  ): Promise<Draft[]> {
    const open = this.#of(conversation);
    const { members } = open;
    if (new Set(drafters).size < drafters.length)
      throw new BadSettings("A member is to draft twice. Name each member once.");
    const asked = drafters.map((place) => members[place] ?? none(place));
    const drafts = await alone(open, () => together(asked, (member) => member.draft(maxTokens)));
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
        `1 to ${mostCandidates} candidates can be verified at a time; ` +
          `there are ${candidates.length}.`,
      );
    const scores = await alone(open, () => {
      open.verified = 0;
      return together(open.members, (member) => member.verify(candidates, settings));
    });
    open.verified = candidates.length;
    return scores;
  }

  /** Every member keeps one of the candidates verified last. */
  async keep(conversation: number, winner: number): Promise<void> {
    const open = this.#of(conversation);
    if (winner >= open.verified)
      throw new BadSettings(
        `There is no candidate ${winner} to keep: ` +
          `${open.verified} were verified since the last one was kept.`,
      );
    await alone(open, () => {
      open.verified = 0;
      return together(open.members, (member) => member.keep(winner));
    });
  }

  /** Ends a conversation, after a move under way; it may have ended already. */
  async end(conversation: number): Promise<void> {
    const open = this.#open.get(conversation);
    this.#open.delete(conversation);
    await open?.move?.catch(() => undefined);
    open?.end();
  }

  #of(conversation: number): Open {
    const open = this.#open.get(conversation);
    if (open) return open;
    throw new BadSettings("This conversation is over. Begin another one.");
  }
}

/** Makes a move; only one at a time, since a member can't make two. */
async function alone<T>(open: Open, move: () => Promise<T>): Promise<T> {
  if (open.move !== undefined)
    throw new BadSettings(
      "A draft, verification or keep of this conversation is under way. Wait for it first.",
    );
  const made = move();
  open.move = made;
  try {
    return await made;
  } finally {
    open.move = undefined;
  }
}

function none(place: number): never {
  throw new BadSettings(`There is no member ${place} in this conversation.`);
}
