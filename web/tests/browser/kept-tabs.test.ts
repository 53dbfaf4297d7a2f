/**
 * Deleting, and keeping nothing, hold in every tab; deleted stays deleted unless it is asked on.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const small = "What is 5 + 8?";
const story = "Tell me a short story about a fox.";

// Answers last long enough to delete them in their midst.
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

async function arrive(): Promise<Visitor> {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  await visitor.set("maxRounds", "2");
  return visitor;
}

/** All texts in the database, and in the tab's other storage. */
const stored = ({ page }: Visitor): Promise<string> =>
  page.evaluate(async () => {
    const open = indexedDB.open("conclave kept");
    const database = await new Promise<IDBDatabase>((resolve) => {
      open.onsuccess = () => resolve(open.result);
    });
    const all = [...database.objectStoreNames].map(
      (name) =>
        new Promise<unknown>((resolve) => {
          const read = database.transaction(name).objectStore(name).getAll();
          read.onsuccess = () => resolve(read.result);
        }),
    );
    const texts = JSON.stringify(await Promise.all(all));
    database.close();
    return texts + JSON.stringify({ ...localStorage, ...sessionStorage });
  });

const said = ({ page }: Visitor, text: RegExp): Promise<void> =>
  page.locator("#conversations-dialog .dialog-status", { hasText: text }).waitFor();

/** Shows the conversation of this title. */
async function show(visitor: Visitor, title: string): Promise<void> {
  await visitor.conversations();
  await visitor.page.locator(".conversation-title", { hasText: title }).click();
  await visitor.page.locator(".exchange").first().waitFor();
}

test("“Keep nothing” holds in every tab at once, in the midst of an answer too", async () => {
  const first = await arrive();
  await first.answer(sum);
  const second = await first.sibling();
  await second.set("maxRounds", "40");
  await second.set("segmentTokens", "2");
  await second.ask(story);
  await second.page.locator(".segment").first().waitFor();
  await first.conversations();
  await first.page.getByLabel("Keep nothing").check();
  await said(first, /Nothing is kept from now on/);
  const notice = second.page.locator('[data-key="deleted"]');
  await notice.waitFor();
  assert.match((await notice.textContent()) ?? "", /“Keep nothing” was chosen in another tab/);
  await second.state("ready");
  await second.answer(small);
  await second.page.locator("#question").fill("half a quest");
  for (const tab of [first, second])
    assert.doesNotMatch(await stored(tab), /347|fox|5 \+ 8|half a quest/);
  assert.deepEqual(await second.questions(), [story, small], "they are still shown");
  await second.page.reload();
  await second.state("ready");
  assert.deepEqual(await second.questions(), []);
  for (const tab of [first, second]) tab.clean();
  await first.leave();
});

test("what is deleted is not written again by a tab that is answering it", async () => {
  const first = await arrive();
  const second = await first.sibling();
  await second.set("maxRounds", "40");
  await second.set("segmentTokens", "2");
  await first.conversations();
  await first.page.getByRole("button", { name: "Delete everything" }).click();
  await second.ask(story);
  await second.page.locator(".segment").first().waitFor();
  await first.page.getByRole("button", { name: "Delete all conversations and settings" }).click();
  await said(first, /were deleted/);
  assert.equal(await second.page.locator("body").getAttribute("data-state"), "answering");
  await second.page
    .locator('[data-key="deleted"]', { hasText: "deleted in another tab" })
    .waitFor();
  await second.state("ready");
  assert.doesNotMatch(await stored(first), /fox/);
  await second.page.reload();
  await second.state("ready");
  assert.deepEqual(await second.questions(), []);

  // Undone, it is there with all that the other tab answered meanwhile.
  await second.ask(story);
  await second.page.locator(".segment").first().waitFor();
  await first.page.getByRole("button", { name: `Delete: ${story}` }).click();
  await second.page.locator('[data-key="deleted"]').waitFor();
  await second.state("ready");
  const whole = await second.text();
  await first.page.getByRole("button", { name: "Undo" }).click();
  await second.page.locator('[data-key="deleted"]').waitFor({ state: "detached" });
  await second.page.reload();
  await second.state("ready");
  assert.equal(await second.text(), whole);
  for (const tab of [first, second]) tab.clean();
  await first.leave();
});

