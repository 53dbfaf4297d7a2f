/** Kept turns: checked when they are read, found by words, continued from their segments. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { roundOf, turnOf } from "../testing/kept-turn.ts";
import { fromFirst } from "./database.ts";
import {
  acceptedOf,
  asked,
  compareTurns,
  isOver,
  matches,
  parseExported,
  plainTurn,
  readable,
  titleOf,
} from "./records.ts";

test("a kept turn is read whole; one of another version keeps its texts", () => {
  const turn = turnOf("How many?", ["Two", " of them."]);
  assert.deepEqual(readable(turn), turn);
  const strange = { ...turn, events: [{ type: "applause" }] } as unknown as typeof turn;
  const read = readable(strange);
  assert.deepEqual(
    [read.id, read.conversation, read.question, read.answer, read.events],
    [turn.id, turn.conversation, "How many?", "Two of them.", []],
  );
  assert.ok(isOver(read), "nothing of it is continued");
});

test("a turn kept before a setting was there keeps its rounds, with that setting off", () => {
  const turn = turnOf("How many?", ["Two", " of"], false);
  const [begin, ...rounds] = turn.events;
  assert.ok(begin?.type === "begin");
  const { alone, endedOnly, maxRepeats, ...then } = begin.settings;
  const old = { ...turn, events: [{ ...begin, settings: then }, ...rounds] };
  const read = readable(old as unknown as typeof turn);
  assert.deepEqual(read.events, [
    { ...begin, settings: { ...then, alone: 0, endedOnly: false, maxRepeats } },
    ...rounds,
  ]);
  assert.deepEqual([alone, endedOnly, acceptedOf(read).length], [0, true, 2]);
});

test("turns of the same millisecond have one order, whoever sorts them", () => {
  const turns = ["b", "a", "c"].map((id) => ({ id, at: id === "c" ? 1 : 2 }));
  const sorted = ["c", "a", "b"];
  for (const all of [turns, turns.toReversed()])
    assert.deepEqual(
      all.toSorted(compareTurns).map(({ id }) => id),
      sorted,
    );
});

test("an answer goes on from its segments until it has ended or failed", () => {
  const turn = turnOf("How many?", ["Two", " of"], false);
  assert.deepEqual(acceptedOf(turn), [
    { text: "Two", tokens: 1 },
    { text: " of", tokens: 1 },
  ]);
  assert.ok(!isOver(turn));
  assert.ok(isOver({ ...turn, failure: { kind: "Engine", message: "It broke." } }));
  assert.ok(isOver(turnOf("How many?", ["Two"])));
});

test("a search needs every word, in the title, a question or an answer, in any case", () => {
  const turns = [turnOf("What is a Wombat?", ["A marsupial."])];
  for (const words of ["wombat", "MARSUPIAL  animals", "a"])
    assert.ok(matches(words, { title: "Animals" }, turns), words);
  assert.ok(!matches("wombat koala", { title: "Animals" }, turns));
});

test("members read a file before the question; a title is the first line, cut", () => {
  const attached = { name: "a.txt", text: "one\ntwo", whole: 7 };
  assert.equal(asked({ question: "Count!", attached }), 'a.txt:\n"""\none\ntwo\n"""\n\nCount!');
  assert.equal(asked({ question: "Count!" }), "Count!");
  assert.equal(titleOf("  Count!\nAll of them."), "Count!");
  assert.equal([...titleOf("a".repeat(90))].length, 60);
  assert.equal(titleOf(`${"a".repeat(58)}😀 and more`), `${"a".repeat(58)}…`, "no half of it");
});

test("a conversation of version 1 becomes a record and turns of their own, in order", () => {
  const { conversation, turns } = fromFirst({
    id: "old",
    title: "",
    changed: 1000,
    turns: [
      { question: "First?", answer: "Yes." },
      { question: "Second?", answer: "No." },
    ],
  });
  assert.deepEqual(conversation, { id: "old", title: "First?", created: 998, changed: 1000 });
  assert.deepEqual(
    turns.map(({ conversation, at, question, answer }) => ({ conversation, at, question, answer })),
    [
      { conversation: "old", at: 998, question: "First?", answer: "Yes." },
      { conversation: "old", at: 999, question: "Second?", answer: "No." },
    ],
  );
  assert.equal(new Set(turns.map(({ id }) => id)).size, 2);
});

test("an imported conversation is checked, its events too", () => {
  const { conversation: _, ...turn } = turnOf("How many?", ["Two"]);
  const whole = { format: "conclave conversation 1", title: "T", created: 1, turns: [turn] };
  assert.deepEqual(parseExported(JSON.parse(JSON.stringify(whole))).turns, [turn]);
  const { text: _text, ...broken } = roundOf("Two", 1);
  assert.throws(
    () => parseExported({ ...whole, turns: [{ ...turn, events: [broken] }] }),
    /event\.text must be a string; it was missing/,
  );
  assert.throws(
    () => parseExported({ ...whole, turns: [{ ...plainTurn("a", "b", 1), at: "soon" }] }),
    /conversation\.turns\[0\]\.at must be a finite number/,
  );
});
