/**
 * How much of a file's text fits a question: as many whole lines from its beginning as there is
 * room for.
 */

/** Fewer characters are not worth asking about. */
const least = 200;

/**
 * The longest beginning of `text` for which `fits` holds, which it must for every shorter one; cut
 * after a line where that costs less than a tenth, and never inside a surrogate pair. Empty if
 * hardly anything fits.
 */
export async function longestFitting(
  text: string,
  fits: (part: string) => Promise<boolean>,
): Promise<string> {
  if (await fits(text)) return text;
  let [low, high] = [0, text.length];
  // One percent more is not worth another measurement.
  while (high - low > Math.max(64, low / 100)) {
    const middle = (low + high) >> 1;
    if (await fits(cut(text, middle))) low = middle;
    else high = middle;
  }
  return low < least ? "" : cut(text, low);
}

function cut(text: string, length: number): string {
  const part = text.slice(0, length);
  const line = part.lastIndexOf("\n");
  if (line > length * 0.9) return part.slice(0, line);
  return /[\ud800-\udbff]$/.test(part) ? part.slice(0, -1) : part;
}

/** Whether a file's bytes look like text: UTF-8 without control characters. */
export function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they tell a binary file.
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text)
      ? undefined
      : text.replaceAll("\r\n", "\n");
  } catch {
    return undefined;
  }
}
