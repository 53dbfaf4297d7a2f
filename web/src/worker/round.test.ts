import assert from "node:assert/strict";
import { test } from "node:test";
import type { Settings } from "../protocol/engine.ts";
import { ConclaveError } from "../protocol/errors.ts";
import { rounds, type Left, type Round } from "./round.ts";
import { ScriptedMember, ScriptedQuery, settings, type Script } from "../testing/scripted.ts";

const whole = (text: string): string => text;
const silent = new AbortController().signal;

function conclave(journal: string[], ...scripts: Script[]): ScriptedMember[] {
  return scripts.map((script, index) => new ScriptedMember("ABCDEFGH"[index]!, journal, script));
}

async function play(
  members: ScriptedMember[],
  query: ScriptedQuery,
  given: Settings = settings,
  signal: AbortSignal = silent,
  cut: (text: string, ended: boolean) => string = whole,
  onOneDevice = false,
): Promise<{ played: Round[]; left: Left[]; stop: string }> {
  const played: Round[] = [];
  const left: Left[] = [];
  const run = rounds(members, query, cut, given, signal, 1, onOneDevice);
  for (;;) {
    const step = await run.next();
    if (step.done) return { played, left, stop: step.value };
    if ("left" in step.value) left.push(step.value);
    else played.push(step.value);
  }
}

test("a round is draft all, verify all, normalise, feedback, select, keep, exit, stop, in this order", async () => {
  const journal: string[] = [];
  const members = conclave(
    journal,
    {
      drafts: [
        { text: " one", ended: false },
        { text: " more", ended: true },
      ],
      taste: (text) => (text === " one" ? 3 : 1),
    },
    {
      drafts: [
        { text: " two", ended: false },
        { text: " less", ended: true },
      ],
      taste: (text) => (text === " one" ? 2 : 1),
    },
  );
  const { played, stop } = await play(members, new ScriptedQuery(2, settings, journal));
  assert.equal(stop, "ended");
  assert.deepEqual(journal.slice(0, 11), [
    "A draft 10",
    "B draft 10",
    'A verify " one"," two"',
    'B verify " one"," two"',
    "normalise",
    "feedback",
    "select",
    "A keep 0",
    "B keep 0",
    "exit",
    "stop",
  ]);
  assert.equal(played.length, 2);
  const [first] = played;
  assert.equal(first!.text, " one");
  assert.equal(first!.winner, 0);
  assert.deepEqual(first!.shares[0], [0.75, 0.25]);
  assert.deepEqual(first!.candidates, [
    { member: "A", text: " one", ended: false, tokens: 4 },
    { member: "B", text: " two", ended: false, tokens: 4 },
  ]);
  assert.equal(played.map((round) => round.text).join(""), " one more");
});

test("a leader drafts alone until somebody doubts it, and who wins then leads", async () => {
  const journal: string[] = [];
  const members = conclave(
    journal,
    {
      drafts: [
        { text: " one", ended: false },
        { text: " odd", ended: false },
      ],
      taste: (text) => (text === " odd" ? 4 : 9),
    },
    {
      drafts: [
        { text: " even", ended: false },
        { text: " end", ended: true },
      ],
      taste: (text) => (text === " odd" ? 1 : 9),
    },
  );
  const led: Settings = { ...settings, leader: { doubt: 5 } };
  const { played, stop } = await play(members, new ScriptedQuery(2, led, journal), led);
  assert.equal(stop, "ended");
  assert.deepEqual(journal, [
    ...[
      "A draft 10",
      'A verify " one"',
      'B verify " one"',
      "trusts",
      "A keep 0",
      "B keep 0",
      "stop",
    ],
    ...["A draft 10", 'A verify " odd"', 'B verify " odd"', "trusts", "B draft 10"],
    ...[
      'A verify " odd"," even"',
      'B verify " odd"," even"',
      "normalise",
      "feedback",
      "select",
      "A keep 1",
      "B keep 1",
      "exit",
      "stop",
    ],
    ...[
      "B draft 10",
      'A verify " end"',
      'B verify " end"',
      "trusts",
      "A keep 0",
      "B keep 0",
      "stop",
    ],
  ]);
  assert.deepEqual(
    played.map(({ drafters, winner, writers, text }) => ({ drafters, winner, writers, text })),
    [
      { drafters: [0], winner: 0, writers: [0], text: " one" },
      { drafters: [0, 1], winner: 1, writers: [1], text: " even" },
      { drafters: [1], winner: 0, writers: [0], text: " end" },
    ],
  );
  const [first, second, third] = played;
  assert.deepEqual(
    [first!.shares, first!.totals, first!.scores.length, first!.weights],
    [[], [], 2, [0.5, 0.5]],
  );
  assert.deepEqual(
    second!.candidates.map(({ member }) => member),
    ["A", "B"],
    "candidates stand in the members' order, whoever led",
  );
  assert.deepEqual(third!.candidates, [{ member: "B", text: " end", ended: true, tokens: 4 }]);
});

