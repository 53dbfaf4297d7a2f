/** The time to the first words on the page: of whom it is asked, and what it is learnt from. */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Conclave } from "../library/conclave.ts";
import type { Message } from "../protocol/engine.ts";
import type { BeginEvent } from "../protocol/messages.ts";
import { roundOf, turnOf } from "../testing/kept-turn.ts";
import { FirstWords, type Read } from "./first-words.ts";
import type { Foretelling } from "./foretold.ts";

const ignored = (): void => undefined;
// Time passes only as a test says.
mock.method(performance, "now", () => 0);

const room = 1000;
const asked = (content: string): Message[] => [{ role: "user", content }];
const question = (content: string, change: Partial<Read> = {}): Read => ({
  messages: asked(content),
  members: [
    { source: { name: "Ada" }, about: { bytes: 1, context: room } as never },
    { source: { name: "Far", remote: "https://far.example/v1" } },
  ],
  thinking: "off",
  ...change,
});

/** An engine in which a character is a token; `measured`: the members that were asked. */
function engine(
  failed = false,
): Pick<Conclave, "backend" | "failed" | "measure"> & { measured: string[] } {
  const measured: string[] = [];
  return {
    backend: "cpu",
    failed,
    measured,
    measure: async (messages, { members = [] } = {}) => {
      measured.push(...members);
      const tokens = messages.reduce((sum, { content }) => sum + content.length, 0);
      if (tokens > room) throw new Error("It is too long.");
      return members.map((member) => ({ member, tokens, room }));
    },
  };
}

/** Lets an answer take so long: 10 ms for each token, and then 2 s. */
function play(telling: Foretelling, run: number, dropped = 0): void {
  const start = performance.now();
  const begin = turnOf("q", []).events[0] as BeginEvent;
  const prefixes = [
    { prefix: run, run },
    { prefix: run, run: 0 },
  ];
  telling.take({ type: "reading", member: "Ada", done: 0, total: run }, start);
  telling.take({ type: "reading", member: "Ada", done: run, total: run }, start + run * 10);
  telling.take({ ...begin, members: ["Ada", "Far"], prefixes, dropped }, start + run * 10);
  telling.take(roundOf("One", 1), start + run * 10 + 2000);
}

test("a question is foretold by the answer before it, without a word to a server", async () => {
  const kept: unknown[] = [];
  const firstWords = new FirstWords((paces) => kept.push(paces));
  const here = engine();
  const first = question("x".repeat(500));
  assert.equal(await firstWords.before(here, first), "");
  const telling = firstWords.await(here, first, true);
  assert.deepEqual(here.measured, [], "nothing could be foretold by it");
  play(telling, 500);
  firstWords.learn(here, first, telling, "One");
  assert.equal(
    await firstWords.before(here, question("y".repeat(700))),
    "First words in about 9 s.",
  );
  assert.deepEqual(here.measured, ["Ada"]);

  const again = firstWords.await(here, question("y".repeat(900)), true);
  await new Promise((resolve) => setImmediate(resolve));
  const left = again.left(performance.now());
  assert.ok(left && left.ms <= 11_001 && left.ms > 10_000, String(left?.ms));

  // The conversation goes on: what is held is not read again, but by another engine.
  const next = [...first.messages, { role: "assistant", content: "One" } as const];
  const more = question("", { messages: [...next, ...asked("z".repeat(300))] });
  assert.equal(await firstWords.before(here, more), "First words in about 5 s.");
  assert.equal(await firstWords.before(engine(), more), "First words in about 10 s.");
  // Where turns were left out, a member holds something else, and reads all again.
  const cut = firstWords.await(here, more, true);
  play(cut, 803, 1);
  firstWords.learn(here, more, cut, "Two");
  assert.equal(await firstWords.before(here, more), "First words in about 10 s.");

  // Another visit knows as much; a set of members that was not asked is not foretold.
  const later = new FirstWords(() => undefined);
  later.restore(kept.at(-1));
  assert.equal(await later.before(here, question("y".repeat(700))), "First words in about 9 s.");
  const alone = question("y", { members: first.members.slice(0, 1) });
  assert.equal(await later.before(here, alone), "");
  later.forget();
  assert.equal(await later.before(here, first), "");

  // To measure would open another engine in place of one that failed.
  const gone = engine(true);
  assert.equal(await firstWords.before(gone, first), "");
  assert.deepEqual(gone.measured, []);
});

test("a long question is foretold by short ones of an earlier visit, but not on a GPU", async () => {
  for (const backend of ["cpu", "webgpu"] as const) {
    let kept: unknown;
    const earlier = new FirstWords((paces) => (kept = paces));
    const here = { ...engine(), backend };
    const short = question("x".repeat(40));
    const telling = earlier.await(here, short, true);
    const begin = turnOf("q", []).events[0] as BeginEvent;
    const prefixes = [{ prefix: 40, run: 40 }, begin.prefixes[1]!];
    telling.take({ type: "reading", member: "Ada", done: 40, total: 40 }, 400);
    telling.take({ ...begin, members: ["Ada", "Far"], prefixes }, 400);
    telling.take(roundOf("One", 1), 2400);
    earlier.learn(here, short, telling, "One");
    const later = new FirstWords(ignored);
    later.restore(kept);
    const told = await later.before(here, question("y".repeat(300)));
    assert.equal(told, backend === "cpu" ? "First words in about 5 s." : "");
    assert.equal(await later.before(here, question("y".repeat(700))), "", "far longer");
  }
});

test("an answer that was under way when all was forgotten teaches nothing", async () => {
  const kept: unknown[] = [];
  const firstWords = new FirstWords((paces) => kept.push(paces));
  const here = engine();
  const first = question("x".repeat(500));
  const telling = firstWords.await(here, first, true);
  play(telling, 500);
  firstWords.forget();
  firstWords.learn(here, first, telling, "One");
  assert.deepEqual([kept, await firstWords.before(here, first)], [[], ""]);
});

test("a file that is longer than the room is foretold as it will be cut", async () => {
  const firstWords = new FirstWords(() => undefined);
  const here = engine();
  const telling = firstWords.await(here, question("x"), true);
  play(telling, 100);
  firstWords.learn(here, question("x"), telling, "One");
  const time = (read: Read): Promise<string> => firstWords.before(here, read);
  const whole = "First words in about 10 s.";
  assert.equal(await time(question("y".repeat(5000), { cut: 3 / 4 })), whole);
  assert.equal(await time(question("y".repeat(950), { cut: 3 / 4 })), whole);
  assert.equal(await time(question("y".repeat(400), { cut: 3 / 4 })), "First words in about 6 s.");
  assert.equal(await time(question("y".repeat(5000))), "", "without a file it can't be asked");
});
