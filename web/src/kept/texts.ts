/**
 * Conversations as files: JSON that holds everything, and Markdown to read, which can come back.
 */
import { newId } from "./new-id.ts";
import {
  beginning,
  parseExported,
  plainTurn,
  titleOf,
  type Exported,
  type Turn,
} from "./records.ts";
import type { WholeConversation } from "./keeper.ts";

/** Lines that separate the parts of a conversation in Markdown, invisible where it is rendered. */
const head = "<!-- conclave conversation -->";
const part = (what: "question" | "answer"): string => `<!-- conclave ${what} -->`;
/** Line with the name of a question's file, which does not come back. */
const attachedLine = (name: string): string =>
  `<!-- conclave attached: ${name.replace(/[\r\n]+|--!?>/g, " ")} -->`;
/**
 * Pattern of a line that would be read as a separator; such a line of a text gets a backslash
 * before it.
 */
const separator = /^(\\*)(<!-- conclave (?:conversation|question|answer|attached: [^\n]*) -->)$/gm;

/** Whether a question is short enough for a heading, as it is. */
const isHeading = (question: string): boolean => question !== "" && question === titleOf(question);

export function toJson({ conversation, turns }: WholeConversation): string {
  const exported: Exported = {
    format: "conclave conversation 1",
    title: conversation.title,
    created: conversation.created,
    turns: turns.map(({ conversation: _, ...turn }) => turn),
  };
  return `${JSON.stringify(exported, null, 1)}\n`;
}

export function toMarkdown({ conversation, turns }: WholeConversation): string {
  const quoted = (text: string): string => text.replace(separator, "\\$1$2");
  const parts = turns.flatMap(({ question, answer, attached }) => [
    part("question"),
    ...(isHeading(question) ? [`## ${quoted(question)}`] : ["## Question", "", quoted(question)]),
    ...(attached ? ["", attachedLine(attached.name)] : []),
    "",
    part("answer"),
    quoted(answer),
    "",
  ]);
  return [head, `# ${conversation.title.replaceAll("\n", " ")}`, "", ...parts].join("\n");
}

/** A conversation from a file of either kind, under new ids. Throws a TypeError with the fault. */
export function fromFile(text: string, now = Date.now()): WholeConversation {
  const { title, created, turns } = text.trimStart().startsWith("{")
    ? fromJson(text)
    : fromMarkdown(text, now);
  if (turns.length === 0) throw new TypeError("it has no questions");
  const id = newId();
  return {
    conversation: { id, title: title || titleOf(turns[0]!.question), created, changed: now },
    turns: turns.map((turn) => ({ ...turn, id: newId(), conversation: id })),
  };
}

function fromJson(text: string): Omit<Exported, "format"> {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw new TypeError("it is no JSON, or was cut short");
  }
  return parseExported(data);
}

function fromMarkdown(text: string, now: number): Omit<Exported, "format"> {
  const lines = text.replaceAll("\r\n", "\n");
  if (!lines.trimStart().startsWith(head))
    throw new TypeError("it is no conversation that this page has exported");
  const plain = (part: string): string =>
    part.replace(separator, (_, marks: string, line: string) => marks.slice(1) + line);
  const [top = "", ...questions] = lines.split(new RegExp(`^${part("question")}\n`, "m"));
  const turns: Turn[] = questions.map((whole, index) => {
    const [asked = "", answer = ""] = whole.split(new RegExp(`^${part("answer")}\n`, "m"));
    const [, heading = "", text = ""] = /^(?:## ([^\n]*)\n\n?)?([\s\S]*)$/.exec(
      asked.replace(/^<!-- conclave attached: [^\n]* -->\n/m, ""),
    )!;
    // Under a heading of its own, a question's text is whole; without a text the heading is it.
    const question = text.replace(/\n+$/, "") || heading;
    return plainTurn(
      plain(question),
      plain(answer.replace(/\n+$/, "")),
      now - questions.length + index,
    );
  });
  return { title: /^# ([^\n]*)$/m.exec(top)?.[1] ?? "", created: now, turns };
}

/** A name for a file with this conversation. */
export function fileName(title: string, ending: "json" | "md"): string {
  // Variation selectors are marks, too, but of emoji.
  const name = title.replace(/[^\p{L}\p{M}\p{N} _-]+|\p{VS}/gu, "").trim();
  return `${beginning(name, 60).trimEnd() || "conversation"}.${ending}`;
}
