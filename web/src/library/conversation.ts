/** A conversation whose rounds the caller drives: the method's steps one by one. */
import type { Candidate, Draft, Settings, VerifiedScore } from "../protocol/engine.ts";
import { number } from "../protocol/check.ts";
import { BadSettings } from "../protocol/errors.ts";
import type { Reply } from "../protocol/messages.ts";
import type { Answer, Unnumbered } from "./engine-requests.ts";
import { candidates as candidateList, checked, checkedOptions, draftFields } from "./options.ts";

/** Sends a request and waits for its reply, which must be of the named type. */
export type Move = <T extends Reply["type"]>(
  request: Unnumbered<"draft" | "verify" | "keep" | "end">,
  expected: T,
) => Promise<Answer<T>>;

/**
 * Result of {@link Conclave.begin}: members that have read the same messages, to draft, verify and
 * keep with. It has the engine to itself until `end`. Only one call at a time. Every method throws
 * ContextFull, DeviceLost, Engine, OutOfMemory, and Settings for invalid use.
 */
export class Conversation {
  /** Names of the members, in the order of the rows of scores. */
  readonly members: readonly string[];
  /** Tokens that each of them has read. */
  readonly prefixes: readonly number[];
  readonly #number: number;
  readonly #settings: Settings;
  readonly #move: Move;

  /** @internal Made by {@link Conclave.begin}. */
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
   * Step 1 of the method: each named member (all by default) drafts a continuation of at most
   * `maxTokens`. Returned in the members' order, not cut to whole words.
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
          `There is no member called ${name} in this conversation. ` +
            `There are ${this.members.join(", ")}.`,
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
   * Step 3 of the method: scores `[members][candidates]`, each member scoring all candidates in one
   * masked pass after its prefix. Candidates may be any texts.
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
   * Step 7 of the method: appends candidate `winner` of the last verification to every member's
   * prefix.
   */
  async keep(winner: number): Promise<void> {
    checked("winner", winner, number);
    await this.#move({ type: "keep", conversation: this.#number, winner }, "done");
  }

  /** Releases the engine. The next conversation that continues this text reads only what is new. */
  async end(): Promise<void> {
    await this.#move({ type: "end", conversation: this.#number }, "done");
  }
}
