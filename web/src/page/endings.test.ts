/** Notices about members that ended a tab. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Ending } from "../kept/risks.ts";
import { showEndings } from "./endings.ts";
import type { Slot } from "./members-panel.ts";
import type { Action } from "./notices.ts";

const ended = (name: string, phase: Ending["phase"], once?: boolean): Ending => ({
  key: `hf:${name}`,
  name,
  ref: `hf:${name}`,
  bytes: 1e9,
  phase,
  at: 1,
  ...(once && { once }),
});

/** Shows these endings on a page whose members have slots, as far as they are `seated`. */
function shown(endings: Ending[], seated: string[] = []) {
  const notices = new Map<string, { text: string; actions: Action[] }>();
  const tried: string[] = [];
  const slots = seated.map((name) => ({ source: { name, ref: `hf:${name}` } }) as Slot);
  showEndings(endings, {
    roster: { slots, retry: async ({ source }) => void tried.push(source.name) },
    choosing: { addAgain: ({ name }) => void tried.push(`${name}, added`) },
    notices: {
      show: (key, _tone, text, actions = []) => void notices.set(key, { text, actions }),
    },
  });
  const all = (): { text: string; actions: Action[] }[] => [...notices.values()];
  return {
    tried,
    notices: () => all().map(({ text }) => text),
    buttons: () => all().flatMap(({ actions }) => actions.map(({ label }) => label)),
    /** Presses a button, with which its notice goes. */
    press: (label: string): void => {
      for (const [key, { actions }] of [...notices]) {
        const action = actions.find((one) => one.label === label);
        if (action && notices.delete(key)) action.run();
      }
    },
  };
}

test("a member that ended a tab is told of, and can be tried again", () => {
  const page = shown([ended("Large", "load")], ["Large"]);
  assert.deepEqual(page.notices(), [
    "A tab with this page ended while Large was being loaded. This visit starts without it.",
  ]);
  assert.deepEqual(page.buttons(), ["Try Large again"]);
  page.press("Try Large again");
  assert.deepEqual([page.tried, page.notices()], [["Large"], []]);
  assert.deepEqual(shown([]).notices(), []);
});

test("several ended tabs are one notice, whose offers each stay until they are taken", () => {
  const page = shown(
    [ended("Large", "load"), ended("Huge", "load"), ended("Wide", "read")],
    ["Large", "Wide"],
  );
  assert.deepEqual(page.notices(), [
    "A tab with this page ended while Large or Huge was being loaded. " +
      "Another ended while Wide was reading the question. This visit starts without them.",
  ]);
  assert.deepEqual(page.buttons(), ["Try Large again", "Try Huge again", "Try Wide again"]);
  page.press("Try Huge again");
  assert.deepEqual(page.tried, ["Huge, added"]);
  assert.deepEqual(page.buttons(), ["Try Large again", "Try Wide again"]);
  assert.equal(page.notices().length, 1);
  page.press("Try Wide again");
  assert.deepEqual(page.notices(), [
    "A tab with this page ended while Large was being loaded. This visit starts without it.",
  ]);
});

test("a first end in a later round leaves nobody out, and says when it would", () => {
  const page = shown([ended("Large", "later", true)], ["Large"]);
  assert.deepEqual(page.notices(), [
    "A tab with this page ended while Large answered, in a later round. " +
      "If that happens again, the next visit starts without it.",
  ]);
  assert.deepEqual(page.buttons(), []);
  assert.deepEqual(shown([ended("Huge", "load"), ended("Large", "later", true)]).notices(), [
    "A tab with this page ended while Huge was being loaded. " +
      "Another ended while Large answered, in a later round. This visit starts without Huge. " +
      "If that happens again, the next visit starts without Large.",
  ]);
});

test("a member of picked files is known by their copy, which its mark names", () => {
  const ref = `copy:${"0".repeat(64)}`;
  const ending: Ending = { key: ref, ref, name: "Ada", bytes: 1e9, phase: "load", at: 1 };
  const slot = { source: { name: "Ada", files: [new File(["model"], "ada.gguf")] }, copy: ref };
  const tried: Partial<Slot>[] = [];
  let offered: Action[] = [];
  showEndings([ending], {
    roster: { slots: [slot as unknown as Slot], retry: async (one) => void tried.push(one) },
    choosing: { addAgain: () => assert.fail("it has a slot") },
    notices: { show: (_key, _tone, _text, actions = []) => void (offered = actions) },
  });
  offered[0]!.run();
  assert.deepEqual(tried, [slot]);
});