test("a conversation deleted in another tab says so, and is kept whole if asked on", async () => {
  const first = await arrive();
  await first.answer(sum);
  await first.answer(small);
  const second = await first.sibling();
  await show(second, sum);
  await first.conversations();
  await first.page.getByRole("button", { name: `Delete: ${sum}` }).click();
  const notice = second.page.locator('[data-key="deleted"]');
  await notice.waitFor();
  assert.deepEqual(await second.questions(), [sum, small]);
  assert.doesNotMatch(await stored(second), /347/);
  await second.page.reload();
  await second.state("ready");
  assert.deepEqual(await second.questions(), [], "deleted stays deleted");

  await first.page.getByRole("button", { name: "Undo" }).click();
  await said(first, /put back/);
  await show(second, sum);
  await first.page.getByRole("button", { name: `Delete: ${sum}` }).click();
  await notice.waitFor();
  await second.answer("What is 9 + 9?");
  await notice.waitFor({ state: "detached" });
  await second.page.reload();
  await second.page.locator(".exchange").nth(2).waitFor();
  assert.deepEqual(await second.questions(), [sum, small, "What is 9 + 9?"]);
  assert.deepEqual(await first.page.locator(".conversation-title").allTextContents(), [sum]);
  for (const tab of [first, second]) tab.clean();
  await first.leave();
});

/** The state shown below the answer: “finished · 2 rounds”. */
const stateOf = (visitor: Visitor, state: string): Promise<void> =>
  visitor.page.locator(".exchange", { hasText: state }).waitFor();

test("an answer that another tab continues is shown whole, and never overwritten", async () => {
  const first = await arrive();
  await first.set("maxRounds", "1");
  await first.set("segmentTokens", "2");
  await first.answer(story);
  const begun = await first.text();
  const second = await first.sibling();
  await second.set("segmentTokens", "2");
  await second.set("maxRounds", "3");
  // One that hears nothing of the others.
  const deaf = await first.sibling();
  await deaf.page.addInitScript(() => Reflect.deleteProperty(globalThis, "BroadcastChannel"));
  await deaf.page.reload();
  await deaf.state("ready");
  for (const tab of [second, deaf]) await show(tab, story);
  await second.page.getByRole("button", { name: "Continue" }).click();
  await stateOf(first, "being answered in another tab");
  await second.state("ready");
  const whole = await second.text();
  assert.ok(whole.startsWith(begun) && whole.length > begun.length, whole);
  await stateOf(first, "stopped at the most rounds");
  assert.deepEqual([await first.text(), await deaf.text()], [whole, begun]);
  await deaf.page.getByRole("button", { name: "Continue" }).click();
  await deaf.page.waitForFunction(
    (whole) => document.querySelector(".answer")?.textContent === whole,
    whole,
  );
  await first.page.reload();
  await first.state("ready");
  assert.equal(await first.text(), whole);
  for (const tab of [first, second, deaf]) tab.clean();
  await first.leave();
});

test("an answer whose tab is closed can be continued in another that shows it", async () => {
  const first = await arrive();
  await first.answer(sum);
  const second = await first.sibling();
  await second.set("maxRounds", "40");
  await second.set("segmentTokens", "2");
  await show(second, sum);
  await second.ask(story);
  await second.page.locator(".segment").nth(1).waitFor();
  await stateOf(first, "being answered in another tab");
  await second.page.close();
  await stateOf(first, "broken off when the page closed");
  await first.page.getByRole("button", { name: "Continue" }).last().click();
  await first.state("answering");
  await first.state("ready");
  first.clean();
  await first.leave();
});

test("one Undo puts back all conversations that were deleted in a row", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  for (const question of [sum, small]) {
    await visitor.answer(question);
    await page.locator("#new").click();
  }
  await visitor.conversations();
  for (const question of [sum, small]) {
    await page.getByRole("button", { name: `Delete: ${question}` }).click();
    await said(visitor, new RegExp(`“${question.replace(/[?+]/g, "\\$&")}” was deleted`));
  }
  assert.equal(await page.locator(".conversation-title").count(), 0);
  await page.getByRole("button", { name: "Undo" }).click();
  await said(visitor, /^2 conversations put back/);
  assert.equal(await page.locator(".conversation-title").count(), 2);
  await visitor.leaveClean();
});
