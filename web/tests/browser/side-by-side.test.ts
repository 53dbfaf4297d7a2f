/**
 * Each member's own answer beside the ensemble's; and the rules of the method, in the form and in
 * the library.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import type { Conclave, ConclaveEvent, Settings } from "../../src/library/conclave.ts";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
/** Their versions differ. */
const story = "Tell me a short story about a fox.";

test("each member answers alone beside the ensemble, outside the conversation", async () => {
  const visitor = await stand.arrive({ search: "?debug" });
  const { page } = visitor;
  await visitor.set("seed", "5");
  const together = await visitor.answer(story);
  await page.getByRole("button", { name: "Side by side" }).press("Enter");
  await visitor.state("ready");
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Side by side",
    "the heading has the focus",
  );
  const view = page.getByRole("region", { name: "Side by side" });
  assert.equal(
    await view.getByRole("status").textContent(),
    "Every member has answered alone, under the same settings.",
  );
  assert.deepEqual(await view.locator("h4").allTextContents(), [
    "Together",
    "Ada",
    "Quill",
    "Juno",
  ]);
  const answers = await view.locator(".alone-answer").allTextContents();
  assert.equal(answers[0], together);
  for (const told of await view.locator(".facts").allTextContents())
    assert.match(told, /^finished · \d+ tokens? in [\d.]+ (ms|s)$/);

  // A card shows the same as the library for that member alone.
  const alone = await page.evaluate(async (content) => {
    const { conclave } = window as unknown as { conclave: Conclave };
    const texts: string[] = [];
    for (const name of ["Ada", "Quill", "Juno"]) {
      let text = "";
      for await (const event of conclave.ask([{ role: "user", content }], {
        members: [name],
        sampling: { seed: 5 },
      }))
        if (event.type === "round") text += event.text;
      texts.push(text);
    }
    return texts;
  }, story);
  assert.deepEqual(answers.slice(1), alone);
  assert.equal(new Set(alone).size, 3, "each tells its own");

  assert.equal(await page.locator(".exchange").count(), 1);
  assert.equal(await visitor.text(), together);
  await view.getByRole("button", { name: "Close" }).press("Enter");
  assert.equal(await view.count(), 0);
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Side by side",
    "its button has the focus again",
  );

  // The next question continues the ensemble's answer only.
  await visitor.answer("And what is 2 + 2?");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByText("Download the run").last().click(),
  ]);
  const run = JSON.parse(await readFile(await download.path(), "utf8")) as {
    messages: { content: string }[];
    settings: Settings;
    rounds: { writers: number[]; winner: number }[];
  };
  assert.deepEqual(
    run.messages.map(({ content }) => content),
    [story, together, "And what is 2 + 2?"],
  );
  assert.equal(run.settings.scoring, "harmonic");
  for (const { writers, winner } of run.rounds) assert.ok(writers.includes(winner));
  // A member that has been removed can't be asked.
  const beside = page.locator(".exchange").first().getByRole("button", { name: "Side by side" });
  assert.ok(await beside.isEnabled());
  await page.getByRole("button", { name: "Remove Juno" }).click();
  await page.locator(".member", { hasText: "Juno" }).waitFor({ state: "detached" });
  assert.ok(await beside.isDisabled());
  await visitor.leaveClean();
});

