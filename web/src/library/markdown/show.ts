/**
 * Shows Markdown in a host and credits each part of it to a segment. Elements that stay the same
 * stay in the document while an answer grows: a screen reader hears only what is new, and a
 * selection survives. No markup is ever parsed as HTML.
 */
import { isExact, parseMarkdown, type Branch, type Part, type Text } from "./parse.ts";
import { showFormula, type Formula } from "./show-formula.ts";

/** Text of one round, which continues the text of the rounds before. */
export interface Written {
  text: string;
  /** Attributes of elements with its text; `class` is required. */
  attributes: Record<string, string>;
}

interface Tree {
  tag: string;
  attributes: Record<string, string>;
  children: (Tree | string)[];
  /** Shown in place of the children. */
  formula?: Formula;
}

export interface ShowOptions {
  /** Level of the topmost headings. */
  top?: 2 | 3;
  /** Adds a button to each block of code, which {@link copiedCode} recognises. */
  copy?: boolean;
}

/** Shows the joined texts in `host`, whose other content is replaced. */
export function showMarkdown(
  host: Element,
  written: readonly Written[],
  { top = 3, copy = true }: ShowOptions = {},
): void {
  const source = written.map(({ text }) => text).join("");
  patch(
    host,
    parseMarkdown(source, top).map((part) => tree(part, new Credits(written), copy)),
  );
}

/** Text of the code whose button was pressed; undefined for another target. */
export function copiedCode(target: EventTarget | null): string | undefined {
  const button = target instanceof Element ? target.closest("button.copy-code") : null;
  return button?.closest(".code")?.querySelector("code")?.textContent ?? undefined;
}

/** Finds the segment of each part of the source. */
class Credits {
  readonly #ends: number[] = [];
  readonly #written: readonly Written[];

  constructor(written: readonly Written[]) {
    this.#written = written;
    let end = 0;
    for (const { text } of written) this.#ends.push((end += text.length));
  }

  /** Parts of a text, each with its segment. */
  split(part: Text): { text: string; written: Written | undefined }[] {
    const { text, from, to } = part;
    const first = this.#ends.findIndex((end) => end > from);
    // A single character of the text may be several of the source.
    if (!isExact(part) || first < 0)
      return [{ text, written: this.#written[first < 0 ? this.#ends.length - 1 : first] }];
    const parts: { text: string; written: Written | undefined }[] = [];
    for (let at = from, segment = first; at < to; segment++) {
      const end = Math.min(to, this.#ends[segment] ?? to);
      if (end > at)
        parts.push({ text: text.slice(at - from, end - from), written: this.#written[segment] });
      at = end;
    }
    return parts;
  }
}

function tree(part: Part, credits: Credits, copy: boolean): Tree {
  if ("text" in part) throw new Error("A block is no text.");
  const { tag, attributes = {}, children, formula } = part;
  if (formula) return { tag, attributes: ofWriter(part, credits), children: [], formula };
  const inner = children.flatMap((child): (Tree | string)[] =>
    "text" in child ? words(child, credits) : [tree(child, credits, copy)],
  );
  if (attributes["class"] === "code") inner.unshift(codeHead(attributes["data-language"], copy));
  // Long lines scroll by themselves, also by keyboard.
  const more = tag === "pre" ? { tabindex: "0", role: "group", "aria-label": "Code" } : undefined;
  return { tag, attributes: { ...attributes, ...more }, children: inner };
}

/** Attributes of a formula, which belongs to the segment that begins it. */
function ofWriter({ attributes = {}, children }: Branch, credits: Credits): Record<string, string> {
  const [first] = children;
  const [begun] = first && "text" in first ? credits.split(first) : [];
  const writer = begun?.written?.attributes ?? {};
  return {
    ...writer,
    ...attributes,
    class: [attributes["class"], writer["class"]].filter(Boolean).join(" "),
  };
}

function words(part: Text, credits: Credits): (Tree | string)[] {
  return credits.split(part).map(({ text, written }) => {
    const kind = part.kind ? `code-${part.kind}` : "";
    if (!written) return text;
    const names = [written.attributes["class"], kind].filter(Boolean).join(" ");
    return { tag: "span", attributes: { ...written.attributes, class: names }, children: [text] };
  });
}

function codeHead(language: string | undefined, copy: boolean): Tree {
  const label = { tag: "span", attributes: {}, children: [language ?? "code"] };
  const button = {
    tag: "button",
    attributes: { type: "button", class: "copy-code", "aria-label": "Copy the code" },
    children: ["Copy"],
  };
  return {
    tag: "div",
    attributes: { class: "code-head" },
    children: copy ? [label, button] : [label],
  };
}

/** Makes the children of `parent` the given ones, and changes no more than needed. */
function patch(parent: Element, children: readonly (Tree | string)[]): void {
  children.forEach((child, place) => {
    const present = parent.childNodes[place];
    if (typeof child === "string") {
      if (present?.nodeType !== 3) put(parent, document.createTextNode(child), present);
      else if (present.nodeValue !== child) present.nodeValue = child;
      return;
    }
    const same =
      present?.nodeType === 1 && (present as Element).localName === child.tag
        ? (present as Element)
        : undefined;
    const element = same ?? document.createElement(child.tag);
    for (const [name, value] of Object.entries(child.attributes))
      if (element.getAttribute(name) !== value) element.setAttribute(name, value);
    for (const name of same ? [...same.getAttributeNames()] : [])
      if (!(name in child.attributes) && !kept.has(name)) element.removeAttribute(name);
    if (child.formula) showFormula(element, child.formula);
    else patch(element, child.children);
    if (!same) put(parent, element, present);
  });
  while (parent.childNodes.length > children.length) parent.lastChild!.remove();
}

/** Attributes that others set on shown elements. */
const kept = new Set(["tabindex", "data-open"]);

function put(parent: Element, node: Node, instead: ChildNode | undefined): void {
  if (instead) instead.replaceWith(node);
  else parent.append(node);
}