test("a leader that fails leaves the round to the next; a stop after a doubt takes nothing", async () => {
  const led: Settings = { ...settings, leader: { doubt: 5 }, maxRounds: 1 };
  const sure = { drafts: [{ text: " sure", ended: true }], taste: () => 9 };
  const failing = await play(
    conclave([], { ...sure, failure: { move: "draft", call: 1, error: broken } }, sure, sure),
    new ScriptedQuery(3, led),
    led,
  );
  assert.deepEqual(
    failing.left.map(({ round, left }) => ({ round, left })),
    [{ round: 1, left: 0 }],
  );
  assert.deepEqual(
    failing.played.map(({ drafters, candidates }) => [drafters, candidates[0]!.member]),
    [[[1], "B"]],
  );
  const verifier = await play(
    conclave([], sure, { ...sure, failure: { move: "verify", call: 1, error: broken } }),
    new ScriptedQuery(2, led),
    led,
  );
  assert.deepEqual(
    [verifier.left[0]?.left, verifier.played[0]?.drafters, verifier.stop],
    [1, [0], "ended"],
  );

  const stopping = new AbortController();
  const journal: string[] = [];
  const odd: Script = { drafts: [{ text: " odd", ended: false }], taste: () => 1 };
  const members = conclave(journal, odd, {
    ...odd,
    onMove: (move) => (move === "draft" ? stopping.abort() : undefined),
  });
  const stopped = await play(members, new ScriptedQuery(2, led, journal), led, stopping.signal);
  assert.deepEqual([stopped.played, stopped.stop], [[], "stopped"]);
  assert.deepEqual(
    journal,
    ["A draft 10", 'A verify " odd"', 'B verify " odd"', "trusts", "B draft 10"],
    "nobody scores or keeps",
  );
});

test("fast mode takes a leader's end too, unverified", async () => {
  const journal: string[] = [];
  const fast: Settings = { ...settings, leader: { doubt: 5 }, fast: true };
  const { played, stop } = await play(
    conclave(
      journal,
      { drafts: [{ text: " end", ended: true }], taste: () => 1 },
      { drafts: [{ text: " b", ended: false }], taste: () => 1 },
    ),
    new ScriptedQuery(2, fast, journal),
    fast,
  );
  assert.deepEqual(
    [journal, stop, played[0]!.drafters, played[0]!.weights],
    [["A draft 10", "stop"], "ended", [0], [0.5, 0.5]],
  );
});

test("with update after, feedback follows the selection", async () => {
  const journal: string[] = [];
  const members = conclave(journal, { drafts: [{ text: "x", ended: true }], taste: () => 1 });
  const after: Settings = { ...settings, update: "after" };
  await play(members, new ScriptedQuery(1, after, journal), after);
  assert.deepEqual(
    journal.filter((entry) => ["select", "feedback"].includes(entry)),
    ["select", "feedback"],
  );
});

test("candidates are cut before anyone scores them", async () => {
  const journal: string[] = [];
  const members = conclave(journal, {
    drafts: [{ text: "whole wor", ended: false }],
    taste: () => 1,
  });
  const once: Settings = { ...settings, maxRounds: 1 };
  const seen: boolean[] = [];
  const cut = (text: string, ended: boolean): string => (
    seen.push(ended), text.slice(0, text.lastIndexOf(" "))
  );
  const { played, stop } = await play(
    members,
    new ScriptedQuery(1, once, journal),
    once,
    silent,
    cut,
  );
  assert.equal(stop, "rounds");
  assert.equal(played[0]!.text, "whole");
  assert.deepEqual(seen, [false]);
  assert.ok(journal.includes('A verify "whole"'));
});

test("a member that exits neither drafts nor votes again, and frees its cache", async () => {
  const journal: string[] = [];
  const likes = (text: string): number => (text === "a" ? 9 : 1);
  const members = conclave(
    journal,
    {
      drafts: [
        { text: "a", ended: false },
        { text: "a", ended: true },
      ],
      taste: likes,
    },
    { drafts: [{ text: "b", ended: false }], taste: likes },
    { drafts: [{ text: "c", ended: false }], taste: likes },
  );
  const { played } = await play(members, new ScriptedQuery(3, settings, journal, { 1: [1] }));
  assert.deepEqual(
    played.map((round) => round.active),
    [
      [0, 1, 2],
      [0, 2],
    ],
  );
  assert.deepEqual(played[0]!.exited, [1]);
  const left = journal.indexOf("B release");
  assert.ok(left > 0);
  assert.ok(journal.slice(left + 1).every((entry) => !entry.startsWith("B ")));
  assert.deepEqual(
    played[1]!.candidates.map((candidate) => candidate.member),
    ["A", "C"],
  );
});