test("one press asks the strongest member beside the ensemble, with both times", async () => {
  const visitor = await stand.arrive({ search: "?debug" });
  const { page } = visitor;
  await visitor.set("seed", "5");
  const together = await visitor.answer(story);
  const strongest = await page.evaluate(async (content) => {
    const { conclave } = window as unknown as { conclave: Conclave };
    for await (const event of conclave.ask([{ role: "user", content }])) {
      if (event.type !== "begin") continue;
      const strengths = event.strengths.map((strength) => strength ?? 0);
      return event.members[strengths.indexOf(Math.max(...strengths))] ?? "";
    }
    return "";
  }, story);
  const ask = page.getByRole("button", { name: `Ask ${strongest} alone` });
  await ask.press("Enter");
  await visitor.state("ready");
  const view = page.getByRole("region", { name: "Side by side" });
  assert.equal(
    await view.getByRole("status").textContent(),
    `${strongest} has answered alone, under the same settings.`,
  );
  assert.deepEqual(await view.locator("h4").allTextContents(), ["Together", strongest]);
  const [first, second] = await view.locator(".alone-answer").allTextContents();
  assert.equal(first, together);
  for (const told of await view.locator(".facts").allTextContents())
    assert.match(told, /^finished · \d+ tokens? in [\d.]+ (ms|s)$/);
  const [left, right] = await Promise.all(
    [0, 1].map((index) => view.locator(".alone").nth(index).boundingBox()),
  );
  assert.ok(left && right && left.y === right.y && left.x < right.x, "beside each other");
  await view.getByRole("button", { name: "Close" }).press("Enter");
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    `Ask ${strongest} alone`,
    "its button has the focus again",
  );

  // The same as in its card when all are asked.
  await page.getByRole("button", { name: "Side by side" }).press("Enter");
  await visitor.state("ready");
  assert.equal(
    await view.locator(".alone", { hasText: strongest }).locator(".alone-answer").textContent(),
    second,
  );
  assert.equal(await page.locator(".exchange").count(), 1);
  await visitor.leaveClean();
});

test("one stop ends all: who is unfinished says so, and who was not asked", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await stand.arrive({
    serviceWorkers: "block",
    viewport: { width: 390, height: 844 },
  });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "2");
  await visitor.set("maxRounds", "20");
  const together = await visitor.answer(story);
  await visitor.when(
    () =>
      [...document.querySelectorAll(".alone-answer")].some(
        (answer, index) => index > 0 && answer.textContent !== "",
      ),
    () => document.querySelector<HTMLButtonElement>("#stop")?.click(),
  );
  await page.getByRole("button", { name: "Side by side" }).click();
  await visitor.state("ready");
  const told = await page.locator(".alone .facts").allTextContents();
  assert.match(told[1] ?? "", /^unfinished: stopped by you · \d+ tokens? in /);
  assert.deepEqual(told.slice(2), ["not asked: stopped by you", "not asked: stopped by you"]);
  assert.equal(
    await page.getByRole("region", { name: "Side by side" }).getByRole("status").textContent(),
    "0 of 3 members have finished alone.",
  );
  assert.equal(await visitor.text(), together);
  const cards = await page.locator(".alone").all();
  const left = await Promise.all(cards.map(async (card) => (await card.boundingBox())?.x));
  assert.equal(new Set(left).size, 1, "on a phone they stand under each other");
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
    "and nothing is wider than the screen",
  );
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});

