/** A conversation whose rounds the caller drives: the method's moves by themselves. */
import type { Candidate, Draft, Settings, VerifiedScore } from "../protocol/engine.ts";
import { number } from "../protocol/check.ts";
import { BadSettings } from "../protocol/errors.ts";
import type { Reply, Request } from "../protocol/messages.ts";
import { candidates as candidateList, checked, checkedOptions, draftFields } from "./options.ts";

/** Sends a move and waits for its reply, of the type that it must be. */
export type Move = <T extends Reply["type"]>(
  request: Unnumbered<"draft" | "verify" | "keep" | "end">,
  expected: T,
) => Promise<Extract<Reply, { type: T }>>;
type Unnumbered<T extends Request["type"]> = T extends T
  ? Omit<Extract<Request, { type: T }>, "id">
  : never;

/**
 * What {@link Conclave.begin} gives: members that have read the same messages, to draft, verify and
 * keep with. While it is open it has the engine to itself; `end` gives it back. One move at a time.
 * Every move throws ContextFull, DeviceLost, Engine, OutOfMemory, and Settings where it makes no
 * sense.
 */
export class Conversation {
  /** Names of the members; the rows of scores are in this order. */
  readonly members: readonly string[];
  /** Tokens that each of them has read. */
  readonly prefixes: readonly number[];
  readonly #number: number;
  readonly #settings: Settings;
  readonly #move: Move;

  /** Not for callers: {@link Conclave.begin} makes them. */
  constructor(
    number: number,
    members: readonly string[],
    prefixes: readonly number[],
    settings: Settings,
    move: Move,
  ) {
    this.#number = number;
    this.members = members;
    this.prefixes = prefixes;
    this.#settings = settings;
    this.#move = move;
  }

  /**
   * The method's step 1: a continuation of at most `maxTokens` by each of the members that are
   * named, of all if left out, in their order. Texts are as drafted, not cut to whole words.
   */
  async draft(options: { members?: readonly string[]; maxTokens?: number } = {}): Promise<Draft[]> {
    const { members = this.members, maxTokens = this.#settings.segmentTokens } = checkedOptions(
      "draft",
      options,
      draftFields,
    );
    const places = members.map((name) => {
      const place = this.members.indexOf(name);
      if (place < 0)
        throw new BadSettings(
          `There is no member called ${name} in this conversation. There are ${this.members.join(", ")}.`,
        );
      return place;
    });
    return (
      await this.#move(
        { type: "draft", conversation: this.#number, members: places, maxTokens },
        "drafted",
      )
    ).drafts;
  }

  /**
   * The method's step 3: `[members][candidates]`, every member's scores of all candidates in one
   * masked pass behind what it has read. Candidates may be anybody's words.
   */
  async verify(candidates: Candidate[]): Promise<VerifiedScore[][]> {
    candidates = checked("candidates", candidates, candidateList);
    return (
      await this.#move(
        { type: "verify", conversation: this.#number, candidates, settings: this.#settings },
        "verified",
      )
    ).scores;
  }

  /**
   * The method's step 7: the candidate of this place among those verified last is now part of the
   * text, with every member.
   */
  async keep(winner: number): Promise<void> {
    checked("winner", winner, number);
    await this.#move({ type: "keep", conversation: this.#number, winner }, "done");
  }

  /**
   * Gives the engine back. The next conversation that goes on with this text reads only what is
   * new.
   */
  async end(): Promise<void> {
    await this.#move({ type: "end", conversation: this.#number }, "done");
  }
}
