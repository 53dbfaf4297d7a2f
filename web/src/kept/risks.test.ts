/** Marks of what may end the tab: who is at fault, until when, and that nothing else is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { atFault, atRisk, endedTab, keyOf, Risks, type MarkStorage } from "./risks.ts";

class Memory implements MarkStorage {
  readonly #map = new Map<string, string>();
  getItem = (key: string): string | null => this.#map.get(key) ?? null;
  setItem = (key: string, value: string): void => void this.#map.set(key, value);
  removeItem = (key: string): void => void this.#map.delete(key);
  key = (index: number): string | null => [...this.#map.keys()][index] ?? null;
  get length(): number {
    return this.#map.size;
  }
}

const large = { name: "Large", ref: "hf:a/large/large.gguf" };
const small = { name: "Small", ref: "hf:a/small/small.gguf" };
const toy = { name: "Toy", url: "./members/toy.gguf" };
const dead = (): boolean => false;

test("a tab that dies in a load names the member; it stays out until it is tried again", () => {
  const storage = new Memory();
  const first = new Risks(storage, "first");
  first.enter("load", [atRisk(large, 2e9)]);
  first.enter("queued", [atRisk(small, 1e8)]);
  const second = new Risks(storage, "second");
  assert.deepEqual(
    second.collect((tab) => tab === "first"),
    [],
    "a living tab is at no fault",
  );
  const [ending, ...others] = second.collect(dead, 7);
  assert.deepEqual(
    [ending, others],
    [{ key: large.ref, name: "Large", bytes: 2e9, ref: large.ref, phase: "load", at: 7 }, []],
  );
  assert.equal(
    endedTab(ending!, "Large"),
    "A tab with this page ended while Large was being loaded",
  );
  assert.equal(new Risks(storage, "third").collect(dead).length, 0, "told once");
  const fourth = new Risks(storage, "fourth");
  assert.equal(fourth.heldBack(large)?.phase, "load");
  assert.equal(fourth.heldBack(small), undefined);
  fourth.release(large);
  assert.equal(new Risks(storage, "fifth").heldBack(large), undefined);
});

test("what ends well or closes by itself leaves nothing", () => {
  const storage = new Memory();
  const risks = new Risks(storage, "first");
  risks.enter("load", [atRisk(large, 1), atRisk(small, 1)]);
  risks.leave([atRisk(large, 1)]);
  assert.equal(storage.length, 1);
  risks.view = "closed";
  assert.equal(storage.length, 0);
  risks.enter("round", [atRisk(small, 1)]);
  assert.equal(storage.length, 0);
  risks.view = "seen";
  assert.deepEqual(
    new Risks(storage, "second").collect(dead).map(({ name, phase }) => [name, phase]),
    [["Small", "round"]],
    "back from the cache, it is at risk",
  );
});

test("a hidden tab that dies is told of in any phase; only a second one leaves its member out", () => {
  for (const phase of ["load", "read", "round", "later"] as const) {
    const storage = new Memory();
    const die = (tab: string, hidden?: boolean): [boolean | undefined, boolean][] => {
      const risks = new Risks(storage, tab);
      risks.enter(phase, [atRisk(large, 2e9)]);
      risks.view = "hidden";
      const next = new Risks(storage, `after ${tab}`);
      const endings = next.collect(dead, 7, hidden);
      assert.equal(storage.getItem(`conclave risk ${tab}`), null, "collected once");
      return endings.map(({ once }) => [once, next.heldBack(large) !== undefined]);
    };
    assert.deepEqual(die("first", false), [], "the system may have ended it");
    assert.deepEqual(die("second"), [[true, false]], phase);
    assert.deepEqual(die("third"), [[undefined, true]], phase);
    assert.deepEqual(die("fourth"), [[undefined, true]], "what is held back stays so");
  }
  const storage = new Memory();
  const shown = new Risks(storage, "shown");
  shown.view = "hidden";
  shown.enter("read", [atRisk(large, 2e9)]);
  shown.view = "seen";
  const [ending] = new Risks(storage, "next").collect(dead, 7, false);
  assert.deepEqual([ending?.phase, ending?.once], ["read", undefined], "it was seen again");
});

test("two tabs that died before one visit count as two, and each member is told of once", () => {
  const storage = new Memory();
  for (const tab of ["first", "second"])
    new Risks(storage, tab).enter("later", [atRisk(large, 2e9)]);
  new Risks(storage, "third").enter("later", [atRisk(small, 1e8)]);
  const next = new Risks(storage, "next");
  assert.deepEqual(
    next.collect(dead, 7).map(({ name, once }) => [name, once]),
    [
      ["Large", undefined],
      ["Small", true],
    ],
  );
  assert.ok(next.heldBack(large) && !next.heldBack(small));
});

test("only where no member is held back for what ended, an answer may go on by itself", () => {
  const storage = new Memory();
  const visit = (tab: string): boolean => {
    const risks = new Risks(storage, tab);
    risks.collect(dead, 7);
    return risks.onlyOnce;
  };
  assert.equal(visit("first"), false, "nothing ended");
  new Risks(storage, "second").enter("later", [atRisk(small, 1e8)]);
  assert.equal(visit("third"), true);
  assert.equal(visit("fourth"), false, "the visit after it");
  new Risks(storage, "fifth").enter("later", [atRisk(toy, 1e6)]);
  new Risks(storage, "sixth").enter("read", [atRisk(large, 2e9)]);
  assert.equal(visit("seventh"), false, "one is held back");
});

test("a tab that dies in a later round is told of; only a second one leaves its member out", () => {
  const storage = new Memory();
  const day = 24 * 3600e3;
  const die = (tab: string, at: number): [string, boolean][] => {
    const risks = new Risks(storage, tab);
    risks.enter("round", [atRisk(small, 1e8), atRisk(large, 2e9)]);
    risks.enter("later", [atRisk(small, 1e8), atRisk(large, 2e9)]);
    const next = new Risks(storage, `after ${tab}`);
    const endings = next.collect(dead, at);
    assert.equal(next.heldBack(small), undefined);
    return endings.map((ending) => [
      endedTab(ending, ending.name),
      next.heldBack(large) !== undefined,
    ]);
  };
  const told = "A tab with this page ended while Large answered, in a later round";
  assert.deepEqual(die("first", day), [[told, false]]);
  assert.deepEqual(die("second", 9 * day), [[told, false]], "long after the first");
  assert.deepEqual(die("third", 12 * day), [[told, true]]);
  new Risks(storage, "fourth").release(large);
  assert.deepEqual(die("fifth", 13 * day), [[told, false]], "it was tried again");
});

test("later rounds write their mark once", () => {
  const storage = new Memory();
  let written = 0;
  const set = storage.setItem;
  storage.setItem = (key, value) => (written++, set(key, value));
  const risks = new Risks(storage, "first");
  for (let round = 0; round < 9; round++) risks.enter("later", [atRisk(large, 1)]);
  assert.equal(written, 1);
});

test("of members that were asked the largest is at fault; a toy is not beside a model", () => {
  const mark = (
    source: typeof toy | typeof large,
    bytes: number,
    phase: "load" | "round" | "queued",
  ) => ({ ...atRisk(source, bytes), phase }) as const;
  const names = (marks: ReturnType<typeof mark>[]): string[] =>
    atFault(marks).map(({ name }) => name);
  assert.deepEqual(names([mark(small, 1e8, "round"), mark(large, 2e9, "round")]), ["Large"]);
  assert.deepEqual(names([mark(toy, 1e6, "load"), mark(large, 2e9, "load")]), ["Large"]);
  assert.deepEqual(names([mark(toy, 1e6, "load")]), ["Toy"]);
  assert.deepEqual(
    names([mark(small, 1e8, "load"), mark(large, 2e9, "load")]),
    ["Small", "Large"],
    "either may have been too much",
  );
  assert.deepEqual(names([mark(small, 1e8, "queued")]), ["Small"], "it may have begun");
});

test("storage that is off, full or holds something else is no obstacle", () => {
  const off = new Risks(undefined, "first");
  off.enter("load", [atRisk(large, 1)]);
  assert.deepEqual(off.collect(dead), []);
  const storage = new Memory();
  storage.setItem("conclave risk other", "what?");
  storage.setItem("conclave held back", '[{"key":1}]');
  assert.deepEqual(new Risks(storage, "first").collect(dead), []);
  const full = { ...storage, setItem: () => assert.fail("full"), length: 0 };
  new Risks(full, "first").enter("load", [atRisk(large, 1)]);
});

test("picked files are the same by name and size", () => {
  const files = (size: number): Blob[] => [new Blob([new Uint8Array(size)])];
  assert.equal(keyOf({ name: "mine", files: files(3) }), keyOf({ name: "mine", files: files(3) }));
  assert.notEqual(
    keyOf({ name: "mine", files: files(3) }),
    keyOf({ name: "mine", files: files(4) }),
  );
});
