/** Reads an exchange from the page for a picture of it: its words, and their writers' style. */
import { saveBlob } from "./run-record.ts";

/** Saves a picture of an exchange on the page. */
export async function savePicture(exchange: HTMLElement, question: string): Promise<void> {
  const { draw } = await import("./picture.ts");
  const style = getComputedStyle(document.documentElement);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  const soft = value("--soft");
  const voiceOf = (element: Element): { colour: string; line: string } => {
    const own = getComputedStyle(element);
    return {
      colour: own.getPropertyValue("--voice").trim(),
      line: own.getPropertyValue("--line-style").trim(),
    };
  };
  // Blocks of the answer are lines of the picture.
  const answer = [...exchange.querySelectorAll(".answer > *")].flatMap((block, index) => [
    ...(index > 0 ? [{ text: "\n", colour: soft }] : []),
    ...lines(block, voiceOf),
  ]);
  const legend = [...exchange.querySelectorAll(".legend")].flatMap((line) =>
    [...line.childNodes].map((node) => ({
      text: node.textContent ?? "",
      colour: soft,
      ...(node instanceof Element && voiceOf(node)),
    })),
  );
  const blob = await draw({
    ...{ question, answer, legend, soft },
    ...{ paper: value("--paper"), ink: value("--ink") },
    ...{ serif: value("--serif"), sans: value("--sans") },
  });
  saveBlob("conclave-answer.png", blob);
}

/** The words of a block, an item or row of a table to a line. */
function lines(
  block: Element,
  voiceOf: (segment: Element) => { colour: string; line: string },
): { text: string; colour: string; line: string }[] {
  const found: { text: string; colour: string; line: string }[] = [];
  let last: Element | null = null;
  for (const segment of block.querySelectorAll(".segment, .whole")) {
    const row = segment.closest("li, tr");
    const starts = row !== last && last !== null;
    const mark = row?.matches("li") && row !== last ? "• " : "";
    found.push({
      ...voiceOf(segment),
      text: `${starts ? "\n" : ""}${mark}${textOf(segment)}`,
    });
    last = row;
  }
  return found;
}

/** Text of a segment; a formula's is its source. */
const textOf = (segment: Element): string =>
  (segment.querySelector(".formula-source") ?? segment).textContent ?? "";
