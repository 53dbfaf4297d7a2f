/**
 * Paints what a browser draws of a formula beside its text: bars of fractions, roots, and signs
 * that are stretched to the height or width of what they enclose.
 */

/** Letters of a formula as the browser writes single ones: in italics (MathML Core, 5.1). */
function italic(letter: string): string {
  const code = letter.codePointAt(0) ?? 0;
  if (letter === "h") return "ℎ"; // Its place in the block is empty.
  const place = (first: string, target: number): string =>
    String.fromCodePoint(target + code - first.codePointAt(0)!);
  if (/^[A-Z]$/.test(letter)) return place("A", 0x1d434);
  if (/^[a-z]$/.test(letter)) return place("a", 0x1d44e);
  if (/^[Α-ΡΣ-Ω]$/u.test(letter)) return place("Α", 0x1d6e2);
  if (/^[α-ω]$/u.test(letter)) return place("α", 0x1d6fc);
  return letter;
}

/** Text of an element of a formula as it is written: italic if it is a single letter. */
export function written(element: Element, text: string): string {
  const isItalic = element.localName === "mi" && element.getAttribute("mathvariant") !== "normal";
  return isItalic && [...(element.textContent ?? "").trim()].length === 1 ? italic(text) : text;
}

/**
 * Paints a sign whose place is not that of a line: its ink fills the place if the browser has
 * stretched it, or is in the middle of it. Returns whether it did; the font and colour are set.
 */
export function paintSign(context: CanvasRenderingContext2D, sign: Element): boolean {
  if (sign.localName !== "mo") return false;
  const text = (sign.textContent ?? "").trim();
  const { left, top, width, height } = sign.getBoundingClientRect();
  const ink = context.measureText(text);
  const [inkWidth, inkHeight] = [
    ink.actualBoundingBoxLeft + ink.actualBoundingBoxRight,
    ink.actualBoundingBoxAscent + ink.actualBoundingBoxDescent,
  ];
  const fontSize = Number.parseFloat(getComputedStyle(sign).fontSize);
  if (text === "" || inkWidth === 0 || inkHeight === 0) return false;
  const isHigh = height > 1.5 * fontSize && height > 1.1 * inkHeight;
  const isWide = width > 1.5 * fontSize && width > 1.5 * inkWidth;
  const line = ink.fontBoundingBoxAscent + ink.fontBoundingBoxDescent;
  if (!isHigh && !isWide && Math.abs(height - line) < 1.5) return false;
  // The room beside it stays as it is.
  const higher = isHigh ? height / inkHeight : 1;
  const wide = isWide ? width : inkWidth * Math.min(1.6, higher);
  context.save();
  context.translate(left + (width - wide) / 2, isHigh ? top : top + (height - inkHeight) / 2);
  context.scale(wide / inkWidth, higher);
  context.fillText(text, ink.actualBoundingBoxLeft, ink.actualBoundingBoxAscent);
  context.restore();
  return true;
}

/** Paints the bars and roots of a formula. */
export function paintLines(context: CanvasRenderingContext2D, math: Element): void {
  for (const part of math.querySelectorAll("mfrac, msqrt, mroot")) {
    const style = getComputedStyle(part);
    context.strokeStyle = style.color;
    context.lineWidth = Math.max(1, Number.parseFloat(style.fontSize) / 18);
    context.setLineDash([]);
    context.beginPath();
    if (part.localName === "mfrac") bar(context, part);
    else root(context, part);
    context.stroke();
  }
}

function bar(context: CanvasRenderingContext2D, fraction: Element): void {
  if (/^0(\D|$)/.test(fraction.getAttribute("linethickness") ?? "")) return;
  const [above, below] = [...fraction.children].map((part) => part.getBoundingClientRect());
  if (!above || !below) return;
  const y = (above.bottom + below.top) / 2;
  const left = Math.min(above.left, below.left);
  context.moveTo(left, y);
  context.lineTo(Math.max(above.right, below.right), y);
}

function root(context: CanvasRenderingContext2D, radical: Element): void {
  const { top, right, bottom, left } = radical.getBoundingClientRect();
  const [first, index] = [...radical.children].map((part) => part.getBoundingClientRect());
  if (!first) return;
  const isIndexed = radical.localName === "mroot" && index !== undefined;
  const from = isIndexed ? Math.max(left, index.right - (first.left - left) / 3) : left;
  const wide = first.left - from;
  const up = Math.min(first.top, top + context.lineWidth);
  const height = bottom - up;
  context.moveTo(from + 0.08 * wide, bottom - 0.42 * height);
  context.lineTo(from + 0.3 * wide, bottom - 0.5 * height);
  context.lineTo(from + 0.58 * wide, bottom - context.lineWidth);
  context.lineTo(first.left - 0.06 * wide, up);
  context.lineTo(right, up);
}
