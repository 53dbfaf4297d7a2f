/** A judge by letters, simulated: honest, biased to a letter, or a random mixture of both. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import type { Candidate, Message } from "../../protocol/engine.ts";
import { letterIn, Letters, letters, orders, seeded } from "./letters.ts";
import { ballot } from "./prompts.ts";

/**
 * Rounds of a judge whose favourite is drawn anew each time; returns the preferences of the last
 * `kept`.
 */
function play(
  rounds: number,
  n: number,
  seed: number,
  names: (best: number, order: readonly number[], random: () => number) => number | undefined,
): { judge: Letters; rows: { best: number; row: number[] }[] } {
  const judge = new Letters();
  const random = seeded(seed + 1);
  const rows: { best: number; row: number[] }[] = [];
  for (let round = 0; round < rounds; round++) {
    const best = Math.floor(random() * n);
    const shown = orders(n, seed + round);
    const row = judge.hear(
      shown,
      shown.map((order) => names(best, order, random)),
    );
    if (row) rows.push({ best, row });
  }
  return { judge, rows };
}

const sum = (row: readonly number[]): number => row.reduce((all, each) => all + each, 0);
const honest = (best: number, order: readonly number[]): number => order.indexOf(best);

test("two orders are permutations, differ everywhere, and put each candidate alike", () => {
  for (let n = 2; n <= 8; n++) {
    const places = Array.from({ length: n }, () => Array<number>(n).fill(0));
    for (let round = 0; round < 1000; round++) {
      const shown = orders(n, round);
      const [first, second] = shown;
      for (const order of shown) assert.deepEqual([...order].sort(), [...Array(n).keys()]);
      for (let place = 0; place < n; place++)
        assert.notEqual(first[place], second[place], "each candidate has two letters");
      first.forEach((candidate, place) => places[candidate]![place]!++);
    }
    for (const counts of places)
      for (const count of counts)
        assert.ok(
          Math.abs(count - 1000 / n) < 6 * Math.sqrt(1000 / n),
          `${count} of 1000 among ${n}`,
        );
  }
});

test("preferences are positive and sum to 1, whatever is named", () => {
  for (let n = 2; n <= 8; n++) {
    const { rows } = play(200, n, n, (_, order, random) => Math.floor(random() * order.length));
    for (const { row } of rows) {
      assert.equal(row.length, n);
      assert.ok(row.every((share) => share > 0));
      assert.ok(Math.abs(sum(row) - 1) < 1e-12);
    }
  }
});

test("preferences go with the candidates: a permutation of them permutes the row", () => {
  for (let n = 2; n <= 8; n++) {
    const random = seeded(n);
    const judges = [new Letters(), new Letters()] as const;
    for (let round = 0; round < 50; round++) {
      const shown = orders(n, round);
      const renamed = [...Array(n).keys()].sort(() => random() - 0.5);
      const named = shown.map(() => Math.floor(random() * n));
      const row = judges[0].hear(shown, named)!;
      const permuted = judges[1].hear(
        shown.map((order) => order.map((candidate) => renamed[candidate]!)),
        named,
      )!;
      for (const [candidate, share] of row.entries())
        assert.ok(Math.abs(permuted[renamed[candidate]!]! - share) < 1e-12);
    }
  }
});

test("an honest judge comes to be trusted, and its choice gets nearly all", () => {
  for (const n of [2, 3, 5, 8]) {
    const { judge, rows } = play(60, n, 3, honest);
    assert.ok(judge.reliability > 0.95, String(judge.reliability));
    const { best, row } = rows.at(-1)!;
    assert.equal(row.indexOf(Math.max(...row)), best);
    assert.ok(row[best]! > 0.95, String(row));
    // Without any data its choice is preferred, but only slightly.
    const first = rows[0]!;
    assert.equal(first.row.indexOf(Math.max(...first.row)), first.best);
    assert.ok(first.row[first.best]! < 0.985, String(first.row));
  }
});

