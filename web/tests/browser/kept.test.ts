/**
 * What the page keeps: conversations, the half-typed question, settings and members outlive a
 * reload at any moment, and a tab that dies names the model at fault.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { after, before } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const story = "Tell me a short story about a fox.";

// Makes answers long enough for a reload in their midst.
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

/** A visitor whose answers are the likeliest, in short segments. */
async function arrive(): Promise<Visitor> {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  await visitor.set("temperature", "0");
  await visitor.set("segmentTokens", "2");
  return visitor;
}

interface Shown {
  questions: string[];
  answers: string[];
  draft: string;
}

const shown = ({ page }: Visitor): Promise<Shown> =>
  page.evaluate(() => ({
    questions: [...document.querySelectorAll(".exchange .question")].map(
      (each) => each.textContent ?? "",
    ),
    answers: [...document.querySelectorAll(".exchange .answer")].map((answer) =>
      [...answer.querySelectorAll(".segment")].map((each) => each.textContent).join(""),
    ),
    draft: document.querySelector<HTMLTextAreaElement>("#question")!.value,
  }));

const idle = async ({ page }: Visitor): Promise<void> => {
  await page.waitForFunction(
    () =>
      document.body.dataset["state"] === "ready" &&
      document.querySelector(".growing") === null &&
      ![...document.querySelectorAll(".facts")].some((each) =>
        each.textContent?.includes("broken off when"),
      ),
  );
};

test("a conversation outlives twenty reloads, at any moment of it, and loses nothing", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const whole = await visitor.answer(story);
  await page.locator("#new").click();
  await visitor.ask(story);
  let reloads = 0;
  let last = await shown(visitor);
  const reload = async (moment: number): Promise<void> => {
    await page.waitForTimeout(moment);
    last = await shown(visitor);
    await page.reload();
    reloads++;
    await page
      .locator(".exchange")
      .nth(last.questions.length - 1)
      .waitFor();
    const now = await shown(visitor);
    assert.deepEqual(now.questions, last.questions, `after reload ${reloads}`);
    assert.equal(now.draft, last.draft);
    for (const [index, answer] of last.answers.entries())
      assert.ok(
        now.answers[index]!.startsWith(answer),
        `${reloads}: ${JSON.stringify(answer)} became ${JSON.stringify(now.answers[index])}`,
      );
  };
  for (const moment of [0, 5, 30, 80, 150, 300, 500, 700, 900, 1200, 1600]) await reload(moment);
  await idle(visitor);
  assert.deepEqual((await shown(visitor)).answers, [whole], "it goes on as it would have");
  assert.equal(await page.locator(".growing").count(), 0);
  // A second question, typed in parts between reloads.
  for (const part of ["What is ", "347 + ", "586?"]) {
    await page.locator("#question").pressSequentially(part);
    await reload(0);
  }
  assert.equal(last.draft, sum);
  await visitor.state("ready");
  await page.locator("#ask").click();
  await page.locator(".exchange").nth(1).waitFor();
  for (const moment of [0, 100, 400, 800]) await reload(moment);
  await idle(visitor);
  for (const moment of [0, 200]) await reload(moment);
  assert.equal(reloads, 20);
  assert.deepEqual(last.questions, [story, sum]);
  assert.notEqual(last.answers[1], "");
  await visitor.state("ready");
  assert.equal(await page.locator("#setting-temperature").inputValue(), "0");
  assert.equal(await page.locator("#setting-segmentTokens").inputValue(), "2");
  // Its rounds are there, too.
  await page.locator(".segment").first().click();
  await page.locator(".inspector").waitFor();
  await visitor.leaveClean();
});
