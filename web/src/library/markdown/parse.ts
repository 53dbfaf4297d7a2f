/**
 * Markdown of an answer as a tree for display (CommonMark with GitHub's tables, lists of tasks and
 * strikethrough). Text knows its place in the source, so that each part can be credited to its
 * writer. Raw HTML stays text, images become links, and only links to the web and to mail remain.
 */
import { GFM, parser } from "@lezer/markdown";
import { colourCode, type CodeKind } from "./code.ts";
import { formulaOf, formulas } from "./formulas.ts";
import type { Formula } from "./show-formula.ts";

const markdown = parser.configure([GFM, formulas]);
type SyntaxNode = ReturnType<typeof markdown.parse>["topNode"];

/** Text that the source has at `from` to `to`; elsewhere shorter: an entity, an escape. */
export interface Text {
  text: string;
  from: number;
  to: number;
  kind?: CodeKind;
}

export interface Branch {
  tag: Tag;
  attributes?: Record<string, string>;
  children: Part[];
  /** Shown in place of the children, which are its source. */
  formula?: Formula;
}

export type Part = Text | Branch;

type Tag =
  | ("p" | "ul" | "ol" | "li" | "blockquote" | "hr" | "em" | "strong" | "del" | "code" | "a")
  | ("table" | "thead" | "tbody" | "tr" | "th" | "td" | "pre" | "div" | "span" | Heading);
type Heading = "h2" | "h3" | "h4" | "h5" | "h6";

/** Syntax without text of its own. */
const marks = /^(?:Emphasis|Code|Link|Header|Quote|List|Strikethrough)Mark$|^TableDelimiter$/;
/** Block that keeps its text as it is. */
const literal = /^(?:HTML|Comment|ProcessingInstruction)Block$|^LinkReference$/;
const inlines: Record<string, Tag> = {
  Emphasis: "em",
  StrongEmphasis: "strong",
  Strikethrough: "del",
  InlineCode: "code",
};
const entities: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  times: "×",
  deg: "°",
  rarr: "→",
};

/** Parses `source`; its topmost headings become `h{top}`. */
export function parseMarkdown(source: string, top: 2 | 3 = 3): Part[] {
  const parts = new Converter(source, top).blocks(markdown.parse(source).topNode);
  // Each block has the direction of its text; inner ones would hide theirs from a list.
  for (const part of parts)
    if ("tag" in part) part.attributes = { dir: "auto", ...part.attributes };
  return parts;
}

/** Address of a link that may be shown; undefined for any other scheme. */
export function safeAddress(address: string): string | undefined {
  const url = URL.parse(/^www\./i.test(address) ? `https://${address}` : address);
  return url && ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : undefined;
}

class Converter {
  readonly #source: string;
  /** Level of the last heading, as shown: none may skip a level. */
  #level: number;
  readonly #top: number;

  constructor(source: string, top: number) {
    this.#source = source;
    this.#top = top;
    this.#level = top - 1;
  }

