/**
 * A picture of a question and its answer. A copy of both is laid out as wide as the picture, and
 * painted on a canvas as the browser placed it: each stretch of a line, tint, underline and border.
 * Loaded when it is first asked for.
 */
import { el } from "./dom.ts";
import { paintLines, paintSign, written } from "./formula-picture.ts";
import { stretches, type Placed } from "./stretches.ts";

/** Sizes in CSS pixels. */
const room = 640;
const margin = 40;
/** Browsers' canvases have at least so many pixels in a direction. */
const mostPixels = 16_000;

const lineStyles: Record<string, number[]> = { dashed: [6, 4], dotted: [1.5, 3] };
const sides = ["Top", "Right", "Bottom", "Left"] as const;

/** Draws the exchange; rejects if this browser can't. */
export async function picture(exchange: Element): Promise<Blob> {
  await document.fonts.ready;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser draws no pictures.");
  const sheet = sheetOf(exchange);
  document.body.append(sheet);
  try {
    draw(sheet, context);
  } finally {
    sheet.remove();
  }
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("It is too large."))),
      "image/png",
    ),
  );
}

/** A copy of the exchange's texts, with everything that is drawn as text or borders. */
function sheetOf(exchange: Element): HTMLElement {
  const sheet = el("div", { inert: true, "aria-hidden": "true" });
  set(sheet, {
    position: "fixed",
    inset: "0 auto auto 0",
    width: `${room}px`,
    visibility: "hidden",
    color: "var(--ink)",
    "forced-color-adjust": "none",
  });
  const sized: [string, Record<string, string>][] = [
    [".question", { font: "600 1.125rem/1.45 var(--sans)" }],
    [".answer", { "font-size": "1.3125rem", "margin-top": "1rem" }],
    [".legend", { "margin-top": "1.6rem" }],
  ];
  for (const [selector, styles] of sized) {
    const part = exchange.querySelector(selector)!.cloneNode(true) as HTMLElement;
    part.classList.remove("hidden");
    part.dir = "auto";
    set(part, { ...styles, "max-width": "none", "max-height": "none", "margin-inline": "0" });
    sheet.append(part);
  }
  sheet.append(el("p", { class: "hint" }, "Conclave: several small models, one answer"));
  set(sheet.lastElementChild!, { "margin-top": ".8rem" });
  for (const button of sheet.querySelectorAll("button")) button.remove();
  for (const block of sheet.querySelectorAll(".wide, pre")) set(block, { overflow: "visible" });
  for (const code of sheet.querySelectorAll("pre"))
    set(code, { "white-space": "pre-wrap", "overflow-wrap": "anywhere" });
  // The hidden source of a typeset formula, which copying takes, is not drawn. A formula that is
  // not typeset has its source as plain text.
  for (const source of sheet.querySelectorAll(".formula-source")) source.remove();
  for (const formula of sheet.querySelectorAll(".formula")) set(formula, { overflow: "visible" });
  for (const item of sheet.querySelectorAll<HTMLElement>("li")) mark(item);
  return sheet;
}

/** Puts the mark of an item beside it as text. */
function mark(item: HTMLElement): void {
  const list = item.parentElement!;
  const number = Number(list.getAttribute("start") ?? 1) + [...list.children].indexOf(item);
  const text = el("span", {}, list.matches("ol") ? `${number}.` : "•");
  set(item, { "list-style": "none", position: "relative" });
  set(text, {
    position: "absolute",
    "inset-inline-end": "100%",
    "margin-inline-end": ".35em",
    "white-space": "nowrap",
    color: "var(--soft)",
  });
  item.prepend(text);
}

/** Sets an element's own style, which the page's policy allows from scripts only. */
function set(element: Element, styles: Record<string, string>): void {
  for (const [name, value] of Object.entries(styles))
    (element as HTMLElement).style.setProperty(name, value);
}

function draw(sheet: HTMLElement, context: CanvasRenderingContext2D): void {
  const texts = textsOf(sheet);
  const box = sheet.getBoundingClientRect();
  // A table may be wider than its place.
  const left = Math.min(box.left, ...texts.map(({ rect }) => rect.left));
  const right = Math.max(box.right, ...texts.map(({ rect }) => rect.right));
  const [width, height] = [right - left + 2 * margin, box.height + 2 * margin];
  const scale = Math.min(2, mostPixels / height, mostPixels / width);
  context.canvas.width = Math.ceil(width * scale);
  context.canvas.height = Math.ceil(height * scale);
  context.scale(scale, scale);
  context.fillStyle = getComputedStyle(sheet).getPropertyValue("--paper");
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  context.translate(margin - left, margin - box.top);
  for (const element of sheet.querySelectorAll(":not(.segment, .name)")) paintBox(context, element);
  for (const element of sheet.querySelectorAll(".segment, .name")) paintVoice(context, element);
  for (const math of sheet.querySelectorAll("math")) paintLines(context, math);
  context.textAlign = "left";
  for (const { text, rect, style, element } of texts) {
    context.fillStyle = style.color;
    context.direction = style.direction as CanvasDirection;
    const line = baseline(context, style, rect);
    if (!paintSign(context, element)) context.fillText(written(element, text), rect.left, line);
  }
}

