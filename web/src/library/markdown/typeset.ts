/**
 * Typesets formulas as MathML, by Temml: a script of its own, fetched for the first formula.
 * Browsers draw MathML and screen readers speak it. The tree that Temml makes is rebuilt with the
 * elements and attributes of MathML alone, so that no formula can link, load or run anything.
 */
import temml from "temml";
import { formulaStyle } from "./formula-style.ts";
import type { Formula } from "./show-formula.ts";

/** Node of Temml's tree; a text has `text`. */
interface Node {
  type?: string;
  text?: string;
  children?: Node[];
  classes?: string[];
  attributes?: Record<string, unknown>;
  style?: Record<string, string>;
}

const elements = new Set(
  (
    "math menclose mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms " +
    "mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover"
  ).split(" "),
);
const attributes = new Set(
  (
    "accent accentunder columnalign columnspan depth dir display displaystyle fence form height " +
    "largeop linethickness lspace mathbackground mathcolor mathvariant maxsize minsize " +
    "movablelimits notation rowspan rspace scriptlevel separator stretchy symmetric voffset width"
  ).split(" "),
);
/** Deepest nesting of braces, and of elements, that is typeset; no readable formula has more. */
const deepest = 60;
const mostElements = 3000;

/** Whether braces nest too deeply: the time for such a formula grows faster than its length. */
function isTooDeep(tex: string): boolean {
  let depth = 0;
  for (const [mark] of tex.matchAll(/[{}]/g)) {
    depth += mark === "{" ? 1 : -1;
    if (depth > deepest) return true;
  }
  return false;
}

/** Puts a formula into `host`; one that can't be typeset stays as its source. */
export function typeset(host: Element, { tex, display, source }: Formula): void {
  let math: Element;
  if (isTooDeep(tex)) return;
  try {
    const tree = temml.__renderToMathMLTree(tex, {
      displayMode: display,
      throwOnError: true,
      trust: false,
      maxExpand: 300,
      // Sizes in em that a formula may name.
      maxSize: [20, 40],
    }) as Node;
    math = built(tree, { left: mostElements }, 0) as Element;
  } catch {
    return; // Its source is there.
  }
  math.setAttribute("alttext", tex);
  const copied = document.createElement("span");
  copied.className = "formula-source";
  copied.hidden = true;
  copied.textContent = source;
  host.replaceChildren(math, copied);
  dress(host.getRootNode());
}

function built(node: Node, count: { left: number }, depth: number): globalThis.Node {
  if (node.text !== undefined) return document.createTextNode(node.text);
  if (depth > deepest || count.left-- === 0) throw new RangeError("the formula is too large");
  const name = node.type ?? "mrow";
  if (!elements.has(name)) throw new TypeError(`<${name}> is no part of a formula`);
  const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  for (const [name, value] of Object.entries(node.attributes ?? {}))
    if (attributes.has(name)) element.setAttribute(name, String(value));
  const classes = (node.classes ?? []).filter(Boolean).join(" ");
  if (classes) element.setAttribute("class", classes);
  // The page's policy forbids the attribute, not the properties.
  const { style } = element as MathMLElement;
  for (const [name, value] of Object.entries(node.style ?? {}))
    style?.setProperty(
      name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
      value,
    );
  for (const child of node.children ?? []) element.append(built(child, count, depth + 1));
  return element;
}

let sheet: CSSStyleSheet | undefined;

/** Adds the style of formulas, and their copying, to the document or to the element's shadow. */
function dress(root: globalThis.Node): void {
  if (!("adoptedStyleSheets" in root)) return;
  if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(formulaStyle);
  const { adoptedStyleSheets: sheets } = root as Document;
  if (sheets.includes(sheet)) return;
  (root as Document).adoptedStyleSheets = [...sheets, sheet];
  root.addEventListener("copy", (event) => copySources(event as ClipboardEvent, root));
}

/** A selection is copied with the sources of its formulas. */
function copySources(event: ClipboardEvent, root: globalThis.Node): void {
  const { getSelection } = root as Partial<Document>;
  const selection = getSelection?.call(root) ?? document.getSelection();
  if (!event.clipboardData || !selection || selection.rangeCount === 0) return;
  const selected = selection.getRangeAt(0).cloneContents();
  const sources = selected.querySelectorAll<HTMLElement>(".formula-source");
  if (sources.length === 0) return;
  for (const math of selected.querySelectorAll("math")) math.remove();
  for (const source of sources) source.hidden = false;
  // Laid out for a moment, so that blocks end lines.
  const copy = document.createElement("div");
  copy.className = "formula-copy";
  copy.append(selected);
  (root instanceof Document ? root.body : root).appendChild(copy);
  event.clipboardData.setData("text/plain", copy.innerText);
  event.clipboardData.setData("text/html", copy.innerHTML);
  event.preventDefault();
  copy.remove();
}
