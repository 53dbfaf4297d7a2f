/**
 * A judge without logits: it is shown the candidates as A, B, C … and names one. Every question is
 * asked twice, in a shuffled order and in that order rotated; how often both name the same
 * candidate is how far it is to be trusted, and how often it names a letter wherever the candidates
 * stand is its bias to that letter.
 *
 * With n candidates, agreement a and chance 1/n, kappa = (a − 1/n) / (1 − 1/n) is r², r the chance
 * that a single answer names what the judge likes best. Otherwise, so the model, it names the k-th
 * letter with its bias π_k. A candidate's preference is then the chance that it is the one liked
 * best, given both answers and no preference before them: proportional to the product over the
 * answers of r·[it was named] + (1 − r)·π_k, where k was named.
 *
 * The tool has the same in crates/remote/src/judge.rs; tests/judging/letters.json holds both to it.
 */

import type { Limit } from "./server.ts";

/** Letters that candidates get. */
export const letters = "ABCDEFGH";

/**
 * The place of the letter among the first `n` that a model names in answer to a question; undefined
 * where it names none.
 */
export type NameLetter = (question: string, n: number, limit: Limit) => Promise<number | undefined>;

/**
 * Of rounds that were never played: what is believed of a judge before it has judged, and how
 * firmly.
 */
const before = { kappa: 0.5, rounds: 4, named: 1 };

export class Letters {
  /** Σ (agreed − 1/n) and Σ (1 − 1/n) over the rounds that were answered twice. */
  #agreed = before.kappa * before.rounds * 0.5;
  #most = before.rounds * 0.5;
  /** How often each letter was named among n candidates, by n. */
  readonly #named = new Map<number, number[]>();

  /** The chance that one answer names what the judge likes best. */
  get reliability(): number {
    return Math.sqrt(Math.min(0.97, Math.max(0.01, this.#agreed / this.#most)));
  }

  /** How often it names each of n letters when it does not name what it likes best; sums to 1. */
  bias(n: number): number[] {
    const named = this.#of(n);
    const all = named.reduce((sum, count) => sum + count, 0);
    const r = this.reliability;
    // What it likes best stands everywhere alike.
    const rest = named.map((count) => Math.max(count / all - r / n, 0.1 / n));
    const sum = rest.reduce((all, each) => all + each, 0);
    return rest.map((each) => each / sum);
  }

  /**
   * The preferences, summing to 1, after the judge has named the `named[i]`-th letter of
   * `orders[i]`; none where it named none. Learns from it.
   */
  hear(orders: readonly number[][], named: readonly (number | undefined)[]): number[] | undefined {
    const heard = orders.flatMap((order, index) => {
      const letter = named[index];
      return letter === undefined || letter >= order.length ? [] : [{ order, letter }];
    });
    const n = orders[0]?.length ?? 0;
    if (heard.length === 0) return undefined;
    for (const { letter } of heard) this.#of(n)[letter]!++;
    if (heard.length === 2) {
      const [first, second] = heard.map(({ order, letter }) => order[letter]);
      this.#agreed += Number(first === second) - 1 / n;
      this.#most += 1 - 1 / n;
    }
    const [r, bias] = [this.reliability, this.bias(n)];
    const chances = [...Array(n).keys()].map((candidate) =>
      heard.reduce(
        (chance, { order, letter }) =>
          chance * (r * Number(order[letter] === candidate) + (1 - r) * bias[letter]!),
        1,
      ),
    );
    const sum = chances.reduce((all, chance) => all + chance, 0);
    return chances.map((chance) => chance / sum);
  }

  #of(n: number): number[] {
    const named = this.#named.get(n) ?? Array<number>(n).fill(before.named);
    this.#named.set(n, named);
    return named;
  }
}

/** Two orders to show n candidates in: `order[k]` is the candidate with the k-th letter. */
export function orders(n: number, seed: number): [number[], number[]] {
  const random = seeded(seed);
  const order = [...Array(n).keys()];
  for (let last = n - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [order[last], order[other]] = [order[other]!, order[last]!];
  }
  const turn = Math.max(1, Math.floor(n / 2));
  return [order, [...order.slice(turn), ...order.slice(0, turn)]];
}

/**
 * The letter of n that an answer names, as its place; undefined where it names none, or several.
 * What a model thinks first is passed over.
 */
export function letterIn(answer: string, n: number): number | undefined {
  const said = answer.replace(/<think>[\s\S]*?(<\/think>|$)/g, "").trim();
  const own = letters.slice(0, n);
  // "B." and "B: the second one" name B, whatever comes behind it.
  const opening = new RegExp(`^\\W*([${own}])([^\\p{L}\\p{N}\\s'’]|$|\\n)`, "u").exec(said)?.[1];
  const named = new Set(
    opening ?? said.match(new RegExp(`(?<![\\p{L}\\p{N}])[${own}](?![\\p{L}\\p{N}'’])`, "gu")),
  );
  const [letter] = named;
  return letter === undefined || named.size > 1 ? undefined : own.indexOf(letter);
}

/**
 * Numbers from 0 to 1 that a seed gives again (mulberry32, a generator of 32 bits in the public
 * domain).
 */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
