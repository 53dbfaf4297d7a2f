/** A tab that dies names the model at fault, and its next visit works. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { arriveGreedy, idle, shown } from "./conversation-shown.ts";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const story = "Tell me a short story about a fox.";

// Makes answers long enough for a crash in their midst.
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

const arrive = (): Promise<Visitor> => arriveGreedy(stand);

/** Ends the visitor's tab as the browser does when it has no more memory; returns a new one. */
async function crash(visitor: Visitor): Promise<Visitor> {
  const { page } = visitor;
  const address = page.url();
  const session = await page.context().newCDPSession(page);
  const crashed = page.waitForEvent("crash");
  void session.send("Page.crash").catch(() => undefined);
  await crashed;
  // Its locks are released once the browser has noticed.
  const next = await Visitor.arrive(
    { newContext: async () => page.context() },
    { address },
    { loaded: false },
  );
  await page.close();
  return next;
}

/** Hides the visitor's tab, as another one or another app does. */
const hide = ({ page }: Visitor): Promise<void> =>
  page.evaluate(() => {
    Object.defineProperty(document, "visibilityState", { value: "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  });

const inLaterRound =
  "A tab with this page ended while (Ada|Quill|Juno) answered, in a later round\\. ";
const notice = async ({ page }: Visitor): Promise<string> =>
  (await page.locator(".notice.warning p").first().textContent()) ?? "";

test("a tab that dies while a member loads names it, and the page works without it", async () => {
  // Quill's load begins, and never ends.
  runBeforeWorker(
    stand.site,
    `let loading = "";
     addEventListener("message", ({ data }) => { if (data.type === "load") loading = data.name; });
     const post = postMessage.bind(globalThis);
     globalThis.postMessage = (data, ...more) => {
       post(data, ...more);
       if (data.type === "loading" && loading === "Quill") for (;;);
     };`,
    "conclave member",
  );
  let visitor = await Visitor.arrive(stand.browser, stand.site, {
    serviceWorkers: "block",
    loaded: false,
  });
  await visitor.page.locator('.member[data-state="ready"]').nth(1).waitFor();
  await visitor.page
    .locator('.member[data-state="loading"] .loaded', { hasText: "starting" })
    .waitFor();
  visitor = await crash(visitor);
  const { page } = visitor;
  await visitor.state("ready");
  const notice = page.locator(".notice.warning");
  assert.match(
    (await notice.textContent()) ?? "",
    /A tab with this page ended while Quill was being loaded\. This visit starts without it\./,
  );
  const card = page.locator(".member", { hasText: "Quill" }).first();
  assert.equal(await card.getAttribute("data-state"), "held");
  assert.notEqual(await visitor.answer(sum), "", "the others answer");
  assert.doesNotMatch((await page.locator(".legend").textContent()) ?? "", /Quill/);
  // It stays out at the next visit, which need not be told again.
  await page.reload();
  await visitor.state("ready");
  assert.equal(await card.getAttribute("data-state"), "held");
  await putBeforeWorker(stand.site, "paced-worker.ts");
  await page.reload();
  await visitor.state("ready");
  await card.getByRole("button", { name: "Try again with Quill" }).click();
  await card.and(page.locator('[data-state="ready"]')).waitFor();
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator('.member[data-state="ready"]').count(), 3);
  await visitor.leaveClean();
});

test("a tab that dies over a question leaves out the largest member, asks nothing", async () => {
  runBeforeWorker(
    stand.site,
    'addEventListener("message", ({ data }) => { if (data.type === "ask") for (;;); });',
  );
  let visitor = await Visitor.arrive(stand.browser, stand.site, { serviceWorkers: "block" });
  await visitor.ask(sum);
  await visitor.state("answering");
  await putBeforeWorker(stand.site, "paced-worker.ts");
  visitor = await crash(visitor);
  const { page } = visitor;
  await visitor.state("ready");
  assert.match(
    (await page.locator(".notice.warning").textContent()) ?? "",
    /ended while (Ada|Quill|Juno) was reading the question\. This visit starts without it\./,
  );
  assert.equal(await page.locator('.member[data-state="held"]').count(), 1);
  assert.deepEqual((await shown(visitor)).questions, [sum], "the question is there");
  await page.waitForTimeout(500);
  assert.equal(await page.locator(".segment").count(), 0);
  await page.locator(".exchange").getByRole("button", { name: "Continue" }).click();
  await idle(visitor);
  assert.notEqual((await shown(visitor)).answers[0], "");
  await visitor.leaveClean();
});

test("a tab that dies in mid-answer has its text again, and its members finish it", async () => {
  let visitor = await arrive();
  await visitor.page.locator(".member", { hasText: "Ada" }).getByRole("checkbox").uncheck();
  await visitor.ask(story);
  await visitor.page.locator(".segment").nth(2).waitFor();
  const before = (await shown(visitor)).answers[0]!;
  visitor = await crash(visitor);
  const { page } = visitor;
  await page.locator(".exchange").waitFor();
  assert.match(await notice(visitor), new RegExp(`^${inLaterRound}If that happens again, `));
  assert.equal(await page.locator('.member[data-state="held"]').count(), 0);
  await idle(visitor);
  const after = (await shown(visitor)).answers[0]!;
  assert.ok(after.startsWith(before) && after.length > before.length, after);
  assert.doesNotMatch((await page.locator(".legend").textContent()) ?? "", /Ada/);
  assert.equal(
    await page.locator(".member", { hasText: "Ada" }).getByRole("checkbox").isChecked(),
    false,
  );
  await visitor.leaveClean();
});

test("a tab that dies in mid-answer again leaves out the largest member; the answer waits", async () => {
  let visitor = await arrive();
  await visitor.ask(story);
  await visitor.page.locator(".segment").nth(1).waitFor();
  visitor = await crash(visitor);
  await visitor.page.locator(".exchange").waitFor();
  const before = await visitor.page.locator(".segment").count();
  await visitor.page
    .locator(".segment")
    .nth(before + 1)
    .waitFor();
  const { answers } = await shown(visitor);
  visitor = await crash(visitor);
  const { page } = visitor;
  await visitor.state("ready");
  assert.match(await notice(visitor), new RegExp(`^${inLaterRound}This visit starts without it`));
  const held = page.locator('.member[data-state="held"]');
  assert.match((await held.textContent()) ?? "", /ended while it answered, in a later round\./);
  const facts = page.locator(".exchange .facts");
  await facts.filter({ hasText: "broken off when the tab ended" }).waitFor();
  const [kept] = (await shown(visitor)).answers;
  assert.ok(kept!.startsWith(answers[0]!), `${JSON.stringify(answers[0])} became ${kept}`);
  // A reload is no other end of it, and it waits, also for the member that is tried again.
  await page.addInitScript(() => {
    const said: string[] = [];
    Object.assign(globalThis, { said });
    new MutationObserver(() => {
      const line = document.querySelector(".exchange .why-not:not(.hidden)");
      if (line?.textContent) said.push(line.textContent);
    }).observe(document, { childList: true, subtree: true, attributes: true });
  });
  await page.reload();
  await visitor.state("ready");
  await facts.filter({ hasText: "broken off when the tab ended" }).waitFor();
  assert.equal(await page.locator(".notice.warning").count(), 0, "told once");
  await page.getByRole("button", { name: /^Try again with/ }).click();
  await held.waitFor({ state: "detached" });
  await visitor.state("ready");
  await page.reload();
  await visitor.state("ready");
  await page.waitForTimeout(500);
  await facts.filter({ hasText: "broken off when the tab ended" }).waitFor();
  assert.deepEqual((await shown(visitor)).answers, [kept]);
  assert.deepEqual(
    await page.evaluate(() => (globalThis as unknown as { said: string[] }).said),
    [],
    "nothing moves while members load",
  );
  // Its mark goes with it, and comes back.
  const marks = (): Promise<number> =>
    page.evaluate(
      () => Object.keys(localStorage).filter((key) => key.startsWith("conclave answered")).length,
    );
  assert.equal(await marks(), 1);
  await page.getByRole("button", { name: "Regenerate" }).click();
  await idle(visitor);
  assert.equal(await marks(), 0);
  await page.getByRole("button", { name: "Bring back" }).click();
  await facts.filter({ hasText: "broken off when the tab ended" }).waitFor();
  assert.equal(await marks(), 1);
  await page.locator(".exchange").getByRole("button", { name: "Continue" }).click();
  await idle(visitor);
  const [whole] = (await shown(visitor)).answers;
  assert.ok(whole!.startsWith(kept!) && whole!.length > kept!.length, whole);
  await visitor.leaveClean();
});

test("on a phone, where the system ends hidden tabs, one that ends is told as closed", async () => {
  let visitor = await stand.arrive({
    serviceWorkers: "block",
    isMobile: true,
    hasTouch: true,
    viewport: { width: 390, height: 844 },
  });
  await visitor.set("temperature", "0");
  await visitor.set("segmentTokens", "2");
  await visitor.ask(story);
  await visitor.page.locator(".segment").nth(1).waitFor();
  await hide(visitor);
  visitor = await crash(visitor);
  await visitor.page
    .locator(".exchange .facts")
    .filter({ hasText: /^finished|^stopped/ })
    .waitFor();
  assert.equal(await visitor.page.locator(".notice.warning").count(), 0);
  await visitor.leaveClean();
});

test("a tab that closes in mid-answer is told as closed, one that ends while hidden once", async () => {
  let visitor = await arrive();
  for (const end of ["closed", "hidden"]) {
    await visitor.ask(story);
    await visitor.page.locator(".exchange").last().locator(".segment").nth(1).waitFor();
    if (end === "closed") await visitor.page.goto("about:blank");
    else await hide(visitor);
    if (end === "closed") await visitor.page.goBack();
    else visitor = await crash(visitor);
    const facts = visitor.page.locator(".exchange .facts").last();
    await facts.filter({ hasText: /^finished|^stopped/ }).waitFor();
    const told = end === "hidden" ? 1 : 0;
    assert.equal(await visitor.page.locator(".notice.warning").count(), told, end);
    if (told) assert.match(await notice(visitor), new RegExp(`^${inLaterRound}If that happens`));
    assert.equal(await visitor.page.locator('.member[data-state="held"]').count(), 0, end);
  }
  await visitor.leaveClean();
});
