/**
 * Two tabs of the page on one engine: loaded once, asked by both, and moved when its tab closes.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import { patience, type Visitor } from "./visitor.ts";

const stand = stage("none");
const story = "Tell me a short story about a fox.";
const sum = "What is 347 + 586?";

// Makes answers long enough for events during them.
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

/** Two tabs of one visitor, and the model files that the second has requested. */
async function tabs(): Promise<{ first: Visitor; second: Visitor; fetched: string[] }> {
  const first = await stand.arrive({ serviceWorkers: "block" });
  const fetched: string[] = [];
  first.page
    .context()
    .on(
      "request",
      (request) => void (request.url().endsWith(".gguf") && fetched.push(request.url())),
    );
  const second = await first.sibling();
  for (const tab of [first, second]) {
    await tab.set("seed", "11");
    await tab.set("segmentTokens", "2");
  }
  return { first, second, fetched };
}

/** Number of engines in a tab, by the names of its workers: those that wait evaluate nothing. */
async function engines({ page }: Visitor): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const names: string[] = [];
  session.on("Target.attachedToTarget", ({ targetInfo }) => names.push(targetInfo.title));
  await session.send("Target.setAutoAttach", {
    autoAttach: true,
    waitForDebuggerOnStart: false,
    flatten: true,
  });
  await session.detach();
  return names.filter((name) => name === "conclave").length;
}

const engineLine = async ({ page }: Visitor): Promise<string> =>
  (await page.locator("#engine").textContent()) ?? "";
const facts = async ({ page }: Visitor): Promise<string> =>
  (await page.locator(".exchange .facts").last().textContent()) ?? "";
const notice = ({ page }: Visitor, key: string) => page.locator(`.notice[data-key="${key}"]`);
const segment = ({ page }: Visitor, at = 0) => page.locator(".segment").nth(at).waitFor();

test("a second tab has the first one's engine: members load once, both are answered", async () => {
  const { first, second, fetched } = await tabs();
  assert.deepEqual([await engines(first), await engines(second)], [1, 0]);
  assert.deepEqual(fetched, []);
  assert.match(await engineLine(second), /, in another tab$/);
  assert.doesNotMatch(await engineLine(first), /another tab/);
  assert.equal(await second.page.locator(".member .about").count(), 3);
  const alone = await first.answer(story);
  assert.notEqual(alone, "");
  assert.equal(await second.answer(story), alone, "the same seed, the same answer");
  const both = await Promise.all([first, second].map((tab) => tab.answer(story)));
  assert.ok(both.every((answer) => answer !== ""));
  for (const tab of [first, second]) assert.match(await facts(tab), /finished/);
  // After the time at which a tab reports what another one costs.
  await second.page.waitForTimeout(2500);
  for (const tab of [first, second]) {
    assert.equal(await notice(tab, "tabs").count(), 0);
    tab.clean();
  }
  await first.leave();
});

test("a stop is its own tab's, and a tab closed in mid-answer keeps nobody waiting", async () => {
  const { first, second } = await tabs();
  const whole = await first.answer(story);
  await first.ask(story);
  await first.page.locator(".exchange").nth(1).locator(".segment").first().waitFor();
  await second.ask(story);
  await second.page.locator("#stop").click();
  await second.state("ready");
  assert.match(await facts(second), /stopped by you/);
  await second.ask(sum);
  await first.state("ready");
  assert.match(await facts(first), /finished/);
  assert.notEqual(whole, "");
  await second.state("ready");
  assert.match(await facts(second), /finished/);
  // The tab that answers closes.
  await second.ask(story);
  await second.page.locator(".exchange").nth(2).locator(".segment").first().waitFor();
  await first.ask(sum);
  await second.page.close();
  await first.state("ready");
  assert.match(await facts(first), /finished/);
  await first.leaveClean();
});

