/**
 * Foretells the time to an answer's first words: before a question is sent, and while its answer is
 * awaited. Only members on this machine are asked how long a question is: one that is not yet sent
 * goes to no server.
 */
import type { Conclave } from "../library/conclave.ts";
import type { Message, Thinking } from "../protocol/engine.ts";
import {
  firstWordsIn,
  Foretelling,
  Paces,
  setOf,
  timeFor,
  unread,
  type Held,
  type Pace,
  type Runs,
} from "./foretold.ts";
import type { Known } from "./member-facts.ts";

/** A question as its members read it. */
export interface Read {
  messages: readonly Message[];
  members: readonly Pick<Known, "source" | "about">[];
  thinking: Thinking | undefined;
  /** Share of each member's room to which an attached file is cut. */
  cut?: number | undefined;
}

type Measuring = Pick<Conclave, "backend" | "failed" | "measure">;

export class FirstWords {
  readonly #paces = new Paces();
  readonly #keep: (kept: unknown) => void;
  /**
   * Conversations in the members' caches, by engine and then by member name. They are dropped with
   * the engine.
   */
  readonly #held = new WeakMap<Measuring, Map<string, Held>>();
  /**
   * Answers to learn from. Emptied when everything is forgotten, so that no earlier answer counts.
   */
  #awaited = new WeakSet<Foretelling>();

  constructor(keep: (kept: unknown) => void) {
    this.#keep = keep;
  }

  restore(kept: unknown): void {
    this.#paces.restore(kept);
  }

  forget(): void {
    this.#paces.forget();
    this.#awaited = new WeakSet();
  }

  /** Sentence on a question that is not sent yet; empty if its time is short or unknown. */
  async before(conclave: Measuring, asked: Read): Promise<string> {
    const pace = this.#paceOf(conclave, asked);
    const runs = pace?.first === undefined ? undefined : await this.#runs(conclave, asked);
    return firstWordsIn(pace && runs && timeFor(pace, runs));
  }

  /**
   * Begins to foretell an answer whose question is sent next. `whole`: the answer is a new one, not
   * a continuation.
   */
  await(conclave: Measuring, asked: Read, whole: boolean): Foretelling {
    const pace = this.#paceOf(conclave, asked);
    const telling = new Foretelling(pace, readers(asked), performance.now(), whole);
    this.#awaited.add(telling);
    // Requests are answered in turn: this one before the members begin to read.
    if (pace)
      void this.#runs(conclave, asked).then(
        (runs) => runs && telling.expect(runs, performance.now()),
      );
    return telling;
  }

  /** Learns from an answer that is over. */
  learn(conclave: Measuring, asked: Read, telling: Foretelling, answer: string): void {
    const held = this.#held.get(conclave) ?? new Map<string, Held>();
    this.#held.set(conclave, held);
    for (const name of readers(asked)) held.delete(name);
    for (const [name, each] of telling.held(asked.messages, answer)) held.set(name, each);
    const { measured } = telling;
    if (!measured || !this.#awaited.has(telling)) return;
    // A GPU takes about as long for a few tokens as for many, so that few say nothing of its speed.
    const brief = conclave.backend === "cpu" ? telling.brief : undefined;
    this.#paces.learn(keyOf(conclave, asked), { ...measured, ...(brief && { brief }) });
    this.#keep(this.#paces.kept);
  }

  #paceOf(conclave: Measuring, asked: Read): Pace | undefined {
    return this.#paces.get(keyOf(conclave, asked));
  }

  async #runs(
    conclave: Measuring,
    { messages, thinking, cut, ...asked }: Read,
  ): Promise<Runs | undefined> {
    const members = readers(asked);
    if (members.length === 0) return {};
    // To measure would open another engine before the page says so.
    if (conclave.failed) return undefined;
    const options = { members, ...(thinking && { thinking }) };
    const measured = await conclave.measure([...messages], options).catch(() => undefined);
    // It is too long for a member, or was asked of an engine that is gone.
    if (!measured && cut === undefined) return undefined;
    const held = this.#held.get(conclave);
    return Object.fromEntries(
      members.map((name, place) => {
        const room = asked.members.find(({ source }) => source.name === name)?.about?.context ?? 0;
        const most = cut === undefined ? Number.POSITIVE_INFINITY : room * cut;
        const tokens = Math.min(measured?.[place]?.tokens ?? most, most);
        return [name, unread(tokens, messages, held?.get(name))];
      }),
    );
  }
}

const keyOf = ({ backend }: Measuring, { members, thinking = "off" }: Read): string =>
  setOf(
    members.map(({ source, about }) => ({ name: source.name, bytes: about?.bytes })),
    backend,
    thinking,
  );

/** Names of the members that read on this machine. */
const readers = ({ members }: Pick<Read, "members">): string[] =>
  members.flatMap(({ source }) =>
    source.remote === undefined && !source.builtIn ? [source.name] : [],
  );
