/**
 * The time to an answer's first words, foretold from how fast the same members read and drafted
 * before, and from how fast they read now. All times are in ms.
 */
import { list, optional, record, shape, text, within, type Checked } from "../protocol/check.ts";
import type { Backend, Message, Thinking } from "../protocol/engine.ts";
import type { BeginEvent, ConclaveEvent, ReadingEvent } from "../protocol/messages.ts";
import { roughly } from "./figures.ts";

/** A shorter time is not worth a sentence. */
const leastMs = 3000;
/** Time in ms to the first words below which a shown sentence disappears. */
const lastMs = 500;
/** The rate of the present answer counts once it was observed for so long. */
const observedMs = 1000;
/** Minimum tokens of a measured reading: a shorter one says more of the start than of the speed. */
const leastTokens = 16;
/**
 * Minimum tokens of a reading whose time is known only as a whole, from the question to its last
 * step.
 */
const leastOfOneStep = 256;
/**
 * Most times as many tokens as a brief reading ran of which it says how long they take: what there
 * is besides reading, such as the start, takes most of its time.
 */
const mostTimesBrief = 8;
/**
 * Factor by which each new answer reduces the tokens and times of earlier ones in a measurement.
 */
const decay = 1 / 2;
const mostSets = 16;

const time = within(0, 1e9);
/**
 * Measured speed of a set of members. Each member's speed is its speed beside the others: they run
 * in parallel or share a thread, and either way the slowest decides.
 */
const pace = shape({
  /** By name: tokens that a member ran of its prompts, and the time from first to last. */
  read: record(shape({ tokens: within(1, 1e9), ms: time })),
  /**
   * By name: the same of prompts too short for a speed, from the question to the last token; counts
   * only for members of which nothing else is known, and for prompts that aren't far longer.
   */
  brief: optional(record(shape({ tokens: within(1, 1e9), ms: time }))),
  /** From the last token read to the first words; unknown until an answer had some. */
  first: optional(time),
});
export type Pace = Checked<typeof pace>;
const kept = list(shape({ set: text, pace }));

/** Members that answer together, and all else that their pace depends on, as a key. */
export function setOf(
  members: readonly { name: string; bytes: number | undefined }[],
  backend: Backend,
  thinking: Thinking,
): string {
  const each = members.map(({ name, bytes }) => JSON.stringify([name, bytes ?? null])).sort();
  return [backend, thinking, ...each].join(" ");
}

/** Measured paces by set of members; those of the latest sets are kept. */
export class Paces {
  readonly #paces = new Map<string, Pace>();

  get(set: string): Pace | undefined {
    return this.#paces.get(set);
  }

