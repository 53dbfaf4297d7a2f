/**
 * The time to an answer's first words, before it is asked and while one waits; members are slow.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Page } from "playwright-core";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";

const stand = stage("none");
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

const long = (animal: string, times = 25): string =>
  `${`The ${animal} went over the hill and the goose went home. `.repeat(times)}What is 2 + 3?`;
const sentence = /First words in about (\d+) s\.$/;
const secondsIn = (line: string): number[] => sentence.exec(line)?.slice(1).map(Number) ?? [];

/** Records each state of the last answer's line, and of what a screen reader hears. */
const watch = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const [lines, news]: string[][] = [[], []];
    Object.assign(globalThis, { seen: { lines, news } });
    const note = (list: string[], text: string | null | undefined): void => {
      if (typeof text === "string" && list.at(-1) !== text) list.push(text);
    };
    new MutationObserver(() => {
      note(lines!, [...document.querySelectorAll(".exchange .facts")].at(-1)?.textContent);
      note(news!, document.querySelector("#news")?.textContent);
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });

/** The lines and news since the last call. */
const seen = (page: Page): Promise<{ lines: string[]; news: string[] }> =>
  page.evaluate(() => {
    const { seen } = globalThis as unknown as { seen: { lines: string[]; news: string[] } };
    return { lines: seen.lines.splice(0), news: seen.news.splice(0).filter((text) => text !== "") };
  });

test("the time to first words is foretold before a question, and counts down while it is read", {
  timeout: 300_000,
}, async () => {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  const foretold = page.locator("#foretold");
  const foretells = (text: string | RegExp): Promise<void> =>
    foretold.filter({ hasText: text }).waitFor();
  const empty = (): Promise<unknown> =>
    page.waitForFunction(() => document.querySelector("#foretold")?.textContent === "");
  await visitor.set("seed", "5");
  await visitor.set("maxRounds", "1");
  await watch(page);

  // The drafting time of a first answer is unknown, so the page tells only the end of its reading.
  await visitor.answer(long("fox"));
  const first = await seen(page);
  assert.deepEqual(first.lines.flatMap(secondsIn), []);
  assert.ok(
    first.lines.some((line) =>
      /^Reading the conversation: .+ \d+ of \d+ tokens.*… The question is read in about \d+ s\.$/.test(
        line,
      ),
    ),
    first.lines.join("\n"),
  );

  await page.locator("#new").click();
  await page.locator("#question").fill(long("hen"));
  await foretells(sentence);
  assert.equal(
    await page
      .locator("#ask")
      .evaluate((ask) => document.getElementById(ask.getAttribute("aria-describedby")!)?.id),
    "foretold",
  );
  await visitor.faultless();
  const [before = 0] = secondsIn((await foretold.textContent()) ?? "");
  await seen(page);
  await visitor.answer(long("hen"));
  const second = await seen(page);
  const seconds = second.lines.flatMap(secondsIn);
  const [sent = 0] = seconds;
  assert.ok(Math.abs(sent - before) <= 1, `${before} s before it was sent, ${sent} s then`);
  assert.ok(seconds.at(-1)! <= sent / 2, `counts down: ${seconds.join(" ")}`);
  const facts = (await page.locator(".exchange .facts").textContent()) ?? "";
  const taken = Number(/first segment after ([\d.]+) s/.exec(facts)?.[1]);
  assert.ok(taken / before < 2 && before / taken < 2, `${before} s foretold: ${facts}`);
  assert.deepEqual(second.news, [`First words in about ${sent} s.`], "said once, not each second");
  assert.ok(!sentence.test(facts));

  // A short question that goes on is answered soon: the long one before it is not read again.
  await page.locator("#question").fill("What is 3 + 4?");
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.equal(await foretold.textContent(), "");

  // Other members were not measured; the same are known after a reload, for a file as well.
  await page.locator("#new").click();
  await page.locator("#question").fill(long("cow"));
  await foretells(sentence);
  await page.getByLabel("Juno takes part").uncheck();
  await empty();
  await page.getByLabel("Juno takes part").check();
  await foretells(sentence);
  await page.reload();
  await visitor.state("ready");
  await page.locator("#question").fill(long("owl"));
  await foretells(sentence);
  await page.locator("#question").fill("");
  await empty();
  const buffer = Buffer.from(long("elk"));
  await page
    .locator("#attach-file")
    .setInputFiles({ name: "hills.txt", mimeType: "text/plain", buffer });
  await foretells(sentence);
  await page.getByRole("button", { name: "Remove hills.txt" }).click();
  await empty();
  await visitor.leaveClean();
});

test("after short questions the first one of the next visit is foretold", {
  timeout: 300_000,
}, async () => {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  await visitor.answer(long("cow", 3));
  // Too short a prompt for the speed of a step.
  await page.reload();
  await visitor.state("ready");
  await page.locator("#new").click();
  // Short ones say nothing of a far longer one.
  const foretold = page.locator("#foretold");
  await page.locator("#question").fill(long("hen", 75));
  await page.waitForTimeout(2000);
  assert.equal(await foretold.textContent(), "");
  await page.locator("#question").fill(long("fox", 20));
  await foretold.filter({ hasText: sentence }).waitFor();
  const [before = 0] = secondsIn((await foretold.textContent()) ?? "");
  await visitor.answer(long("fox", 20));
  const facts = (await page.locator(".exchange .facts").textContent()) ?? "";
  const taken = Number(/first segment after ([\d.]+) s/.exec(facts)?.[1]);
  assert.ok(taken / before < 4 && before / taken < 4, `${before} s foretold: ${facts}`);
  await visitor.leaveClean();
});
