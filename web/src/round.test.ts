import assert from "node:assert/strict";
import { test } from "node:test";
import type { Settings } from "./engine.ts";
import { ConclaveError } from "./errors.ts";
import { rounds, type Round } from "./round.ts";
import { ScriptedMember, ScriptedQuery, settings, type Script } from "./scripted.ts";

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
): Promise<{ played: Round[]; stop: string }> {
  const played: Round[] = [];
  const run = rounds(members, query, cut, given, signal);
  for (;;) {
    const step = await run.next();
    if (step.done) return { played, stop: step.value };
    played.push(step.value);
  }
}

test("a round is draft all, verify all, normalise, feedback, select, keep, exit, stop, in this order", async () => {
  const journal: string[] = [];
  const members = conclave(
    journal,
    { drafts: [{ text: " one", ended: false }, { text: " more", ended: true }], taste: (text) => (text === " one" ? 3 : 1) },
    { drafts: [{ text: " two", ended: false }, { text: " less", ended: true }], taste: (text) => (text === " one" ? 2 : 1) },
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

test("with update after, feedback follows the selection", async () => {
  const journal: string[] = [];
  const members = conclave(journal, { drafts: [{ text: "x", ended: true }], taste: () => 1 });
  const after: Settings = { ...settings, update: "after" };
  await play(members, new ScriptedQuery(1, after, journal), after);
  assert.deepEqual(journal.filter((entry) => ["select", "feedback"].includes(entry)), ["select", "feedback"]);
});

test("candidates are cut before anyone scores them", async () => {
  const journal: string[] = [];
  const members = conclave(journal, { drafts: [{ text: "whole wor", ended: false }], taste: () => 1 });
  const once: Settings = { ...settings, maxRounds: 1 };
  const seen: boolean[] = [];
  const cut = (text: string, ended: boolean): string => (seen.push(ended), text.slice(0, text.lastIndexOf(" ")));
  const { played, stop } = await play(members, new ScriptedQuery(1, once, journal), once, silent, cut);
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
    { drafts: [{ text: "a", ended: false }, { text: "a", ended: true }], taste: likes },
    { drafts: [{ text: "b", ended: false }], taste: likes },
    { drafts: [{ text: "c", ended: false }], taste: likes },
  );
  const { played } = await play(members, new ScriptedQuery(3, settings, journal, { 1: [1] }));
  assert.deepEqual(played.map((round) => round.active), [[0, 1, 2], [0, 2]]);
  assert.deepEqual(played[0]!.exited, [1]);
  const left = journal.indexOf("B release");
  assert.ok(left > 0);
  assert.ok(journal.slice(left + 1).every((entry) => !entry.startsWith("B ")));
  assert.deepEqual(played[1]!.candidates.map((candidate) => candidate.member), ["A", "C"]);
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

test("a signal stops within the round: its text is not taken, earlier text stands", async () => {
  const journal: string[] = [];
  const stopping = new AbortController();
  const members = conclave(journal, {
    drafts: [{ text: "a", ended: false }],
    taste: () => 1,
    onMove: (move, call) => (move === "verify" && call === 3 ? stopping.abort() : undefined),
  });
  const { played, stop } = await play(members, new ScriptedQuery(1, settings, journal), settings, stopping.signal);
  assert.equal(stop, "stopped");
  assert.equal(played.map((round) => round.text).join(""), "aa");
  assert.equal(journal.filter((entry) => entry.startsWith("A keep")).length, 2);
});

test("one member's failure waits for the others and says whose it was", async () => {
  const journal: string[] = [];
  let slowDone = false;
  const broken = Object.assign(new Error("The conversation fills the context."), { name: "ContextFull" });
  const members = conclave(
    journal,
    { drafts: [{ text: "a", ended: false }], taste: () => 1, failure: { move: "draft", call: 2, error: broken } },
    {
      drafts: [{ text: "b", ended: false }],
      taste: () => 1,
      onMove: async (move, call) => {
        if (move !== "draft" || call !== 2) return;
        await new Promise((resolve) => setTimeout(resolve, 30));
        slowDone = true;
      },
    },
  );
  await assert.rejects(play(members, new ScriptedQuery(2, settings, journal)), (error: unknown) => {
    assert.ok(error instanceof ConclaveError);
    assert.equal(error.kind, "ContextFull");
    assert.equal(error.member, "A");
    assert.ok(slowDone, "the other member's call had settled");
    return true;
  });
});
