/**
 * A picture of a question and its answer, drawn on a canvas: the text in its writers' colours, the
 * line that names them. Loaded when it is first asked for.
 */

/** A stretch of text. `line`: style of its underline, as in the style sheet. */
export interface Stretch {
  text: string;
  colour: string;
  line?: string;
}

export interface Picture {
  question: string;
  answer: Stretch[];
  legend: Stretch[];
  paper: string;
  ink: string;
  soft: string;
  serif: string;
  sans: string;
}

/** A word at its place. */
interface Placed extends Stretch {
  x: number;
  y: number;
}

/** Sizes in CSS pixels. */
const width = 720;
const margin = 40;
/** Browsers' canvases have at least so many pixels in a direction. */
const mostPixels = 16_000;

const lineStyles: Record<string, number[]> = { dashed: [6, 4], dotted: [1.5, 3] };

/** Breaks stretches into lines; returns the words at their places, and the end of the last line. */
export function place(
  stretches: readonly Stretch[],
  { top, line, room }: { top: number; line: number; room: number },
  measure: (text: string) => number,
): { words: Placed[]; end: number } {
  const words: Placed[] = [];
  let [x, y] = [0, top + line];
  const next = (): void => {
    [x, y] = [0, y + line];
  };
  for (const stretch of stretches) {
    for (const piece of stretch.text.match(/\n|[^\S\n]+|\S+/g) ?? []) {
      if (piece === "\n") next();
      else if (piece.trim() === "") {
        if (x > 0) words.push({ ...stretch, text: piece, x, y });
        if (x > 0) x += measure(piece);
      } else {
        if (x > 0 && x + measure(piece) > room) next();
        let rest = piece;
        while (rest !== "") {
          // Words longer than a line are cut.
          let part = rest;
          while (part.length > 1 && x + measure(part) > room) part = part.slice(0, -1);
          words.push({ ...stretch, text: part, x, y });
          x += measure(part);
          rest = rest.slice(part.length);
          if (rest !== "") next();
        }
      }
    }
  }
  return { words, end: y };
}

/** Draws it; rejects if this browser can't. */
export async function draw(picture: Picture): Promise<Blob> {
  await document.fonts.ready;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!context) throw new Error("This browser draws no pictures.");
  const parts = [
    {
      font: `600 18px ${picture.sans}`,
      line: 26,
      gap: margin - 8,
      stretches: [{ text: picture.question, colour: picture.ink }],
    },
    { font: `400 21px ${picture.serif}`, line: 34, gap: 14, stretches: picture.answer },
    { font: `400 14px ${picture.sans}`, line: 22, gap: 22, stretches: picture.legend },
    {
      font: `400 13px ${picture.sans}`,
      line: 20,
      gap: 14,
      stretches: [{ text: "Conclave: several small models, one answer", colour: picture.soft }],
    },
  ];
  let top = 0;
  const laid = parts.map((part) => {
    context.font = part.font;
    const room = width - 2 * margin;
    const { words, end } = place(
      part.stretches,
      { top: top + part.gap, line: part.line, room },
      (text) => context.measureText(text).width,
    );
    top = end;
    return { ...part, words };
  });
  const height = top + margin;
  const scale = Math.min(2, mostPixels / height);
  canvas.width = width * scale;
  canvas.height = Math.ceil(height * scale);
  context.scale(scale, scale);
  context.fillStyle = picture.paper;
  context.fillRect(0, 0, width, height);
  for (const { font, line, words } of laid) {
    context.font = font;
    for (const word of words) paint(context, word, { ink: picture.ink, line });
  }
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("It is too large."))),
      "image/png",
    ),
  );
}

/** Paints a word: a segment in ink on its writer's tint, anything else in its own colour. */
function paint(
  context: CanvasRenderingContext2D,
  { text, colour, line: style, x, y }: Placed,
  { ink, line }: { ink: string; line: number },
): void {
  const left = margin + x;
  const wide = context.measureText(text).width;
  if (style !== undefined) {
    context.fillStyle = colour;
    context.globalAlpha = 0.1;
    context.fillRect(left, y - 0.68 * line, wide, 0.92 * line);
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.setLineDash(lineStyles[style] ?? []);
    for (const below of style === "double" ? [4, 7] : [5]) {
      context.beginPath();
      context.moveTo(left, y + below);
      context.lineTo(left + wide, y + below);
      context.stroke();
    }
  }
  context.fillStyle = style === undefined ? colour : ink;
  context.fillText(text, left, y);
}
