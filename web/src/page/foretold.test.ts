/** The time to the first words: measured, foretold from that, and from the reading under way. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { BeginEvent, RoundEvent } from "../protocol/messages.ts";
import { roundOf, turnOf } from "../testing/kept-turn.ts";
import { firstWordsIn, Foretelling, Paces, setOf, timeFor, unread, type Pace } from "./foretold.ts";

const begin = (run: [number, number], dropped = 0): BeginEvent => ({
  ...(turnOf("q", []).events[0] as BeginEvent),
  prefixes: run.map((tokens) => ({ prefix: tokens, run: tokens })),
  dropped,
});
const reading = (member: string, done: number, total: number) =>
  ({ type: "reading", member, done, total }) as const;
const round = (text: string, prefixes: [number, number] = [0, 0]): RoundEvent => ({
  ...roundOf(text, 1),
  counters: prefixes.map((prefix) => ({ prefix, prefilled: 0, drafted: 0, verified: 0 })),
});
const both = ["Ada", "Quill"];
/** Ada reads 1000 tokens a second, Quill 100; the first words take another 2 s. */
const pace: Pace = {
  read: { Ada: { tokens: 2000, ms: 2000 }, Quill: { tokens: 200, ms: 2000 } },
  first: 2000,
};

test("an answer is measured from its first step on, and foretells the next one like it", () => {
  const answer = new Foretelling(undefined, both, 0);
  // It waits a minute for its turn.
  for (const [done, at] of [
    [100, 60_000],
    [600, 60_500],
    [1100, 61_000],
  ] as const)
    answer.take(reading("Ada", done, 1100), at);
  for (const [done, at] of [
    [100, 60_000],
    [600, 65_000],
    [1100, 70_000],
  ] as const)
    answer.take(reading("Quill", done, 1100), at);
  answer.take(begin([1100, 1100]), 70_010);
  answer.take(round(""), 71_000);
  answer.take(round("One"), 72_010);
  answer.take(round(" two"), 79_000);
  assert.deepEqual(answer.measured, {
    read: { Ada: { tokens: 1000, ms: 1000 }, Quill: { tokens: 1000, ms: 10_000 } },
    first: 2000,
  });
  const paces = new Paces();
  paces.learn("both", answer.measured);
  const learnt = paces.get("both");
  assert.ok(learnt);
  assert.equal(timeFor(learnt, { Ada: 3000, Quill: 50 }), 5000, "the slower of the two");
  assert.equal(timeFor(learnt, { Ada: 3000, Quill: 500 }), 7000);
  assert.equal(timeFor(learnt, { Ada: 0, Quill: 0 }), 2000);
});

test("what is unknown is not foretold", () => {
  assert.equal(timeFor({ read: pace.read }, { Ada: 100 }), undefined, "no answer had words yet");
  assert.equal(timeFor({ read: {}, first: 1000 }, { Ada: 100 }), undefined, "its speed");
  assert.equal(firstWordsIn(undefined), "");
  assert.equal(firstWordsIn(2999), "", "it is not worth a sentence");
  assert.equal(firstWordsIn(3000), "First words in about 3 s.");
  assert.equal(firstWordsIn(130_000), "First words in about 2 min.");
  const answer = new Foretelling(undefined, both, 0);
  assert.equal(answer.sentence(0), "");
  answer.take(reading("Ada", 32, 3200), 100);
  answer.take(reading("Ada", 64, 3200), 1200);
  assert.equal(answer.sentence(1200), "", "nothing is known of Quill");
});

test("a first answer is foretold by a second of its own reading, and only to its end", () => {
  const answer = new Foretelling(undefined, both, 0);
  answer.take(reading("Ada", 32, 232), 100);
  answer.take(reading("Quill", 32, 3232), 100);
  answer.take(reading("Ada", 132, 232), 600);
  answer.take(reading("Quill", 132, 3232), 600);
  assert.equal(answer.sentence(600), "", "too early");
  answer.take(reading("Ada", 232, 232), 1100);
  answer.take(reading("Quill", 232, 3232), 1100);
  assert.equal(answer.sentence(1100), "The question is read in about 15 s.");
  answer.take(begin([232, 3232]), 16_000);
  assert.equal(answer.sentence(16_000), "", "how long they draft is unknown");
});

