/**
 * Advice about a member whose vote alone decided, and the offer to leave it out, in a small
 * document.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { Advice, overruling, type Voted } from "./advice.ts";

const { window, document } = parseHTML(
  "<!doctype html><html><body>" +
    '<div id="advice"></div><textarea id="question"></textarea></body></html>',
);
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });

const members = ["Ada", "Bo", "Cy"];
const even = [1 / 3, 1 / 3, 1 / 3];

/** Rounds in which all voted; each is turned by the member of this index, or by none. */
const voted = (...turned: (number | undefined)[]): Voted["rounds"] =>
  turned.map((by) => ({
    active: [0, 1, 2],
    shares: [[1], [1], [1]],
    turnedBy: by === undefined ? [] : [by],
  }));
const answer = (rounds: Voted["rounds"], start = even): Voted => ({ members, start, rounds });
const found = (...answers: Voted[]): string[] =>
  overruling(answers).map(({ member, turned, voted }) => `${member} ${turned} of ${voted}`);

test("a third of five voted rounds is told, over the whole conversation; fewer are not", () => {
  assert.deepEqual(found(answer(voted(1, 1, 1, 1))), [], "four rounds say nothing");
  assert.deepEqual(
    found(answer(voted(1, undefined)), answer(voted(1, undefined, undefined, undefined))),
    ["Bo 2 of 6"],
  );
  assert.deepEqual(
    found(answer(voted(1, 1, undefined, undefined, undefined, undefined, undefined))),
    [],
    "two of seven are less than a third",
  );
  assert.deepEqual(
    found(answer(voted(1, 2, 2, 2, 1, undefined))),
    ["Cy 3 of 6", "Bo 2 of 6"],
    "worst first",
  );
});

test("rounds count that the member voted in: not without votes, once it left or was late", () => {
  const unvoted = { active: [0, 1, 2], shares: [], turnedBy: [] };
  const late = { active: [0, 1, 2], shares: [[1], [], [1]], turnedBy: [] };
  const left = { active: [0, 2], shares: [[1], [1]], turnedBy: [1] };
  const rounds = [
    ...voted(1, 1, undefined, undefined, undefined),
    unvoted,
    late,
    ...Array.from({ length: 5 }, () => ({ ...left, turnedBy: [] })),
  ];
  assert.deepEqual(found(answer(rounds)), ["Bo 2 of 5"]);
  assert.deepEqual(
    found(answer(Array.from({ length: 5 }, () => left))),
    ["Cy 5 of 5"],
    "who stands second then is Cy",
  );
});

test("who has more of the vote from the start decides against the others by right", () => {
  const rounds = voted(0, 0, 0, undefined, undefined);
  assert.deepEqual(found(answer(rounds, [0.5, 0.25, 0.25])), []);
  assert.deepEqual(found(answer(rounds, [0.34, 0.33, 0.33])), ["Ada 3 of 5"]);
});

test("the offer leaves the member out, and takes that back; it is made once", () => {
  const host = document.getElementById("advice") as unknown as HTMLElement;
  const takesPart = new Map(members.map((name) => [name, true]));
  const advice: Advice = new Advice(host, {
    canGo: (name) => takesPart.get(name) === true,
    onTakesPart: (name, takes) => {
      takesPart.set(name, takes);
      advice.heed((name) => takesPart.get(name));
    },
  });
  const text = (): string => host.querySelector("[role=status]")?.textContent ?? "";
  const buttons = (): string[] =>
    [...host.querySelectorAll("button")].map(({ textContent }) => textContent ?? "");
  const press = (label: string): void =>
    [...host.querySelectorAll("button")].find(({ textContent }) => textContent === label)!.click();
  const answers = [answer(voted(1, 1, undefined, undefined, undefined))];
  assert.equal(
    host.querySelectorAll("[role=status]").length,
    1,
    "there before it says something, or a screen reader would miss that",
  );

  advice.consider([answer(voted(1))]);
  assert.deepEqual([text(), buttons()], ["", []]);
  advice.consider(answers);
  assert.equal(
    text(),
    "In this conversation Bo's vote alone decided 2 of 5 rounds against all the others.",
  );
  assert.deepEqual(buttons(), ["Answer without Bo", "Keep Bo"]);
  press("Answer without Bo");
  assert.deepEqual(
    [takesPart.get("Bo"), text(), buttons()],
    [false, "Bo takes no part from the next question on.", ["Let Bo take part again"]],
  );
  press("Let Bo take part again");
  assert.deepEqual([takesPart.get("Bo"), text(), buttons()], [true, "Bo takes part.", []]);
  advice.consider(answers);
  assert.deepEqual([text(), buttons()], ["", []], "not asked twice");

  // Another conversation, and changes made by hand.
  advice.reset();
  advice.consider(answers);
  takesPart.set("Bo", false);
  advice.heed((name) => takesPart.get(name));
  assert.deepEqual([text(), buttons()], ["", []], "the visitor was faster");
  advice.consider(answers);
  assert.equal(text(), "", "it takes no part");
  takesPart.set("Bo", true);
  advice.consider(answers);
  press("Answer without Bo");
  takesPart.set("Bo", true);
  advice.heed((name) => takesPart.get(name));
  advice.consider(answers);
  assert.equal(text(), "", "ticked again by hand, it is kept");
  advice.reset();
  advice.consider(answers);
  press("Keep Bo");
  advice.consider(answers);
  assert.deepEqual([takesPart.get("Bo"), text()], [true, ""]);
});
