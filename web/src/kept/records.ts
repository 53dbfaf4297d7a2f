/**
 * Conversations as they are kept in this browser, and as they cross in files. A turn is a question
 * with its answer, kept as the events that the page showed, so that it can be shown again whole.
 */
import {
  flag,
  list,
  number,
  oneOf,
  optional,
  shape,
  text,
  type Checked,
} from "../protocol/check.ts";
import type { Message } from "../protocol/engine.ts";
import { adapter, backend, failure, parseEvent } from "../protocol/messages.ts";
import { newId } from "./new-id.ts";
import type { ConclaveEvent } from "../protocol/messages.ts";

/** Events that a kept turn consists of; progress is not kept. */
export type KeptEvent = Extract<
  ConclaveEvent,
  { type: "begin" | "thought" | "left" | "round" | "end" }
>;
const kinds = new Set<string>(["begin", "thought", "left", "round", "end"]);

const keptEvent = (data: unknown): KeptEvent => {
  const event = parseEvent(data);
  if (!kinds.has(event.type)) throw new TypeError(`a kept event can't be ${event.type}`);
  return event as KeptEvent;
};

/**
 * Pages of a PDF: their number, and the end of each page that was read, as an offset in the text.
 */
const pages = shape({ all: number, ends: list(number) });
/**
 * Text of a file that was sent with a question. `whole`: number of characters of the whole file, or
 * of bytes if it was too large to be read.
 */
export const attachment = shape({ name: text, text, whole: number, pages: optional(pages) });
export type Attachment = Checked<typeof attachment>;

const turn = shape({
  id: text,
  /** Time of the question, in ms since 1970: the order of turns. */
  at: number,
  question: text,
  attached: optional(attachment),
  /** The system prompt. */
  instructions: optional(text),
  /** Members that were asked, with their cores and palette indices. */
  members: list(text),
  cores: list(oneOf("fused", "burn", "remote", "built-in")),
  voices: list(number),
  backend,
  adapter,
  /** Text of the answer so far. */
  answer: text,
  events: list(keptEvent),
  /** Set if the answer went on after it was over or broken off. */
  continued: optional(flag),
  /** Set if the answer ended with an error. */
  failure: optional(failure),
});

/** A turn without the conversation that it belongs to. */
export type Turn = Checked<typeof turn>;
export interface KeptTurn extends Turn {
  conversation: string;
}

export interface KeptConversation {
  id: string;
  title: string;
  created: number;
  changed: number;
  /** Set while there is only a half-typed question. */
  unasked?: boolean;
}

const exported = shape({
  format: oneOf("conclave conversation 1"),
  title: text,
  created: number,
  turns: list(turn),
});
export type Exported = Checked<typeof exported>;

/** Throws a TypeError that names the fault if `data` is no exported conversation. */
export const parseExported = (data: unknown): Exported => exported(data, "conversation");

/**
 * Returns the turn if it can be shown whole, else a turn with only its texts: another version may
 * have kept it.
 */
export function readable(kept: KeptTurn): KeptTurn {
  try {
    return { ...turn(kept, "turn"), conversation: kept.conversation };
  } catch {
    return {
      ...plainTurn(String(kept.question), String(kept.answer), Number(kept.at) || 0),
      id: kept.id,
      conversation: kept.conversation,
    };
  }
}

/** A turn of which only the texts are known. */
export function plainTurn(question: string, answer: string, at: number): Turn {
  return {
    id: newId(),
    at,
    question,
    members: [],
    cores: [],
    voices: [],
    backend: "cpu",
    adapter: { name: "", vendor: "", architecture: "", backend: "", software: false },
    answer,
    events: [],
  };
}

/** Whether an answer has come to its end, by itself or not. */
export const isOver = ({ events, failure, members }: Turn): boolean =>
  members.length === 0 || failure !== undefined || events.some(({ type }) => type === "end");

/** The accepted segments of an answer, from which another engine can continue it. */
export const acceptedOf = ({ events }: Turn): { text: string; tokens: number }[] =>
  events.flatMap((event) => {
    const taken = event.type === "round" ? event.candidates[event.winner] : undefined;
    return taken ? [{ text: taken.text, tokens: taken.tokens }] : [];
  });

/** A question with its attachment. */
export interface Asking {
  question: string;
  attached?: Attachment | undefined;
  instructions?: string | undefined;
}

/** The message that the members read: the question, after the text of an attached file. */
export function asked({ question, attached }: Asking): string {
  return attached ? `${attached.name}:\n"""\n${attached.text}\n"""\n\n${question}` : question;
}

/** All that the members read for a turn, after the messages of `earlier` ones. */
export function messagesOf(turn: Asking, earlier: readonly Message[] = []): Message[] {
  const { instructions } = turn;
  const system = { role: "system", content: instructions ?? "" } as const;
  return [
    ...(instructions === undefined ? [] : [system]),
    ...earlier,
    { role: "user", content: asked(turn) },
  ];
}

/** At most `length` units of a text, which never end inside a surrogate pair. */
export const beginning = (text: string, length: number): string =>
  text.slice(0, length).replace(/[\ud800-\udbff]$/, "");

/** First line of a question, cut to a title's length. */
export function titleOf(question: string): string {
  const [line = ""] = question.trim().split("\n", 1);
  return line.length > 60 ? `${beginning(line, 59).trimEnd()}…` : line;
}

/** The order of turns: by time, and by id where two tabs asked in the same millisecond. */
export function compareTurns(
  a: Pick<KeptTurn, "at" | "id">,
  b: Pick<KeptTurn, "at" | "id">,
): number {
  return a.at - b.at || (a.id < b.id ? -1 : Number(a.id > b.id));
}

/** Whether a text contains every word of a search, in either case. */
export function hasWords(text: string, words: string): boolean {
  const all = text.toLocaleLowerCase();
  return words
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/** Whether a conversation contains every word of a search, in its title, questions or answers. */
export function matches(words: string, { title }: { title: string }, turns: Turn[]): boolean {
  const texts = [title, ...turns.flatMap(({ question, answer }) => [question, answer])];
  return hasWords(texts.join("\n"), words);
}