test("an answer is foretold at once by an earlier pace, counts down, and follows the facts", () => {
  const answer = new Foretelling(pace, both, 0);
  assert.equal(answer.sentence(0), "", "how much they have to read is not known yet");
  answer.expect({ Ada: 1000, Quill: 1000 }, 1000);
  assert.equal(answer.sentence(1000), "First words in about 12 s.");
  assert.equal(answer.sentence(4000), "First words in about 9 s.");
  // Quill turns out to be twice as fast.
  answer.take(reading("Quill", 100, 1000), 4000);
  answer.take(reading("Quill", 500, 1000), 6000);
  answer.take(reading("Ada", 1000, 1000), 6000);
  assert.equal(answer.sentence(6000), "First words in about 5 s.");
  answer.expect({ Ada: 9000, Quill: 9000 }, 6000);
  assert.equal(answer.sentence(6000), "First words in about 5 s.", "the events know better");
  answer.take(begin([1000, 1000]), 8000);
  assert.equal(answer.sentence(8500), "First words in about 2 s.");
  assert.equal(answer.sentence(9800), "", "it is late, and there is nothing left to count");
  answer.take(round("One"), 9900);
  assert.equal(answer.left(9900), undefined);
});

test("a short wait has no sentence, one that has begun is counted to its end", () => {
  const short = new Foretelling(pace, both, 0);
  short.expect({ Ada: 20, Quill: 20 }, 0);
  assert.equal(short.sentence(0), "");
  const long = new Foretelling(pace, both, 0);
  long.expect({ Ada: 20, Quill: 200 }, 0);
  assert.equal(long.sentence(0), "First words in about 4 s.");
  long.take(begin([20, 200]), 2000);
  assert.equal(long.sentence(3000), "First words in about 1 s.");
});

test("members that read elsewhere are neither waited for nor measured", () => {
  const answer = new Foretelling(pace, ["Ada"], 0);
  answer.expect({ Ada: 4000 }, 0);
  assert.equal(answer.sentence(0), "First words in about 6 s.");
  answer.take(begin([4000, 4000]), 4000);
  assert.deepEqual(answer.measured, { read: { Ada: { tokens: 4000, ms: 4000 } } });
});

test("short prompts, continued answers and failures measure nothing", () => {
  const short = new Foretelling(undefined, both, 0);
  short.take(begin([255, 256]), 160);
  assert.deepEqual(short.measured, { read: { Quill: { tokens: 256, ms: 160 } } });
  const continued = new Foretelling(undefined, both, 0, false);
  continued.take(begin([100, 100]), 160);
  assert.equal(continued.measured, undefined);
  const error = { kind: "Engine", message: "It stopped." } as const;
  for (const failure of [
    { type: "reopened", error } as const,
    { type: "left", round: 1, member: "Ada", error } as const,
  ]) {
    const failed = new Foretelling(pace, both, 0);
    failed.take(begin([100, 100]), 160);
    failed.take(failure, 200);
    assert.equal(failed.measured, undefined, failure.type);
  }
  const stopped = new Foretelling(undefined, both, 0);
  assert.equal(stopped.measured, undefined, "while it was read");
});

