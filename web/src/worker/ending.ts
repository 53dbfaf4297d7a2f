/**
 * What ends an answer beside the method's own settings: a number of tokens, and texts that it ends
 * before.
 */

export interface Limits {
  /** Tokens of the answer, each segment's in its writer's own; no limit if left out. */
  maxTokens?: number;
  /** Texts of which none is in the answer. */
  stop?: readonly string[];
}

/** Follows an answer as its segments come. */
export class Ending {
  /** Tokens of the accepted segments. */
  tokens = 0;
  readonly #maxTokens: number;
  readonly #stop: readonly string[];
  /** The end of what was accepted, which may be the beginning of a text to stop before. */
  #held = "";

  constructor({ maxTokens = Number.POSITIVE_INFINITY, stop = [] }: Limits) {
    this.#maxTokens = maxTokens;
    this.#stop = stop;
  }

  /** The most tokens that the next segment may have, of those it would have otherwise. */
  most(segmentTokens: number): number {
    return Math.min(segmentTokens, this.#maxTokens - this.tokens);
  }

  /**
   * Takes an accepted segment: what is certain now to be in the answer, and why that is over, if it
   * is.
   */
  take(segment: string, tokens: number): { text: string; over: "stop" | "tokens" | undefined } {
    this.tokens += tokens;
    const text = this.#held + segment;
    const found = this.#stop.map((each) => text.indexOf(each)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#held = "";
      return { text: text.slice(0, Math.min(...found)), over: "stop" };
    }
    const held = Math.max(0, ...this.#stop.map((each) => overlap(text, each)));
    this.#held = text.slice(text.length - held);
    return {
      text: text.slice(0, text.length - held),
      over: this.tokens >= this.#maxTokens ? "tokens" : undefined,
    };
  }

  /** What was held back when nothing more comes: it is in the answer after all. */
  rest(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

/** How many characters at the end of `text` begin `stop`. */
function overlap(text: string, stop: string): number {
  for (let length = Math.min(text.length, stop.length - 1); length > 0; length--)
    if (text.endsWith(stop.slice(0, length))) return length;
  return 0;
}
