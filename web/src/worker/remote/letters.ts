/**
 * A judge without logits: it is shown the candidates as A, B, C … and names one. Every question
 * is asked twice, in a shuffled order and in that order rotated; how often both answers name the
 * same candidate is its reliability, and how often it names a letter regardless of the candidate is
 * its bias to that letter.
 *
 * With n candidates, agreement a and chance 1/n, kappa = (a − 1/n) / (1 − 1/n) is r², r the
 * probability that a single answer names the judge's favourite. Otherwise, in this model, it names
 * the k-th letter with its bias π_k. A candidate's preference is the probability that it is the
 * favourite, given both answers and a uniform prior: proportional to the product over the answers
 * of r·[it was named] + (1 − r)·π_k, where k was named.
 *
 * The tool has the same in crates/remote/src/judge.rs; tests/judging/letters.json tests both.
 */

import type { Limit } from "./server.ts";

/** Letters of the candidates. */
export const letters = "ABCDEFGH";

/**
 * Index of the letter among the first `n` that a model names in answer to a question; undefined if
 * it names none.
 */
export type NameLetter = (question: string, n: number, limit: Limit) => Promise<number | undefined>;

/** Prior on a judge, as counts of imaginary rounds: its values, and their weight. */
const before = { kappa: 0.5, rounds: 4, named: 1 };

export class Letters {
  /** Σ (agreed − 1/n) and Σ (1 − 1/n) over the rounds that were answered twice. */
  #agreed = before.kappa * before.rounds * 0.5;
  #most = before.rounds * 0.5;
  /** Number of times that each letter was named, by the number of candidates. */
  readonly #named = new Map<number, number[]>();

  /** Probability that one answer names the judge's favourite. */
  get reliability(): number {
    return Math.sqrt(Math.min(0.97, Math.max(0.01, this.#agreed / this.#most)));
  }

  /** Probability of each of n letters when it does not name its favourite; sums to 1. */
  bias(n: number): number[] {
    const named = this.#of(n);
    const all = named.reduce((sum, count) => sum + count, 0);
    const r = this.reliability;
    // Its favourite is equally often at each letter.
    const rest = named.map((count) => Math.max(count / all - r / n, 0.1 / n));
    const sum = rest.reduce((all, each) => all + each, 0);
    return rest.map((each) => each / sum);
  }

  /**
   * Preferences, summing to 1, after the judge has named the `named[i]`-th letter of `orders[i]`;
   * undefined if it named none. Updates the statistics.
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
 * Index of the letter of n that an answer names; undefined if it names none, or several. Leading
 * thoughts are skipped.
 */
export function letterIn(answer: string, n: number): number | undefined {
  const said = withoutThought(answer);
  const own = letters.slice(0, n);
  // "B." and "B: the second one" name B, whatever follows.
  const opening = new RegExp(`^\\W*([${own}])([^\\p{L}\\p{N}\\s'’]|$|\\n)`, "u").exec(said)?.[1];
  const named = new Set(
    opening ?? said.match(new RegExp(`(?<![\\p{L}\\p{N}])[${own}](?![\\p{L}\\p{N}'’])`, "gu")),
  );
  const [letter] = named;
  return letter === undefined || named.size > 1 ? undefined : own.indexOf(letter);
}

/** A model's answer without its thoughts, finished or cut. */
export function withoutThought(answer: string): string {
  return answer.replace(/<think>[\s\S]*?(<\/think>|$)/g, "").trim();
}

/** Reproducible numbers from 0 to 1 (mulberry32, a 32-bit generator in the public domain). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