test("short prompts, as most are, say how fast a member reads until a long one does", () => {
  const answer = new Foretelling(undefined, both, 1000);
  answer.take(reading("Quill", 32, 40), 1300);
  answer.take(reading("Quill", 40, 40), 1400);
  answer.take(begin([15, 40]), 1500);
  answer.take(round("One"), 3500);
  assert.deepEqual(answer.brief, { Quill: { tokens: 40, ms: 400 } }, "Ada's is too short even so");
  const paces = new Paces();
  const learn = (brief: Pace["brief"], read: Pace["read"] = {}): void =>
    paces.learn("both", { read, first: 2000, ...(brief && { brief }) });
  learn(answer.brief);
  learn({ Quill: { tokens: 50, ms: 5000 } });
  learn({ Ada: { tokens: 20, ms: 40 } });
  const later = new Paces();
  later.restore(structuredClone(paces.kept));
  const time = (of: Paces, tokens = 300): number | undefined =>
    timeFor(of.get("both")!, { Ada: 9, Quill: tokens });
  assert.equal(time(later), 5000, "what one waits for is no reading");
  const next = new Foretelling(later.get("both"), both, 0);
  next.expect({ Ada: 9, Quill: 300 }, 0);
  assert.equal(next.sentence(0), "First words in about 5 s.");
  // Nothing follows for far longer prompts: most of a brief one's time is the start.
  assert.deepEqual([time(later, 320), time(later, 321)], [5200, undefined]);
  const long = new Foretelling(later.get("both"), both, 0);
  long.expect({ Ada: 9, Quill: 3000 }, 0);
  assert.equal(long.sentence(0), "");
  learn(undefined, { Quill: { tokens: 300, ms: 1000 } });
  assert.deepEqual([time(paces), time(paces, 3000)], [3000, 12_000]);

  const continued = new Foretelling(undefined, both, 0, false);
  continued.take(begin([40, 40]), 160);
  assert.deepEqual([continued.brief, new Foretelling(pace, both, 0).brief], [undefined, undefined]);
});

test("only what a member does not hold is read", () => {
  const say = (role: "user" | "assistant", content: string) => ({ role, content });
  const asked = [say("user", "12345678")];
  const answer = new Foretelling(undefined, both, 0);
  answer.take(begin([60, 50]), 10);
  answer.take(round("abcdefgh", [100, 80]), 20);
  const held = new Map(answer.held(asked, "abcdefgh"));
  assert.deepEqual([...held.keys()], both);
  const ada = held.get("Ada");
  const next = [...asked, say("assistant", "abcdefgh"), say("user", "more")];
  assert.equal(unread(130, next, ada), 30);
  assert.equal(unread(130, next, held.get("Quill")), 50);
  assert.equal(unread(130, next), 130, "another engine holds nothing");
  assert.equal(unread(130, [say("user", "another"), ...next.slice(1)], ada), 130);
  assert.equal(unread(130, [...asked, say("assistant", "edited"), say("user", "m")], ada), 80);
  assert.equal(unread(60, asked, ada), 10, "about half of it was the question");
  const dropping = new Foretelling(undefined, both, 0);
  dropping.take(begin([60, 50], 2), 10);
  assert.deepEqual(dropping.held(asked, "a"), [], "not all of it was read");
});

test("paces are of a set of members, follow the latest answers, and are kept", () => {
  const ada = { name: "Ada", bytes: 1000 };
  const quill = { name: "Quill", bytes: 2000 };
  const set = setOf([ada, quill], "cpu", "off");
  assert.equal(setOf([quill, ada], "cpu", "off"), set, "in any order");
  for (const other of [
    setOf([ada], "cpu", "off"),
    setOf([ada, { ...quill, bytes: 2001 }], "cpu", "off"),
    setOf([ada, quill], "webgpu", "off"),
    setOf([ada, quill], "cpu", "on"),
  ])
    assert.notEqual(other, set);
  const paces = new Paces();
  paces.learn(set, pace);
  paces.learn(set, { read: { Ada: { tokens: 1000, ms: 4000 } }, first: 4000 });
  const both = { read: { ...pace.read, Ada: { tokens: 2000, ms: 5000 } }, first: 3000 };
  assert.deepEqual(paces.get(set), both);
  const later = new Paces();
  later.restore(structuredClone(paces.kept));
  assert.deepEqual(later.get(set), both);
  for (const stranger of [undefined, "paces", [{ set }]]) later.restore(stranger);
  assert.deepEqual(later.get(set), both);
  for (let other = 0; other < 16; other++) later.learn(`other ${other}`, pace);
  assert.equal(later.get(set), undefined, "the oldest is not kept for ever");
  later.forget();
  assert.deepEqual(later.kept, []);
});