test("a judge that always names the same letter comes to say nothing", () => {
  for (const n of [2, 3, 5]) {
    const { judge, rows } = play(80, n, 5, () => 0);
    assert.ok(judge.bias(n)[0]! > 0.8, String(judge.bias(n)));
    const { row } = rows.at(-1)!;
    assert.ok(Math.max(...row) < 1.35 / n, `${row} among ${n}`);
  }
});

test("whose letter is always A has hardly a say from the third round on", () => {
  const { rows } = play(12, 3, 23, () => 0);
  const largest = rows.map(({ row }) => Math.max(...row).toFixed(2));
  assert.deepEqual(largest, ["0.41", "0.38", ...Array<string>(10).fill("0.35")]);
});

test("where a letter is named out of habit, another letter says more than that one", () => {
  // Three times of four it names its favourite, else A.
  const { judge } = play(400, 3, 11, (best, order, random) =>
    random() < 0.75 ? order.indexOf(best) : 0,
  );
  assert.ok(Math.abs(judge.reliability - 0.75) < 0.08, String(judge.reliability));
  const [a, b, c] = judge.bias(3);
  assert.ok(a! > 0.7 && b! < 0.25 && c! < 0.25, String(judge.bias(3)));
  const [byHabit, notByHabit] = [0, 1].map((letter) =>
    Math.max(...judge.hear([[0, 1, 2]], [letter])!),
  );
  assert.ok(notByHabit! > byHabit! + 0.1, `${notByHabit} and ${byHabit}`);
});

test("corrected, a biased judge is right more often than its letters are", () => {
  const names = (best: number, order: readonly number[], random: () => number): number =>
    random() < 0.5 ? order.indexOf(best) : 0;
  const { rows } = play(600, 3, 17, names);
  const right =
    rows.slice(100).filter(({ best, row }) => row[best] === Math.max(...row)).length / 500;
  // By the letter of one answer alone: a half, and a third of the rest.
  assert.ok(right > 0.5 + 0.5 / 3 + 0.03, String(right));
});

test("one answer of two is a vote, none is not", () => {
  const judge = new Letters();
  const shown = orders(3, 1);
  assert.equal(judge.hear(shown, [undefined, undefined]), undefined);
  assert.equal(judge.hear(shown, [7, undefined]), undefined, "a letter that nobody has");
  const row = judge.hear(shown, [undefined, 1])!;
  assert.equal(row.indexOf(Math.max(...row)), shown[1][1]);
});

interface Vectors {
  orders: { n: number; seed: number; orders: number[][] }[];
  judges: {
    n: number;
    rounds: { orders: number[][]; named: (number | null)[]; row: number[] | null }[];
    reliability: number;
    bias: number[];
  }[];
  letters: { said: string; n: number; letter: number | null }[];
  ballots: {
    messages: Message[];
    answer: string;
    candidates: Candidate[];
    order: number[];
    text: string;
  }[];
}

test("it shuffles, asks, reads and believes as the tool does", () => {
  const file = `${process.env["CONCLAVE_WEB"] ?? "./"}../tests/judging/letters.json`;
  const vectors = JSON.parse(readFileSync(file, "utf8")) as Vectors;
  for (const { n, seed, orders: wanted } of vectors.orders)
    assert.deepEqual(orders(n, seed), wanted, `${n} by ${seed}`);
  for (const { n, rounds, reliability, bias } of vectors.judges) {
    const judge = new Letters();
    for (const { orders, named, row } of rounds) {
      const found = judge.hear(
        orders,
        named.map((letter) => letter ?? undefined),
      );
      assert.equal(found?.length, row?.length);
      for (const [candidate, share] of (row ?? []).entries())
        assert.ok(Math.abs(found![candidate]! - share) < 1e-12);
    }
    assert.ok(Math.abs(judge.reliability - reliability) < 1e-12);
    for (const [letter, share] of bias.entries())
      assert.ok(Math.abs(judge.bias(n)[letter]! - share) < 1e-12);
  }
  for (const { said, n, letter } of vectors.letters)
    assert.equal(letterIn(said, n) ?? null, letter, JSON.stringify(said));
  for (const { messages, answer, candidates, order, text } of vectors.ballots)
    assert.equal(ballot(messages, answer, candidates, order), text);
  assert.equal(letters.length, 8);
});
