/**
 * Formulas in Markdown, as an extension of its parser: `$…$` and `\(…\)` in a line, `$$…$$`
 * and `\[…\]` on their own. Amounts of money, shell variables and unclosed marks stay text.
 */
import type { BlockContext, InlineContext, Line, MarkdownConfig } from "@lezer/markdown";
import type { Formula } from "./show-formula.ts";

/**
 * Most characters of a formula. Longer ones stay text: no formula is that long, and none may take
 * long to typeset.
 */
const mostCharacters = 2000;

const marks = [
  ["$$", "$$"],
  ["\\(", "\\)"],
  ["\\[", "\\]"],
] as const;
const dollar = 36;
const backslash = 92;

export const formulas: MarkdownConfig = {
  defineNodes: [
    ...["Formula", "FormulaLine"],
    ...["FormulaBlock", "FormulaText"].map((name) => ({ name, block: true })),
  ],
  parseInline: [{ name: "Formula", parse: inline, before: "Escape" }],
  parseBlock: [
    {
      name: "FormulaBlock",
      before: "IndentedCode",
      parse: block,
      // Models often leave no empty line before a formula.
      endLeaf: (_, line) => opening(line) !== undefined,
    },
  ],
};

/** A formula, from its source with the marks. */
export function formulaOf(whole: string): Formula {
  const source = whole.trimEnd();
  const display = /^(?:\$\$|\\\[)/.test(source);
  const marks = display || source.startsWith("\\") ? 2 : 1;
  return { source, display, tex: source.slice(marks, -marks).trim() };
}

function inline(cx: InlineContext, next: number, at: number): number {
  if (next !== dollar && next !== backslash) return -1;
  const text = cx.slice(at, Math.min(cx.end, at + mostCharacters));
  const length = formulaAt(text, at > cx.offset ? cx.slice(at - 1, at) : "");
  return length === undefined ? -1 : cx.addElement(cx.elt("Formula", at, at + length));
}

/** Length of the formula that a text begins with, if any; `before`: the character before it. */
export function formulaAt(text: string, before = ""): number | undefined {
  for (const [open, close] of marks) {
    if (!text.startsWith(open)) continue;
    const end = text.indexOf(close, open.length);
    const isEmpty = text.slice(open.length, end).trim() === "";
    return end < 0 || isEmpty ? undefined : end + close.length;
  }
  if (/[\w$\\]/.test(before)) return undefined;
  // Single dollars: no white space follows the opening dollar or precedes the closing one, and no
  // word character or dollar follows the closing one.
  const found = /^\$(?![\s$])((?:\\[\s\S]|[^\\$])*?)(?<!\s)\$(?![\w$])/.exec(text);
  if (!found || isMoney(found[1] ?? "")) return undefined;
  return found[0].length;
}

/**
 * Whether it is an amount of money, such as `5 and 10` of `between $5 and 10$`: a number, then
 * words.
 */
const isMoney = (tex: string): boolean => /^[\d.,]+(?:\s*[-–—]\s*)?\s+[^\s=+*/^_<>\\|-]/.test(tex);

/** The closing mark of a formula that a line begins, if it begins one. */
function opening(line: Line): "$$" | "\\]" | undefined {
  const text = line.text.slice(line.pos);
  if (/^\$\$(?!\$)/.test(text) && !/^\$\$.*\$\$\s*\S/.test(text)) return "$$";
  return text.startsWith("\\[") && !/^\\\[.*\\\]\s*\S/.test(text) ? "\\]" : undefined;
}

/** Counts containers that a line continues, such as lists; public only in the parser's sources. */
type Nested = Line & { depth: number };

/**
 * A formula over lines, in which dashes and signs begin no list. One that isn't closed before an
 * empty line or the end is text: perhaps it is still being written.
 */
function block(cx: BlockContext, line: Line): boolean {
  const end = opening(line);
  if (!end) return false;
  const from = cx.lineStart + line.pos;
  const { depth } = line as Nested;
  const lines = [cx.elt("FormulaLine", from, cx.lineStart + line.text.length)];
  let rest = line.text.slice(line.pos + 2);
  let more = true;
  while (!rest.includes(end)) {
    more = cx.nextLine();
    rest = line.text.slice(line.basePos);
    if (!more || (line as Nested).depth < depth || rest.trim() === "") break;
    lines.push(cx.elt("FormulaLine", cx.lineStart + line.basePos, cx.lineStart + line.text.length));
  }
  const to = lines.at(-1)?.to ?? from;
  const isClosed = rest.trimEnd().endsWith(end) && to - from <= mostCharacters;
  if (more && rest.includes(end)) cx.nextLine();
  cx.addElement(cx.elt(isClosed ? "FormulaBlock" : "FormulaText", from, to, lines));
  return true;
}