  blocks(parent: SyntaxNode): Part[] {
    return children(parent).flatMap((node) => this.#block(node));
  }

  #block(node: SyntaxNode): Part[] {
    const { name } = node;
    const heading = /^(?:ATX|Setext)Heading(\d)$/.exec(name);
    if (heading) return [this.#heading(node, Number(heading[1]))];
    if (marks.test(name)) return [];
    if (literal.test(name))
      return [block("p", [{ text: this.#text(node), from: node.from, to: node.to }])];
    switch (name) {
      case "BulletList":
        return [block("ul", this.blocks(node))];
      case "OrderedList":
        return [block("ol", this.blocks(node), this.#start(node))];
      case "ListItem":
        return [block("li", this.blocks(node))];
      case "Blockquote":
        return [block("blockquote", this.blocks(node))];
      case "HorizontalRule":
        return [{ tag: "hr", children: [] }];
      case "FencedCode":
      case "CodeBlock":
        return [this.#code(node)];
      case "Table":
        return [this.#table(node)];
      case "FormulaBlock":
        return [block("p", [this.#formula(node)])];
      case "FormulaText":
        return [block("p", this.#lines(node).flatMap(lineAfterLine))];
      default:
        return [block("p", this.#inline(node))];
    }
  }

  /** Lines of a formula, without the marks of its list or quote. */
  #lines(node: SyntaxNode): Text[] {
    const lines = node.getChildren("FormulaLine");
    return (lines.length > 0 ? lines : [node]).map((line) => ({
      text: this.#text(line),
      from: line.from,
      to: line.to,
    }));
  }

  #formula(node: SyntaxNode): Branch {
    const parts = this.#lines(node);
    const formula = formulaOf(parts.map(({ text }) => text).join("\n"));
    const attributes = { class: formula.display ? "formula display" : "formula" };
    return { tag: "span", attributes, children: parts, formula };
  }

  #heading(node: SyntaxNode, level: number): Part {
    this.#level = Math.min(level - 1 + this.#top, this.#level + 1, 6);
    return block(`h${this.#level}` as Heading, this.#inline(node));
  }

  /** Number of a list's first item, unless it is 1. */
  #start(list: SyntaxNode): Record<string, string> {
    const mark = list.firstChild?.getChild("ListMark");
    const start = mark ? Number.parseInt(this.#text(mark), 10) : 1;
    return start === 1 ? {} : { start: String(start) };
  }

  #code(node: SyntaxNode): Part {
    const info = node.getChild("CodeInfo");
    const language = info ? (/^[\w+#.-]+/.exec(this.#text(info))?.[0] ?? "") : "";
    const parts = node.getChildren("CodeText").flatMap(({ from, to }) => {
      let at = from;
      return colourCode(this.#source.slice(from, to), language).map(({ text, kind }): Text => {
        const part = { text, from: at, to: at + text.length, ...(kind && { kind }) };
        at += text.length;
        return part;
      });
    });
    const code: Branch = { tag: "code", children: parts };
    const attributes = {
      class: "code",
      dir: "ltr",
      ...(language && { "data-language": language }),
    };
    return { tag: "div", attributes, children: [{ tag: "pre", children: [code] }] };
  }

  #table(table: SyntaxNode): Part {
    const head = table.getChild("TableHeader");
    const aligned = this.#alignment(table);
    const row = (node: SyntaxNode, tag: "th" | "td"): Part => ({
      tag: "tr",
      children: this.#cells(node).map((cell, column) => ({
        tag,
        attributes: {
          ...(tag === "th" && { scope: "col" }),
          ...(aligned[column] && { "data-align": aligned[column] }),
        },
        children: cell,
      })),
    });
    const body: Part[] = table.getChildren("TableRow").map((node) => row(node, "td"));
    const parts: Part[] = [];
    if (head) parts.push({ tag: "thead", children: [row(head, "th")] });
    if (body.length > 0) parts.push({ tag: "tbody", children: body });
    // Wide tables scroll by themselves, also by keyboard.
    const attributes = { class: "wide", tabindex: "0", role: "group", "aria-label": "Table" };
    return { tag: "div", attributes, children: [{ tag: "table", children: parts }] };
  }

  /** Cells of a row; an empty one has no node of its own. */
  #cells(row: SyntaxNode): Part[][] {
    const cells: Part[][] = [];
    let open = !this.#text(row).startsWith("|");
    let cell: Part[] = [];
    for (const node of children(row)) {
      if (node.name !== "TableDelimiter") {
        cell = this.#inline(node);
        continue;
      }
      if (open) cells.push(cell);
      open = true;
      cell = [];
    }
    if (cell.length > 0) cells.push(cell);
    return cells;
  }

  #alignment(table: SyntaxNode): ("center" | "right" | undefined)[] {
    const rule = table.getChild("TableDelimiter");
    if (!rule) return [];
    const columns = this.#text(rule)
      .replace(/^\s*\||\|\s*$/g, "")
      .split("|");
    return columns.map((column) => {
      const [left, right] = [/^\s*:/.test(column), /:\s*$/.test(column)];
      return right ? (left ? "center" : "right") : undefined;
    });
  }

  /** Text and inline elements of a node, without white space at its ends. */
  #inline(node: SyntaxNode): Part[] {
    const parts = this.#spans(node);
    const [first, last] = [parts[0], parts.at(-1)];
    if (first && "text" in first && isExact(first)) {
      const cut = first.text.length - first.text.trimStart().length;
      Object.assign(first, { text: first.text.slice(cut), from: first.from + cut });
    }
    if (last && "text" in last && isExact(last)) {
      const text = last.text.trimEnd();
      Object.assign(last, { text, to: last.from + text.length });
    }
    return parts.filter((part) => !("text" in part) || part.text !== "");
  }

  #spans(node: SyntaxNode): Part[] {
    const parts: Part[] = [];
    let at = node.from;
    const upTo = (end: number): void => {
      if (end > at) parts.push({ text: this.#source.slice(at, end), from: at, to: end });
    };
    for (const child of children(node)) {
      upTo(child.from);
      parts.push(...this.#span(child));
      at = child.to;
    }
    upTo(node.to);
    return parts;
  }

  #span(node: SyntaxNode): Part[] {
    const { name, from, to } = node;
    if (marks.test(name)) return [];
    const tag = inlines[name];
    if (tag) return [{ tag, children: this.#spans(node) }];
    const text = this.#text(node);
    switch (name) {
      case "Link":
      case "Image":
      case "Autolink":
      case "URL":
        return this.#link(node);
      case "Escape":
        return [{ text: text.slice(1), from, to }];
      case "Entity":
        return [{ text: decoded(text), from, to }];
      case "HardBreak":
        return [{ text: "\n", from, to }];
      case "Formula":
        return [this.#formula(node)];
      case "TaskMarker":
        return [{ text: /x/i.test(text) ? "☑" : "☐", from, to }];
      case "HTMLTag":
        return [{ text: /^<br\s*\/?>$/i.test(text) ? "\n" : text, from, to }];
      default:
        return node.firstChild ? this.#spans(node) : [{ text, from, to }];
    }
  }

  /** A link, or its text if it leads nowhere that is allowed. */
  #link(node: SyntaxNode): Part[] {
    const { from, to } = node;
    const target = node.name === "URL" ? node : node.getChild("URL");
    // Brackets without an address are just brackets.
    if (!target) return [{ text: this.#text(node), from, to }];
    const bare = node.name === "URL" || node.name === "Autolink";
    const end = node.getChildren("LinkMark")[1];
    const label: Part[] = bare
      ? [{ text: this.#text(target), from: target.from, to: target.to }]
      : this.#label(node, end?.from ?? target.from);
    const address = this.#text(target).replace(/^<|>$/g, "");
    const mail = bare && /^[^\s:/]+@[^\s/]+$/.test(address) ? `mailto:${address}` : address;
    const href = safeAddress(mail);
    if (href === undefined) return label;
    const attributes = { href, target: "_blank", rel: "noopener noreferrer nofollow", title: href };
    return [{ tag: "a", attributes, children: label }];
  }

  /** Parts of a link before `end`; an image without a description is called so. */
  #label(node: SyntaxNode, end: number): Part[] {
    const [open] = node.getChildren("LinkMark");
    const start = open?.to ?? node.from;
    const parts = this.#spans(node).filter(
      (part) => extent(part)[0] >= start && extent(part)[1] <= end,
    );
    return parts.length > 0 ? parts : [{ text: "image", from: start, to: start }];
  }

  #text({ from, to }: { from: number; to: number }): string {
    return this.#source.slice(from, to);
  }
}

/** Whether a text is as long as in the source. */
export const isExact = ({ text, from, to }: Text): boolean => text.length === to - from;

/** A line, after the end of the one before. */
const lineAfterLine = (line: Text, place: number): Text[] =>
  place === 0 ? [line] : [{ text: "\n", from: line.from - 1, to: line.from }, line];

/** Place of a part in the source. */
function extent(part: Part): [number, number] {
  if ("text" in part) return [part.from, part.to];
  const [first, last] = [part.children[0], part.children.at(-1)];
  return first && last ? [extent(first)[0], extent(last)[1]] : [0, 0];
}

function block(tag: Tag, parts: Part[], attributes: Record<string, string> = {}): Branch {
  return { tag, attributes, children: parts };
}

function children(node: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) found.push(child);
  return found;
}

/** Character of an entity; an unknown one stays as it is. */
function decoded(entity: string): string {
  const number = /^&#(?:x([\da-f]+)|(\d+));$/i.exec(entity);
  if (!number) return entities[entity.slice(1, -1)] ?? entity;
  const code = number[1] ? Number.parseInt(number[1], 16) : Number(number[2]);
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}
