/**
 * A byte-level BPE vocabulary of any size in which every word of up to three letters with its space
 * is one token, and as many of four letters as there is room for. Text of such words has the same
 * number of tokens in every vocabulary, so that members of other sizes read each other's candidates
 * at the same length.
 */

const letters = "abcdefghijklmnopqrstuvwxyz";

/** GPT-2's byte-level symbol for each byte; `Ġ` is the space. */
function byteSymbols(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
}

interface Words {
  /** Text of each token, by its id. The last token ends an answer. */
  tokens: string[];
  /** Merges in order of application, each `left right`. */
  merges: string[];
}

/** Token that ends an answer. */
const endToken = "<|im_end|>";

/** A vocabulary of exactly `size` tokens; at least 1,000. */
export function words(size: number): Words {
  const tokens = byteSymbols();
  const merges: string[] = [];
  let stems = ["Ġ"];
  while (tokens.length < size - 1) {
    const longer: string[] = [];
    for (const stem of stems) {
      for (const letter of letters) {
        if (tokens.length === size - 1) break;
        longer.push(stem + letter);
        tokens.push(stem + letter);
        merges.push(`${stem} ${letter}`);
      }
    }
    stems = longer;
  }
  tokens.push(endToken);
  return { tokens, merges };
}

/**
 * A text of `count` tokens in every vocabulary of {@link words}, from word number `from` on; no two
 * neighbours are alike.
 */
export function textOf(count: number, from = 0): string {
  let text = "";
  for (let word = from; word < from + count; word++)
    text += ` ${letters[(word * 7) % 26]}${letters[Math.floor((word * 7) / 26) % 26]}`;
  return text;
}

/**
 * Candidates of two others, of ten tokens each in the bundled vocabularies and in {@link words}:
 * single letters with their spaces are a token in almost every vocabulary. Each member writes its
 * own white space before an answer. The native bench has the same texts.
 */
export const othersTexts = ["a b c d e f g h i j", "j i h g f e d c b a"] as const;
