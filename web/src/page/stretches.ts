/** Characters of a laid-out text as the longest stretches that can be drawn at once. */

interface Rect {
  left: number;
  top: number;
  right: number;
  width: number;
  height: number;
}

export interface Placed {
  text: string;
  rect: Rect;
}

/**
 * Joins characters by line. Words of both directions are drawn together, so that they are ordered
 * as in their line, unless something else stands between them: then each word has its own place.
 */
export function stretches(characters: readonly Placed[]): Placed[] {
  return lines(characters).flatMap((line) => {
    const whole = joined(line);
    const filled = line.reduce((sum, { rect }) => sum + rect.width, 0);
    // A tab has a width that no character has.
    if (whole.rect.width <= filled + 1 && !whole.text.includes("\t")) return [whole];
    return words(line).map(joined);
  });
}

function lines(characters: readonly Placed[]): Placed[][] {
  const found: Placed[][] = [];
  let last: Rect | undefined;
  for (const character of characters) {
    const { rect } = character;
    if (last && Math.abs(rect.top - last.top) < last.height / 2) found.at(-1)!.push(character);
    else found.push([character]);
    last = rect;
  }
  return found;
}

function words(line: readonly Placed[]): Placed[][] {
  const found: Placed[][] = [[]];
  for (const character of line)
    if (character.text.trim() === "") found.push([]);
    else found.at(-1)!.push(character);
  return found.filter(({ length }) => length > 0);
}

function joined(characters: readonly Placed[]): Placed {
  const rects = characters.map(({ rect }) => rect);
  const [{ top, height }] = rects as [Rect];
  const left = Math.min(...rects.map((rect) => rect.left));
  const right = Math.max(...rects.map((rect) => rect.right));
  const text = characters.map((character) => character.text).join("");
  return { text, rect: { left, right, top, height, width: right - left } };
}