  learn(set: string, { read, brief, first }: Pace): void {
    const before = this.#paces.get(set) ?? { read: {} };
    const now: Pace = { read: { ...before.read } };
    for (const [name, { tokens, ms }] of Object.entries(read)) {
      const old = before.read[name] ?? { tokens: 0, ms: 0 };
      now.read[name] = { tokens: old.tokens * decay + tokens, ms: old.ms * decay + ms };
    }
    if (before.brief ?? brief) now.brief = fastest(before.brief, brief);
    const both = [before.first, first].filter((each) => each !== undefined);
    if (both.length > 0) now.first = both.reduce((sum, each) => sum + each) / both.length;
    this.#paces.delete(set);
    this.#paces.set(set, now);
    for (const oldest of [...this.#paces.keys()].slice(0, -mostSets)) this.#paces.delete(oldest);
  }

  get kept(): Checked<typeof kept> {
    return [...this.#paces].map(([set, pace]) => ({ set, pace }));
  }

  /** Takes what an earlier visit kept; what this one has measured stays. */
  restore(data: unknown): void {
    try {
      for (const { set, pace } of kept(data, "paces"))
        if (!this.#paces.has(set)) this.#paces.set(set, pace);
    } catch {
      // Nothing is kept, or by another version.
    }
  }

  forget(): void {
    this.#paces.clear();
  }
}

/** The faster readings by name: all else that was in their times, as waiting for a tab, slows. */
function fastest(before: Pace["read"] = {}, further: Pace["read"] = {}): Pace["read"] {
  const all = { ...before };
  for (const [name, now] of Object.entries(further)) {
    const old = all[name];
    if (!old || now.ms * old.tokens < old.ms * now.tokens) all[name] = now;
  }
  return all;
}

/** A conversation in a member's cache. */
export interface Held {
  messages: readonly Message[];
  tokens: number;
}

/**
 * Number of a conversation's `tokens` that a member has still to run, estimated from the
 * conversation in its cache (`held`).
 */
export function unread(tokens: number, messages: readonly Message[], held?: Held): number {
  if (!held) return tokens;
  const same = held.messages.findIndex(
    ({ role, content }, place) =>
      messages[place]?.role !== role || messages[place].content !== content,
  );
  const shared = held.messages.slice(0, same < 0 ? undefined : same);
  const share = characters(shared) / Math.max(1, characters(held.messages));
  return Math.max(0, tokens - held.tokens * share);
}

const characters = (messages: readonly Message[]): number =>
  messages.reduce((sum, { content }) => sum + content.length, 0);

/** Tokens that each member has still to run, by name. */
export type Runs = Readonly<Record<string, number>>;

/**
 * Time until members of this pace have first words, after each has run its tokens of `runs`;
 * undefined if unknown.
 */
export function timeFor(pace: Pace, runs: Runs): number | undefined {
  const { first } = pace;
  if (first === undefined) return undefined;
  const each = Object.entries(runs).map(([name, tokens]) =>
    timeToRead(tokens, speed(pace, name, tokens)),
  );
  return each.some((ms) => ms === undefined) ? undefined : Math.max(0, ...each.map(Number)) + first;
}

/** The speed at which a member would run these tokens. */
function speed(pace: Pace, name: string, tokens: number): Pace["read"][string] | undefined {
  const { read, brief } = pace;
  const short = brief?.[name];
  return read[name] ?? (short && tokens <= short.tokens * mostTimesBrief ? short : undefined);
}

const timeToRead = (tokens: number, speed: Pace["read"][string] | undefined): number | undefined =>
  tokens === 0 ? 0 : speed && (tokens * speed.ms) / speed.tokens;

/** The sentence on a time to the first words; empty if that is short or unknown. */
export const firstWordsIn = (ms: number | undefined, least = leastMs): string =>
  ms === undefined || ms < least ? "" : `First words in about ${roughly(ms / 1000)}.`;

/** Progress of a member's reading. */
interface Step {
  done: number;
  at: number;
}

/**
 * The time to one answer's first words while it is awaited: foretold, and measured for the next.
 */
export class Foretelling {
  readonly #pace: Pace | undefined;
  /** Members that read here; others read on their server, unseen. */
  readonly #readers: readonly string[];
  #start: number;
  #runs: Runs = {};
  readonly #steps = new Map<string, { first: Step; last: Step; total: number }>();
  #begun: { at: number; event: BeginEvent } | undefined;
  #first: number | undefined;
  /** Tokens that each member holds now. */
  readonly #prefixes = new Map<string, number>();
  /** Whether the measurement says nothing about other answers. */
  #spoilt: boolean;
  /**
   * Whether the engine failed and was replaced. The members then read again, and how much they read
   * is unknown.
   */
  #reopened = false;
  #said = false;

  /**
   * `whole`: the answer is a new one. A continued answer takes its own time to the next words, so
   * that it is not measured.
   */
  constructor(pace: Pace | undefined, readers: readonly string[], now: number, whole = true) {
    this.#pace = pace;
    this.#readers = readers;
    this.#start = now;
    this.#spoilt = !whole;
  }

  /**
   * Sets how many tokens each reader has still to run from `now` on. Does nothing once reading has
   * begun.
   */
  expect(runs: Runs, now: number): void {
    if (this.#steps.size > 0 || this.#begun) return;
    this.#runs = runs;
    this.#start = now;
  }

  take(event: ConclaveEvent, now: number): void {
    if (event.type === "reading") this.#read(event, now);
    else if (event.type === "begin") {
      this.#begun = { at: now, event };
      for (const [place, name] of event.members.entries())
        this.#prefixes.set(name, event.prefixes[place]?.prefix ?? 0);
    } else if (event.type === "reopened") this.#reopened = true;
    else if (event.type === "left") this.#spoilt ||= this.#first === undefined;
    else if (event.type === "round") {
      if (event.text !== "") this.#first ??= now;
      for (const [place, { prefix }] of event.counters.entries())
        this.#prefixes.set(this.#begun?.event.members[event.active[place] ?? -1] ?? "", prefix);
    }
  }

  #read({ member, done, total }: ReadingEvent, at: number): void {
    const step = { done, at };
    const first = this.#steps.get(member)?.first ?? step;
    this.#steps.set(member, { first, last: step, total });
  }

  /** Time left to the first words, or at least to the end of reading; undefined if unknown. */
  left(now: number): { to: "words" | "read"; ms: number } | undefined {
    if (this.#first !== undefined || this.#reopened) return undefined;
    const first = this.#pace?.first;
    if (this.#begun)
      return first === undefined ? undefined : { to: "words", ms: first - (now - this.#begun.at) };
    const each = this.#readers.map((name) => this.#leftToRead(name, now));
    if (each.some((ms) => ms === undefined)) return undefined;
    const reading = Math.max(0, ...each.map(Number));
    return first === undefined ? { to: "read", ms: reading } : { to: "words", ms: reading + first };
  }

  #leftToRead(name: string, now: number): number | undefined {
    const steps = this.#steps.get(name);
    const rest = steps ? steps.total - steps.last.done : this.#runs[name];
    if (rest === undefined) return undefined;
    const since = now - (steps?.last.at ?? this.#start);
    const known = observed(steps) ?? (this.#pace && speed(this.#pace, name, rest));
    const whole = timeToRead(rest, known);
    return whole === undefined ? undefined : Math.max(0, whole - since);
  }

  /** The sentence for the page; empty if nothing is known, or it is soon. */
  sentence(now: number): string {
    const left = this.left(now);
    const said = left ? firstWordsIn(left.ms, this.#said ? lastMs : leastMs) : "";
    if (said === "" || !left) return "";
    this.#said = true;
    return left.to === "words" ? said : `The question is read in about ${roughly(left.ms / 1000)}.`;
  }

  /** The pace of this answer, as far as it got; undefined if that says nothing of others. */
  get measured(): Pace | undefined {
    const begun = this.#begun;
    if (!begun || this.#spoilt || this.#reopened) return undefined;
    const read: Pace["read"] = {};
    for (const [place, name] of begun.event.members.entries()) {
      const run = begun.event.prefixes[place]?.run ?? 0;
      if (!this.#readers.includes(name) || run < leastTokens) continue;
      const steps = this.#steps.get(name);
      const span = steps && { tokens: steps.last.done - steps.first.done, ms: msOf(steps) };
      // Measured from the end of the first step, since the answer may have waited before. If the
      // first step ran more than half of the tokens, the whole time is measured instead.
      if (span && span.tokens * 2 >= run && span.ms > 0) read[name] = span;
      else if (run >= leastOfOneStep) read[name] = this.#whole(name, run, begun.at);
    }
    return { read, ...(this.#first !== undefined && { first: this.#first - begun.at }) };
  }

  /** Readings too short for `measured`, as most questions' are, from the question on. */
  get brief(): Pace["brief"] {
    const begun = this.#begun;
    const { read } = this.measured ?? {};
    if (!begun || !read) return undefined;
    const all: Pace["read"] = {};
    for (const [place, name] of begun.event.members.entries()) {
      const run = begun.event.prefixes[place]?.run ?? 0;
      if (!this.#readers.includes(name) || run < leastTokens || read[name]) continue;
      all[name] = this.#whole(name, run, begun.at);
    }
    return Object.keys(all).length > 0 ? all : undefined;
  }

  #whole(name: string, tokens: number, begun: number): Pace["read"][string] {
    return { tokens, ms: (this.#steps.get(name)?.last.at ?? begun) - this.#start };
  }

  /** Tokens and messages that each member holds after it, with this text as the answer. */
  held(messages: readonly Message[], answer: string): [string, Held][] {
    if (!this.#begun || this.#begun.event.dropped > 0) return [];
    const all = [...messages, { role: "assistant", content: answer } as const];
    return [...this.#prefixes].map(([name, tokens]) => [name, { messages: all, tokens }]);
  }
}

const msOf = ({ first, last }: { first: Step; last: Step }): number => last.at - first.at;

/** The speed of a reading under way, once that can be said. */
function observed(
  steps: { first: Step; last: Step } | undefined,
): Pace["read"][string] | undefined {
  if (!steps || msOf(steps) < observedMs) return undefined;
  const tokens = steps.last.done - steps.first.done;
  return tokens > 0 ? { tokens, ms: msOf(steps) } : undefined;
}
