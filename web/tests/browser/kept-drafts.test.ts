/** Half-typed text belongs to its conversation, and outlives a reload, a switch and a link. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const small = "What is 5 + 8?";

async function arrive(): Promise<Visitor> {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  await visitor.set("maxRounds", "2");
  return visitor;
}

const box = ({ page }: Visitor): Promise<string> => page.locator("#question").inputValue();
async function show(visitor: Visitor, title: string, draft: string): Promise<void> {
  await visitor.conversations();
  await visitor.page.locator(".conversation-title", { hasText: title }).click();
  await visitor.page.waitForFunction(
    (draft) => document.querySelector<HTMLTextAreaElement>("#question")?.value === draft,
    draft,
  );
}

/** The same visitor in a new tab, after this one was closed. */
async function comeBack(visitor: Visitor): Promise<Visitor> {
  const context = visitor.page.context();
  await visitor.page.close();
  return Visitor.arrive({ newContext: async () => context }, stand.site);
}

test("a half-typed question stays with its conversation when another is opened", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.answer(sum);
  await page.locator("#question").fill("typed in the first");
  await page.locator("#new").click();
  assert.equal(await box(visitor), "");
  await page.locator("#question").fill("an idea that is not asked");
  await show(visitor, sum, "typed in the first");
  await page.locator("#new").click();
  assert.equal(await box(visitor), "");
  await visitor.answer(small);
  await show(visitor, sum, "typed in the first");
  // One without a question yet is listed by what was typed, until it is asked or cleared.
  await show(visitor, "an idea that is not asked", "an idea that is not asked");
  assert.deepEqual(await visitor.questions(), []);
  await page.reload();
  await visitor.state("ready");
  assert.equal(await box(visitor), "an idea that is not asked");
  await visitor.answer("What is 9 + 9?");
  await visitor.conversations();
  assert.deepEqual(await page.locator(".conversation-title").allTextContents(), [
    "What is 9 + 9?",
    small,
    sum,
  ]);
  await visitor.leaveClean();
});

test("a half-typed question without an answer is there when the page opens again", async () => {
  let visitor = await arrive();
  await visitor.page.locator("#question").fill("half typed");
  await visitor.page.waitForTimeout(300);
  visitor = await comeBack(visitor);
  assert.equal(await box(visitor), "half typed");
  await visitor.answer(sum);
  await visitor.page.locator("#new").click();
  await visitor.page.locator("#question").fill("half typed again");
  await visitor.page.waitForTimeout(300);
  visitor = await comeBack(visitor);
  assert.equal(await box(visitor), "half typed again");
  assert.deepEqual(await visitor.questions(), []);
  await visitor.page.locator("#question").fill("");
  await visitor.page.waitForTimeout(300);
  visitor = await comeBack(visitor);
  assert.deepEqual(await visitor.questions(), [sum], "it has gone; the last conversation is shown");
  await visitor.leaveClean();
});

test("a half-typed edit and the system prompt are there after a reload", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.answer(sum);
  await page.getByRole("button", { name: "Edit the question" }).click();
  await page.getByLabel("The question, edited").fill("What is 347 + 58");
  await page
    .locator("details", { has: page.locator("#own-settings") })
    .first()
    .evaluate((one) => {
      (one as HTMLDetailsElement).open = true;
    });
  // Typed, but not left.
  await page.locator("#setting-instructions").pressSequentially("Answer briefly");
  await page.reload();
  await visitor.state("ready");
  const form = page.getByLabel("The question, edited");
  await form.waitFor();
  assert.equal(await form.inputValue(), "What is 347 + 58");
  assert.equal(await page.locator("#setting-instructions").inputValue(), "Answer briefly");
  await page.locator(".question-form").getByRole("button", { name: "Cancel" }).click();
  await page.reload();
  await visitor.state("ready");
  assert.ok(await page.locator(".question-form").isHidden());
  await visitor.leaveClean();
});

test("an edited question that can't be asked stays in its form until it is asked", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.answer(sum);
  await page.getByRole("button", { name: "Edit the question" }).click();
  const form = page.getByLabel("The question, edited");
  await form.fill(small);
  await visitor.set("maxRounds", "0");
  await form.press("Enter");
  await visitor.set("maxRounds", "2");
  const parts = page.locator(".member").getByRole("checkbox");
  for (const part of await parts.all()) await part.uncheck();
  await form.press("Enter");
  assert.deepEqual([await visitor.questions(), await form.inputValue()], [[sum], small]);
  for (const part of await parts.all()) await part.check();
  await form.press("Enter");
  await page.locator(".question", { hasText: small }).waitFor();
  await visitor.state("ready");
  assert.deepEqual(await visitor.questions(), [small]);
  assert.ok(await page.locator(".question-form").isHidden());
  await visitor.leaveClean();
});