test("a rule fills the switches, a switch makes it one's own, and the method follows", async () => {
  const visitor = await stand.arrive({ search: "?debug" });
  const { page } = visitor;
  const form = async (): Promise<Record<string, string | boolean>> =>
    page
      .locator("#settings")
      .evaluate((form: HTMLFormElement) =>
        Object.fromEntries(
          [...form.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input, select")].map(
            (control) => [
              control.name,
              control.type === "checkbox" ? (control as HTMLInputElement).checked : control.value,
            ],
          ),
        ),
      );
  const usual = await form();
  assert.deepEqual(
    [usual["rule"], usual["scoring"], usual["scoreEnd"], usual["reward"], usual["segmentTokens"]],
    ["harmonic", "harmonic", true, "shares", "32"],
  );
  await visitor.set("maxRounds", "3");
  await visitor.set("rule", "paper");
  const paper = await form();
  assert.deepEqual(
    [
      paper["scoring"],
      paper["scoreEnd"],
      paper["reward"],
      paper["segmentTokens"],
      paper["maxRounds"],
    ],
    ["logit", false, "counts", "10", "3"],
  );
  assert.deepEqual(
    [usual["level"], paper["level"], usual["leader"], paper["leader"]],
    [true, false, false, false],
  );
  await visitor.set("alpha", "2");
  await page.locator("#setting-alpha").press("Tab");
  assert.equal((await form())["rule"], "own");
  await visitor.set("alpha", "1");
  await page.locator("#setting-alpha").press("Tab");
  assert.equal((await form())["rule"], "paper");
  await visitor.answer(sum);
  await page.locator(".segment").first().click();
  assert.match(
    (await page.locator(".matrix caption").textContent()) ?? "",
    /below it the mean raw logit of its tokens/,
  );

  // In the library the rule is a preset, changed by settings.
  const asked = await page.evaluate(async (content) => {
    const { conclave } = window as unknown as { conclave: Conclave };
    const events: ConclaveEvent[] = [];
    for await (const event of conclave.ask([{ role: "user", content }], {
      rule: "paper",
      settings: { maxRounds: 1 },
    }))
      events.push(event);
    const begin = events.find((event) => event.type === "begin");
    const round = events.find((event) => event.type === "round");
    return {
      settings: begin?.settings,
      score: round?.scores[0]?.[0],
      members: conclave.members,
      rules: conclave.rules,
    };
  }, sum);
  assert.deepEqual(asked.settings, { ...asked.rules.paper, maxRounds: 1 });
  assert.deepEqual(
    Object.keys(asked.score ?? {}).sort(),
    ["meanLogit"],
    "the paper's looks at no probabilities",
  );
  assert.ok(
    asked.members.every(({ template }) => template),
    "the toys converse",
  );

  // The engine defines the ranges, for the form and for other callers.
  const refused = await page.evaluate(async (content) => {
    const { conclave } = window as unknown as { conclave: Conclave };
    try {
      for await (const _ of conclave.ask([{ role: "user", content }], {
        settings: { segmentTokens: 65 },
      }));
      return undefined;
    } catch (error) {
      return { kind: (error as Error).name, message: (error as Error).message };
    }
  }, sum);
  assert.equal(refused?.kind, "Settings");
  assert.match(refused.message, /segmentTokens is 65: choose a value from 1 to 64/);
  assert.deepEqual(
    await page
      .locator("#setting-segmentTokens")
      .evaluate(({ min, max }: HTMLInputElement) => [min, max]),
    ["1", "64"],
  );

  await page.getByRole("button", { name: "Back to the defaults" }).click();
  assert.deepEqual(await form(), usual);

  // One member drafts for all while none doubts it; with a threshold above any surprise, always.
  const led = await page.evaluate(async (content) => {
    const { conclave } = window as unknown as { conclave: Conclave };
    const played: {
      drafters: number[];
      candidates: number;
      scores: number;
      totals: number;
      doubted: boolean;
    }[] = [];
    for (const doubt of [1000, 0]) {
      for await (const event of conclave.ask([{ role: "user", content }], {
        rule: "leader",
        settings: { leader: { doubt } },
      })) {
        if (event.type !== "round") continue;
        const { drafters, candidates, scores, totals } = event;
        played.push({
          drafters,
          candidates: candidates.length,
          scores: scores.length,
          totals: totals.length,
          doubted: doubt === 0,
        });
      }
    }
    return { played, members: conclave.members.length };
  }, sum);
  const alone = { drafters: [0], candidates: 1, scores: led.members, totals: 0, doubted: false };
  const all = {
    drafters: [...Array(led.members).keys()],
    candidates: led.members,
    scores: led.members,
    totals: led.members,
    doubted: true,
  };
  for (const round of led.played) assert.deepEqual(round, round.doubted ? all : alone);
  assert.ok(new Set(led.played.map(({ doubted }) => doubted)).size === 2);
  await visitor.set("rule", "leader");
  const leader = await form();
  assert.deepEqual(
    { ...leader, rule: usual["rule"], leader: false },
    usual,
    "the default rule but for who drafts",
  );
  await page.getByRole("button", { name: "Back to the defaults" }).click();
  await visitor.answer(sum);
  await page.locator(".exchange").last().locator(".segment").first().click();
  const matrix = page.locator(".exchange").last().locator(".matrix");
  assert.match(
    (await matrix.locator("caption").textContent()) ?? "",
    /below it the surprise in nats/,
  );
  for (const raw of await matrix.locator("tbody small").allTextContents())
    assert.match(raw, /^\d+\.\d\d$/);
  await visitor.leaveClean();
});