test("fast mode takes a candidate with an end token unverified", async () => {
  const journal: string[] = [];
  const members = conclave(
    journal,
    { drafts: [{ text: "long", ended: false }], taste: () => 1 },
    { drafts: [{ text: "done.", ended: true }], taste: () => 1 },
  );
  const fast: Settings = { ...settings, fast: true };
  const { played, stop } = await play(members, new ScriptedQuery(2, fast, journal), fast);
  assert.equal(stop, "ended");
  assert.equal(played[0]!.text, "done.");
  assert.equal(played[0]!.winner, 1);
  assert.deepEqual(played[0]!.scores, []);
  assert.ok(!journal.some((entry) => entry.includes("verify")));
});

test("all who drafted the winner's words are its writers, where they end alike", async () => {
  const says = (text: string, ended: boolean): Script => ({
    drafts: [{ text, ended }],
    taste: (text) => (text === " yes" ? 9 : 1),
  });
  const scripts = [says(" no", true), says(" yes", true), says(" yes", false), says(" yes", true)];
  for (const fast of [false, true]) {
    const given: Settings = { ...settings, fast };
    // In fast mode the first that ends is taken: nobody else says no.
    const first = fast ? [scripts[2]!, ...scripts.slice(1)] : scripts;
    const { played } = await play(conclave([], ...first), new ScriptedQuery(4, given), given);
    assert.deepEqual([played[0]!.winner, played[0]!.writers], [1, [1, 3]]);
  }
  // Who has left is none: writers go by place among the active.
  const talk = says(" yes", false);
  const { played } = await play(
    conclave([], talk, talk, talk),
    new ScriptedQuery(3, settings, [], { 1: [0] }),
    { ...settings, maxRounds: 2 },
  );
  assert.deepEqual(
    played.slice(0, 2).map(({ active, writers }) => [active, writers]),
    [
      [
        [0, 1, 2],
        [0, 1, 2],
      ],
      [
        [1, 2],
        [0, 1],
      ],
    ],
  );
});

test("a signal stops within the round: its text is not taken, earlier text stands", async () => {
  const journal: string[] = [];
  const stopping = new AbortController();
  const members = conclave(journal, {
    drafts: [{ text: "a", ended: false }],
    taste: () => 1,
    onMove: (move, call) => (move === "verify" && call === 3 ? stopping.abort() : undefined),
  });
  const { played, stop } = await play(
    members,
    new ScriptedQuery(1, settings, journal),
    settings,
    stopping.signal,
  );
  assert.equal(stop, "stopped");
  assert.equal(played.map((round) => round.text).join(""), "aa");
  assert.equal(journal.filter((entry) => entry.startsWith("A keep")).length, 2);
});

const full = Object.assign(new Error("The conversation fills the context."), {
  name: "ContextFull",
});
const broken = Object.assign(new Error("The numbers are none."), { name: "Engine" });

test("a member that fails leaves once the others have settled, and they begin the round anew", async () => {
  for (const move of ["draft", "verify"] as const) {
    for (const error of [full, broken]) {
      const journal: string[] = [];
      let slowDone = false;
      const members = conclave(
        journal,
        {
          drafts: [{ text: "a", ended: false }],
          taste: () => 1,
          failure: { move, call: 2, error },
        },
        {
          drafts: [{ text: "b", ended: false }],
          taste: () => 1,
          onMove: async (made, call) => {
            if (made !== move || call !== 2) return;
            await new Promise((resolve) => setTimeout(resolve, 30));
            slowDone = true;
          },
        },
        { drafts: [{ text: "c", ended: false }], taste: () => 1 },
      );
      const { played, left, stop } = await play(
        members,
        new ScriptedQuery(3, { ...settings, maxRounds: 4 }, journal),
      );
      assert.ok(slowDone, "the other member's call had settled");
      assert.equal(stop, "rounds");
      assert.deepEqual(
        played.map((round) => [round.round, round.active]),
        [
          [1, [0, 1, 2]],
          [2, [1, 2]],
          [3, [1, 2]],
          [4, [1, 2]],
        ],
      );
      assert.deepEqual(
        left.map(({ round, left, error: { kind, member } }) => ({ round, left, kind, member })),
        [{ round: 2, left: 0, kind: error.name, member: "A" }],
      );
      const gone = journal.indexOf("A release");
      assert.ok(
        journal.slice(gone + 1).every((entry) => !entry.startsWith("A ")),
        journal.join("\n"),
      );
      assert.equal(
        journal.filter((entry) => entry.startsWith("B keep")).length,
        4,
        "each round is kept once",
      );
    }
  }
});