test("a question whose file is being cut stays where it is if another conversation is opened", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.answer(sum);
  const buffer = Buffer.from("one two three\n".repeat(4000));
  await page
    .locator("#attach-file")
    .setInputFiles([{ name: "long.txt", mimeType: "text/plain", buffer }]);
  await page.locator("#attached", { hasText: "long.txt" }).waitFor();
  await page.locator("#question").fill("Count the words!");
  await page.evaluate(() => {
    for (const id of ["ask", "new"]) document.getElementById(id)!.click();
  });
  await page.locator("#why-not", { hasText: "Cutting the file" }).waitFor();
  await visitor.state("ready");
  assert.deepEqual([await visitor.questions(), await box(visitor)], [[], ""]);
  await show(visitor, sum, "Count the words!");
  await page.locator("#attached", { hasText: "long.txt" }).waitFor();
  assert.deepEqual(await visitor.questions(), [sum]);
  await visitor.leaveClean();
});

test("a link in the same tab leaves a half-typed question where it is", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator("#question").fill("half typed");
  const link = `#ask=${encodeURIComponent(JSON.stringify({ question: small }))}`;
  await page.evaluate((hash) => void (location.hash = hash), link);
  await page.waitForFunction(
    (question) => document.querySelector<HTMLTextAreaElement>("#question")?.value === question,
    small,
  );
  await page.getByRole("button", { name: "Back to it" }).click();
  await page.waitForFunction(
    () => document.querySelector<HTMLTextAreaElement>("#question")?.value === "half typed",
  );
  await show(visitor, small, small);
  await visitor.leaveClean();
});

test("what an answer replaced can come back after a reload, until another is asked", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  for (const question of [sum, small]) await visitor.answer(question);
  const before = await page.locator(".answer").allTextContents();
  const back = page.getByRole("button", { name: "Bring back" });
  for (const [reloads, regenerated] of [
    [1, 0],
    [2, 1],
  ] as const) {
    await page.getByRole("button", { name: "Regenerate" }).nth(regenerated).click();
    await page
      .locator(".exchange")
      .nth(2 - reloads + regenerated * 2)
      .waitFor({ state: "detached" });
    await visitor.state("ready");
    for (let reload = 0; reload < reloads; reload++) {
      await page.reload();
      await visitor.state("ready");
    }
    await page.locator("#question").fill("half typed");
    await back.click();
    await page.locator(".exchange").nth(1).waitFor();
    assert.equal(await box(visitor), "half typed");
    await back.waitFor({ state: "detached" });
    assert.deepEqual(await visitor.questions(), [sum, small]);
    assert.deepEqual(await page.locator(".answer").allTextContents(), before);
    await page.reload();
    await visitor.state("ready");
    assert.deepEqual(await page.locator(".answer").allTextContents(), before);
  }
  await page.getByRole("button", { name: "Regenerate" }).first().click();
  await back.waitFor();
  await visitor.state("ready");
  await visitor.answer("What is 9 + 9?");
  await page.reload();
  await visitor.state("ready");
  assert.equal(await back.count(), 0);
  assert.deepEqual(await visitor.questions(), [sum, "What is 9 + 9?"]);
  await visitor.leaveClean();
});

test("a file without a question asks for one; a note on skills outlives a reload", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page
    .locator("#attach-file")
    .setInputFiles([{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one two") }]);
  await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
  await page.locator("#ask").click();
  await page.locator(".notice", { hasText: "Type a question about notes.txt first." }).waitFor();
  assert.deepEqual(await visitor.questions(), []);
  await visitor.answer("Who wrote Faust?");
  const note = page.locator(".note", { hasText: "this question is none of them" });
  await note.waitFor();
  assert.equal(await page.locator(".notice.error").count(), 0);
  await page.reload();
  await visitor.state("ready");
  await note.waitFor();
  // The toys can't be passed on by a link.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await visitor.conversations();
  await page.getByRole("button", { name: "Copy a link to the question" }).click();
  await page
    .locator(".dialog-status", { hasText: "It holds the question, not the models" })
    .waitFor();
  await visitor.leaveClean();
});

test("a conversation that is put back has its half-typed question again", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.answer(sum);
  await page.locator("#question").fill("And its half?");
  await visitor.conversations();
  await page
    .locator("#conversations-dialog")
    .getByRole("button", { name: /^Delete: / })
    .click();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.locator("#conversations-dialog .dialog-status", { hasText: "put back" }).waitFor();
  await page.locator(".conversation-title", { hasText: sum }).click();
  await page.waitForFunction(
    () => document.querySelector<HTMLTextAreaElement>("#question")?.value === "And its half?",
  );
  assert.deepEqual(await visitor.questions(), [sum]);
  await visitor.leaveClean();
});
