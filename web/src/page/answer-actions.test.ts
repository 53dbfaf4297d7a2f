/** Actions on an answer: why it can't be gone on with. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { AnswerActions } from "./answer-actions.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });

function actions(): AnswerActions {
  const nothing = (): void => undefined;
  return new AnswerActions({
    text: () => "",
    onRegenerate: nothing,
    onContinue: nothing,
    onRounds: nothing,
    onSideBySide: nothing,
    onDownload: nothing,
    onPicture: async () => undefined,
  });
}

test("a Continue that can't be pressed says why, beside it and for a screen reader", () => {
  const shown = actions();
  const can = { asking: true, unable: undefined, alone: true, strongest: true };
  const end = { text: true, rounds: true, compared: true, strongest: "Ada", replayable: true };
  const goOn = shown.root.querySelector(".go-on") as HTMLButtonElement;
  const whyNot = shown.root.querySelector(".why-not") as HTMLElement;
  const told = () => [goOn.disabled, whyNot.textContent, whyNot.classList.contains("hidden")];
  shown.show({ ...end, unfinished: true });
  shown.enable(can);
  assert.deepEqual(told(), [false, "", true]);
  const title = goOn.title;
  assert.equal(goOn.getAttribute("aria-describedby"), whyNot.id);
  assert.equal(goOn.nextElementSibling, whyNot);
  shown.enable({ ...can, unable: "Toys wrote this." });
  assert.deepEqual(told(), [true, "Toys wrote this.", false]);
  assert.equal(goOn.title, "Toys wrote this.");
  shown.enable({ ...can, asking: false });
  assert.deepEqual(told(), [true, "The members are busy now.", true], "nothing moves");
  shown.enable(can);
  assert.deepEqual([...told(), goOn.title], [false, "", true, title]);
  shown.show({ ...end, unfinished: false });
  assert.ok(whyNot.hidden && goOn.hidden);
  assert.notEqual(actions().root.querySelector(".why-not")!.id, whyNot.id);
});