test("the tab with the engine closes in mid-answer: the next has it, and answers on", async () => {
  const { first, second } = await tabs();
  const whole = await second.answer(story);
  await second.page.locator("#new").click();
  await second.ask(story);
  await segment(second, 1);
  await first.page.close();
  await second.state("ready");
  assert.match(await facts(second), /finished/);
  assert.match(
    (await notice(second, "engine").textContent()) ?? "",
    /The tab with the engine was closed or frozen/,
  );
  assert.equal(await engines(second), 1);
  assert.doesNotMatch(await engineLine(second), /another tab/);
  assert.ok((await second.text()).startsWith(whole.slice(0, 4)));
  assert.equal(await second.page.locator(".exchange [role=alert]").count(), 0);

  // Without a question, one of the remaining tabs reloads the members by itself.
  const [third, fourth] = [await second.sibling(), await second.sibling()];
  assert.deepEqual([await engines(second), await engines(third), await engines(fourth)], [1, 0, 0]);
  await second.page.close();
  const left = [third, fourth];
  const anew = async (): Promise<boolean> =>
    (await Promise.all(left.map(engines))).reduce((sum, count) => sum + count) > 0;
  for (let waited = 0; !(await anew()); waited += 50) {
    assert.ok(waited < patience, "no tab has opened an engine");
    await third.page.waitForTimeout(50);
  }
  for (const tab of left) await tab.state("ready");
  assert.deepEqual((await Promise.all(left.map(engines))).sort(), [0, 1]);
  for (const tab of left) assert.notEqual(await tab.answer(sum), "");
  for (const tab of [second, third, fourth]) tab.clean();
  await third.leave();
});

test("the tab with the engine closes while the next one is still coming", async () => {
  const { first, second } = await tabs();
  await second.page.close();
  const late = await first.sibling(false);
  await first.page.close();
  await late.state("ready");
  assert.notEqual(await late.answer(sum), "");
  assert.equal(await engines(late), 1);
  await late.leaveClean();
});

test("the tab with the engine rests out of sight: the other goes on without it", async () => {
  const { first, second } = await tabs();
  await second.ask(story);
  await segment(second);
  // Chromium only freezes pages that it considers hidden, which no page of a test is.
  await first.page.evaluate(() => document.dispatchEvent(new Event("freeze")));
  await second.state("ready");
  assert.match(await facts(second), /finished/);
  assert.equal(await engines(second), 1);
  assert.notEqual(await first.answer(sum), "");
  assert.match(await engineLine(first), /, in another tab$/);
  await first.leave();
});

test("a tab that changes members opens its own engine, says so; the other's stays", async () => {
  const { first, second } = await tabs();
  await first.ask(story);
  await segment(first);
  await second.page.getByRole("button", { name: "Remove Quill" }).click();
  assert.match(
    (await notice(second, "tabs").textContent()) ?? "",
    /Each tab holds its models in memory by itself/,
  );
  await second.state("ready");
  assert.deepEqual([await engines(first), await engines(second)], [1, 1]);
  assert.deepEqual(await second.page.locator(".member .name").allTextContents(), ["Ada", "Juno"]);
  await first.state("ready");
  assert.match(await facts(first), /finished/);
  assert.notEqual(await second.answer(sum), "");

  // The same for the tab with the engine: the third, which has its members, keeps it.
  const third = await first.sibling();
  assert.equal(await engines(third), 0);
  await first.page.getByRole("button", { name: "Remove Ada" }).click();
  await notice(first, "tabs").waitFor();
  await first.state("ready");
  assert.deepEqual(await first.page.locator(".member .name").allTextContents(), ["Quill", "Juno"]);
  assert.notEqual(await third.answer(sum), "");
  assert.equal(await notice(third, "engine").count(), 0, "nothing was opened anew");
  assert.notEqual(await first.answer(sum), "");
  for (const tab of [first, second, third]) tab.clean();
  await first.leave();
});

test("tabs whose engines differ have one each, and the second says what it costs", async () => {
  const { first, second } = await tabs();
  await second.page.goto(`${stand.site.address}?backend=cpu`);
  await second.state("ready");
  assert.match((await notice(second, "tabs").textContent()) ?? "", /open in another tab as well/);
  assert.deepEqual([await engines(first), await engines(second)], [1, 1]);
  assert.equal(await notice(first, "tabs").count(), 0);
  await first.leaveClean();
});
