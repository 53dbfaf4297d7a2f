/** A judge by letters, played by what it is to be: honest, biased to a letter, or both by chance. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { letterIn, Letters, letters, seeded } from "./letters.ts";

/** Rounds of a judge that likes a candidate best which is drawn anew each time; gives the preferences of the last `kept`. */
function play(
  rounds: number,
  n: number,
  seed: number,
  names: (best: number, order: readonly number[], random: () => number) => number | undefined,
): { judge: Letters; rows: { best: number; row: number[] }[] } {
  const judge = new Letters(seed);
  const random = seeded(seed + 1);
  const rows: { best: number; row: number[] }[] = [];
  for (let round = 0; round < rounds; round++) {
    const best = Math.floor(random() * n);
    const orders = judge.orders(n);
    const row = judge.hear(
      orders,
      orders.map((order) => names(best, order, random)),
    );
    if (row) rows.push({ best, row });
  }
  return { judge, rows };
}

const sum = (row: readonly number[]): number => row.reduce((all, each) => all + each, 0);
const honest = (best: number, order: readonly number[]): number => order.indexOf(best);

test("two orders are permutations, differ in every place, come again by their seed, and put each candidate everywhere alike", () => {
  for (let n = 2; n <= 8; n++) {
    const [one, other] = [new Letters(7), new Letters(7)];
    const places = Array.from({ length: n }, () => Array<number>(n).fill(0));
    for (let round = 0; round < 1000; round++) {
      const orders = one.orders(n);
      assert.deepEqual(orders, other.orders(n));
      const [first, second] = orders;
      for (const order of orders) assert.deepEqual([...order].sort(), [...Array(n).keys()]);
      for (let place = 0; place < n; place++) assert.notEqual(first[place], second[place], "each candidate has two letters");
      first.forEach((candidate, place) => places[candidate]![place]!++);
    }
    for (const counts of places) for (const count of counts) assert.ok(Math.abs(count - 1000 / n) < 6 * Math.sqrt(1000 / n), `${count} of 1000 among ${n}`);
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
    const judges = [new Letters(1), new Letters(1)] as const;
    for (let round = 0; round < 50; round++) {
      const orders = judges[0].orders(n);
      const renamed = [...Array(n).keys()].sort(() => random() - 0.5);
      const named = orders.map(() => Math.floor(random() * n));
      const row = judges[0].hear(orders, named)!;
      const permuted = judges[1].hear(
        orders.map((order) => order.map((candidate) => renamed[candidate]!)),
        named,
      )!;
      for (const [candidate, share] of row.entries()) assert.ok(Math.abs(permuted[renamed[candidate]!]! - share) < 1e-12);
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
    // Before anything is known, its choice is preferred, but softly.
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

test("where a letter is named out of habit, another letter says more than that one", () => {
  // Three times of four it names what it likes, else A.
  const { judge } = play(400, 3, 11, (best, order, random) => (random() < 0.75 ? order.indexOf(best) : 0));
  assert.ok(Math.abs(judge.reliability - 0.75) < 0.08, String(judge.reliability));
  const [a, b, c] = judge.bias(3);
  assert.ok(a! > 0.7 && b! < 0.25 && c! < 0.25, String(judge.bias(3)));
  const orders = [[0, 1, 2]];
  const [byHabit, notByHabit] = [0, 1].map((letter) => Math.max(...judge.hear(orders, [letter])!));
  assert.ok(notByHabit! > byHabit! + 0.1, `${notByHabit} and ${byHabit}`);
});

test("corrected, a biased judge is right more often than its letters are", () => {
  const names = (best: number, order: readonly number[], random: () => number): number => (random() < 0.5 ? order.indexOf(best) : 0);
  const { rows } = play(600, 3, 17, names);
  const right = rows.slice(100).filter(({ best, row }) => row[best] === Math.max(...row)).length / 500;
  // By the letter of one answer alone: a half, and a third of the rest.
  assert.ok(right > 0.5 + 0.5 / 3 + 0.03, String(right));
});

test("one answer of two is a vote, none is not", () => {
  const judge = new Letters(1);
  const orders = judge.orders(3);
  assert.equal(judge.hear(orders, [undefined, undefined]), undefined);
  assert.equal(judge.hear(orders, [7, undefined]), undefined, "a letter that nobody has");
  const row = judge.hear(orders, [undefined, 1])!;
  assert.equal(row.indexOf(Math.max(...row)), orders[1][1]);
});

test("the letter is found in what models say, and nothing is made of what names none or several", () => {
  const cases: [string, number, number | undefined][] = [
    ["B", 2, 1],
    [" b", 2, undefined],
    ["**C**", 3, 2],
    ["The answer is B.", 3, 1],
    ["B: the second is better than A", 3, 1],
    ["(A)", 2, 0],
    ["A or B", 2, undefined],
    ["A good question", 2, 0],
    ["D", 3, undefined],
    ["Because", 3, undefined],
    ["", 2, undefined],
    ["<think>A or B? B.</think>\nA", 2, 0],
    ["<think>A", 2, undefined],
    ["Ärger B", 2, 1],
  ];
  for (const [answer, n, place] of cases) assert.equal(letterIn(answer, n), place, JSON.stringify(answer));
  assert.equal(letters.length, 8);
});