type Text = Placed & { style: CSSStyleDeclaration; element: Element };

/** All stretches of text, each with the style of its element. */
function textsOf(sheet: HTMLElement): Text[] {
  const walker = document.createTreeWalker(sheet, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) {
    const node = walker.currentNode as globalThis.Text;
    const element = node.parentElement!;
    const style = getComputedStyle(element);
    const placed = stretches(charactersOf(node));
    found.push(...placed.map((each) => ({ ...each, style, element })));
  }
  return found;
}

/** Characters of a text that take up room, at their places. */
function charactersOf(node: globalThis.Text): Placed[] {
  const range = document.createRange();
  let at = 0;
  return [...node.data].flatMap((text) => {
    range.setStart(node, at);
    range.setEnd(node, (at += text.length));
    const rects = [...range.getClientRects()];
    const rect = rects.find(({ width }) => width > 0) ?? rects[0];
    return rect && (rect.width > 0 || text.trim() !== "") ? [{ text, rect }] : [];
  });
}

/** Sets the font; returns where it has its line within a rectangle as high as a line. */
function baseline(
  context: CanvasRenderingContext2D,
  { fontStyle, fontWeight, fontSize, fontFamily }: CSSStyleDeclaration,
  { top, height }: Pick<DOMRect, "top" | "height">,
): number {
  context.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = context.measureText("x");
  return top + (height + up - down) / 2;
}

/** Paints an element's ground and borders. */
function paintBox(context: CanvasRenderingContext2D, element: Element): void {
  const style = getComputedStyle(element);
  const widths = sides.map((side) => Number.parseFloat(style[`border${side}Width`]));
  for (const { left, top, right, bottom, width, height } of element.getClientRects()) {
    context.beginPath();
    context.roundRect(left, top, width, height, Number.parseFloat(style.borderRadius) || 0);
    context.fillStyle = style.backgroundColor;
    context.fill();
    context.setLineDash([]);
    if (widths.every((each) => each > 0)) {
      context.strokeStyle = style.borderTopColor;
      context.lineWidth = widths[0]!;
      context.stroke();
      continue;
    }
    const lines = [
      [left, top, right, top],
      [right, top, right, bottom],
      [left, bottom, right, bottom],
      [left, top, left, bottom],
    ] as const;
    sides.forEach((side, place) => {
      const wide = widths[place]!;
      if (wide === 0) return;
      context.strokeStyle = style[`border${side}Color`];
      context.lineWidth = wide;
      const inward = place === 0 || place === 3 ? wide / 2 : -wide / 2;
      const [x, y] = place % 2 === 0 ? [0, inward] : [inward, 0];
      const [fromX, fromY, toX, toY] = lines[place]!;
      context.beginPath();
      context.moveTo(fromX + x, fromY + y);
      context.lineTo(toX + x, toY + y);
      context.stroke();
    });
  }
}

/** Paints the tint and underline of a segment, or the underline of a name. */
function paintVoice(context: CanvasRenderingContext2D, element: Element): void {
  if (element.matches(".striped .segment")) return;
  const style = getComputedStyle(element);
  const line = style.getPropertyValue("--line-style").trim();
  context.fillStyle = context.strokeStyle = style.getPropertyValue("--voice").trim();
  context.lineWidth = 1.5;
  context.setLineDash(lineStyles[line] ?? []);
  for (const rect of element.getClientRects()) {
    const { left, right, top, bottom, width, height } = rect;
    if (width === 0) continue;
    context.globalAlpha = 0.09;
    if (element.matches(".segment")) context.fillRect(left, top, width, height);
    context.globalAlpha = 1;
    // A formula on its own has no line.
    const under = element.matches(".formula.display")
      ? bottom - 2
      : baseline(context, style, rect) + 0.26 * Number.parseFloat(style.fontSize);
    for (const y of line === "double" ? [under - 1, under + 2] : [under]) {
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(right, y);
      context.stroke();
    }
  }
}