test("what a device refuses is told of the member whose work it was, not of who reads first", async () => {
  // The device tells of an error to the next one that reads, and then has told it.
  let refused: Error | undefined;
  const heard = (): void => {
    const error = refused;
    refused = undefined;
    if (error) throw error;
  };
  const pause = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const script = (text: string): Script => ({
    drafts: [{ text, ended: true }],
    taste: () => 1,
    onMove: async () => (await pause(), heard()),
  });
  const breaking: Script = {
    ...script(" two"),
    onMove: async (move) => {
      if (move === "draft")
        refused = Object.assign(new Error("The driver refused it."), { name: "Engine" });
      await pause();
      await pause();
      heard();
    },
  };
  const journal: string[] = [];
  const { played, left, stop } = await play(
    conclave(journal, script(" one"), breaking, script(" three")),
    new ScriptedQuery(3, settings, journal),
    settings,
    silent,
    whole,
    true,
  );
  assert.deepEqual(
    left.map(({ left, error }) => [left, error.member]),
    [[1, "B"]],
  );
  assert.deepEqual([played.map(({ active }) => active), stop], [[[0, 2]], "ended"]);
  assert.deepEqual(journal.slice(0, 6), [
    "A draft 10",
    "B draft 10",
    "C draft 10",
    "A draft 10",
    "B draft 10",
    "leave 1",
  ]);

  // What was refused once, and is not again, costs nobody its place.
  let once = true;
  const stumbling: Script = {
    ...breaking,
    onMove: async (move) => {
      if (move === "draft" && once)
        refused = Object.assign(new Error("The driver refused it."), { name: "Engine" });
      once = false;
      await pause();
      heard();
    },
  };
  const { left: none, stop: end } = await play(
    conclave([], script(" one"), stumbling),
    new ScriptedQuery(2, settings),
    settings,
    silent,
    whole,
    true,
  );
  assert.deepEqual([none, end], [[], "ended"]);
});

test("who can't keep a winner leaves; the round counts, for the others have kept it", async () => {
  const journal: string[] = [];
  const members = conclave(
    journal,
    { drafts: [{ text: "a", ended: false }], taste: () => 1 },
    {
      drafts: [{ text: "b", ended: false }],
      taste: () => 1,
      failure: { move: "keep", call: 2, error: broken },
    },
  );
  const { played, left, stop } = await play(
    members,
    new ScriptedQuery(2, { ...settings, maxRounds: 3 }, journal),
  );
  assert.deepEqual([stop, played.map(({ text }) => text).join("")], ["rounds", "aaa"]);
  assert.deepEqual(
    played.map(({ active }) => active),
    [[0, 1], [0, 1], [0]],
  );
  assert.deepEqual(
    left.map(({ round, left }) => [round, left]),
    [[2, 1]],
  );
  assert.equal(journal.filter((entry) => entry.startsWith("A keep")).length, 3);
});

test("where the last one's context is full the answer is over; other failures of the last one are errors", async () => {
  const failing = (call: number, error: Error): Script => ({
    drafts: [{ text: "a", ended: false }],
    taste: () => 1,
    failure: { move: "draft", call, error },
  });
  const both = await play(
    conclave([], failing(2, broken), failing(4, full)),
    new ScriptedQuery(2, settings),
  );
  assert.deepEqual([both.stop, both.played.length, both.left.length], ["context", 2, 1]);
  const alone = await play(conclave([], failing(3, full)), new ScriptedQuery(1, settings));
  assert.deepEqual([alone.stop, alone.played.length, alone.left], ["context", 2, []]);
  const last = play(
    conclave([], failing(2, full), failing(4, broken)),
    new ScriptedQuery(2, settings),
  );
  await assert.rejects(
    last,
    (error: unknown) =>
      error instanceof ConclaveError && error.kind === "Engine" && error.member === "B",
  );
  // Before anything is written there is no answer to end.
  await assert.rejects(play(conclave([], failing(1, full)), new ScriptedQuery(1, settings)), {
    name: "ContextFull",
    member: "A",
  });
});

test("a fault of the method is nobody's, and ends the answer", async () => {
  const query = new ScriptedQuery(2, settings);
  query.normalise = () => {
    throw new Error("a score is not finite");
  };
  const talk: Script = { drafts: [{ text: "a", ended: false }], taste: () => 1 };
  await assert.rejects(
    play(conclave([], talk, talk), query),
    (error: unknown) => error instanceof ConclaveError && error.member === undefined,
  );
});
