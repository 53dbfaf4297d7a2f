/** The page and the tool report the writers of an answer in the same words. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { creditLine, type Credited } from "./credits.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });

interface Case {
  members: string[];
  rounds: { writers: number[]; turnedBy?: number[] }[];
  line: string | null;
}

const { cases } = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/credits/lines.json`, "utf8"),
) as { cases: Case[] };

function shown(names: string[], rounds: Credited[]): HTMLElement {
  const line = document.createElement("p") as unknown as HTMLElement;
  line.append(...creditLine(names, [...names.keys()].reverse(), rounds));
  return line;
}

test("the line below an answer of several is the tool's, each name in its colour", () => {
  const ensembles = cases.filter(({ members }) => members.length > 1);
  assert.ok(ensembles.length > 5);
  for (const { members, rounds, line } of ensembles) {
    const all = [...members.keys()];
    const whole = rounds.map(
      ({ writers, turnedBy = [] }): Credited => ({ active: all, drafters: all, writers, turnedBy }),
    );
    const told = shown(members, whole);
    assert.equal(told.textContent, line ?? "");
    for (const name of told.querySelectorAll(".name"))
      assert.equal(
        name.className,
        `name voice-${members.length - members.indexOf(name.textContent ?? "")}`,
      );
  }
});

test("a round is credited also after a member has left; of one alone segments are counted", () => {
  const rounds: Credited[] = [{ active: [0, 2, 3], drafters: [2, 3], writers: [0], turnedBy: [1] }];
  assert.equal(
    shown(["Ada", "Bo", "Cy", "Dee"], rounds).textContent,
    "Written by Cy 1 of 1 segment, Ada none, Bo none, Dee none. " +
      "Cy's vote decided 1 round against all the others.",
  );
  assert.equal(
    shown(["Ada"], [{ active: [0], drafters: [0], writers: [0], turnedBy: [] }]).textContent,
    "Written by Ada in 1 segment.",
  );
});
