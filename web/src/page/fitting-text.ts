/**
 * How much of a file's text fits a question: as many whole lines from its beginning as there is
 * room for.
 */
import { beginning } from "../kept/records.ts";

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
  const part = beginning(text, length);
  const line = part.lastIndexOf("\n");
  return line > length * 0.9 ? part.slice(0, line) : part;
}

/**
 * Text of a file's bytes if they look like one: UTF-8, or UTF-16 with a byte order mark, without
 * control characters.
 */
export function textOf(bytes: Uint8Array): string | undefined {
  const encoding = encodingOf(bytes);
  try {
    const decoder = new TextDecoder(encoding, { fatal: true });
    // A file that was cut may end inside a character of UTF-16, which is left out.
    const text = decoder.decode(bytes, { stream: encoding !== "utf-8" });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they tell a binary file.
    return /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text)
      ? undefined
      : text.replaceAll("\r\n", "\n");
  } catch {
    return undefined;
  }
}

/** The encoding that a byte order mark tells; UTF-8 without one. */
function encodingOf([first, second]: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}
