/** Rounds of an answer's text: where the focus goes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { roundOf } from "../testing/kept-turn.ts";
import { AnswerView } from "./answer-view.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });

test("the focus of a round without text goes to the text before it, or to the first", () => {
  const view = new AnswerView([0, 1]);
  const focused: (string | undefined)[] = [];
  window.HTMLElement.prototype.focus = function (this: HTMLElement) {
    focused.push(this.dataset["round"]);
  };
  view.show(["", "One", " two", "", " three"].map((text, place) => roundOf(text, place + 1)));
  for (const round of [1, 2, 3, 4, 5, 6]) view.focus(round);
  assert.deepEqual(focused, ["2", "2", "3", "3", "5", "5"]);
});
