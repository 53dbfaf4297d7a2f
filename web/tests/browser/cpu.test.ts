/** The page on the CPU backend, as for a visitor without a graphics card, in full. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import { plainHost } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const pressEscape = (): void =>
  void document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));

test("a first visit ends in an answer, with who wrote what and who voted how", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  assert.match((await page.locator("#engine").textContent()) ?? "", /^CPU/);
  assert.match((await page.locator("#about-toys").textContent()) ?? "", /toys/);
  const members = await page.locator(".member .name").allTextContents();
  assert.ok(members.length >= 3);
  for (const about of await page.locator(".member .about").allTextContents())
    assert.match(about, /parameters · [\d.]+\sMB · .+ model, its numbers in /);

  const answer = await visitor.answer(sum);
  assert.match(answer, /\w/);
  assert.match(
    (await page.locator(".exchange .facts").textContent()) ?? "",
    /finished · \d+ rounds? · [\d.]+ tokens\/s · first segment after/,
  );
  assert.equal(await page.locator(".answer").getAttribute("aria-live"), "polite");
  assert.equal(
    await page.locator("[aria-busy]").count(),
    0,
    "Chromium announces nothing of a live region that is busy",
  );

  const legend = (await page.locator(".legend").textContent()) ?? "";
  const won = members.map((name) =>
    Number(new RegExp(`${name} (\\d+|none)`).exec(legend)?.[1]?.replace("none", "0")),
  );
  const segments = page.locator(".segment");
  assert.ok(won.reduce((a, b) => a + b) >= (await segments.count()));

  await segments.first().click();
  assert.equal(await page.locator(".candidates li").count(), members.length);
  assert.equal(await page.locator(".candidates .taken").count(), 1);
  assert.equal(await page.locator(".matrix tbody tr").count(), members.length);
  for (const row of await page.locator(".matrix tbody tr").all()) {
    const shares = (await row.locator("td:not(.figure)").allTextContents()).map((cell) =>
      Number.parseInt(cell, 10),
    );
    assert.ok(
      Math.abs(shares.reduce((a, b) => a + b) - 100) <= shares.length,
      `shares ${shares.join(" ")} sum to one`,
    );
  }
  const weights = (await page.locator(".matrix tbody td.figure").allTextContents()).map(Number);
  assert.ok(Math.abs(weights.reduce((a, b) => a + b) - 1) < 0.01);
  assert.match(
    (await page.locator("#weights .plot").getAttribute("aria-label")) ?? "",
    /^Weights after round \d+: /,
  );
  await visitor.leaveClean();
});

test("the same seed gives the same answer, settings reach the method", async () => {
  const visitor = await stand.arrive();
  await visitor.set("seed", "5");
  await visitor.set("maxRounds", "2");
  const first = await visitor.answer(sum);
  assert.ok((await visitor.page.locator(".segment").count()) <= 2);
  await visitor.page.locator("#new").click();
  assert.equal(await visitor.answer(sum), first);
  await visitor.set("maxRounds", "0");
  await visitor.page.locator("#question").fill(sum);
  await visitor.page.locator("#ask").click();
  assert.equal(
    await visitor.page.locator(".exchange").count(),
    1,
    "a setting out of range asks nothing",
  );
  await visitor.leaveClean();
});

test("stop keeps the text so far; the next question goes on from it", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "2");
  await visitor.when(() => document.querySelector(".segment") !== null, pressEscape);
  await visitor.ask("Tell me a short story about a fox.");
  await visitor.state("ready");
  assert.match((await page.locator(".exchange .facts").textContent()) ?? "", /stopped by you/);
  const kept = await visitor.text();
  assert.notEqual(kept, "");
  await visitor.answer(sum);
  assert.equal(
    (await page.locator(".exchange").first().locator(".segment").allTextContents()).join(""),
    kept,
  );
  assert.match((await page.locator(".exchange .facts").last().textContent()) ?? "", /finished/);
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});

test("a long conversation says how far members have read, and stops while they read", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  const reading = (): boolean =>
    document
      .querySelector(".exchange .facts")
      ?.textContent?.startsWith("Reading the conversation") ?? false;
  await visitor.when(
    reading,
    () =>
      void (document.body.dataset["read"] =
        document.querySelector(".exchange .facts")?.textContent ?? ""),
  );
  await visitor.when(reading, pressEscape);
  await visitor.ask(`${"The fox went over the hill and the goose went home. ".repeat(25)}${sum}`);
  await visitor.state("ready");
  assert.match(
    (await page.evaluate(() => document.body.dataset["read"])) ?? "",
    /^Reading the conversation: (Ada|Quill|Juno) 32 of \d{3} tokens/,
  );
  assert.match(
    (await page.locator(".exchange .facts").textContent()) ?? "",
    /stopped by you · 0 rounds/,
  );
  assert.notEqual(await visitor.answer(sum), "");
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});

test("the run comes down as a file that a replay reads", async () => {
  const visitor = await stand.arrive();
  const answer = await visitor.answer(sum);
  const [download] = await Promise.all([
    visitor.page.waitForEvent("download"),
    visitor.page.getByText("Download the run").click(),
  ]);
  const run = JSON.parse(await readFile(await download.path(), "utf8")) as {
    members: string[];
    settings: { rate: string };
    answer: string;
    rounds: {
      active: number[];
      scores: { meanLogit: number; harmonic?: number }[][];
      winner: number;
      totals: number[];
    }[];
  };
  assert.equal(run.answer, answer);
  assert.equal(run.settings.rate, "code");
  for (const round of run.rounds) {
    assert.equal(round.scores.length, round.active.length);
    for (const row of round.scores) {
      assert.equal(row.length, run.members.length);
      assert.ok(
        row.every((score) => Number.isFinite(score.meanLogit) && Number.isFinite(score.harmonic)),
        "what the default rule looks at",
      );
    }
    assert.equal(round.winner, round.totals.indexOf(Math.max(...round.totals)));
  }
  await visitor.leaveClean();
});

test("without navigator.gpu and without crypto.subtle the page runs on the CPU and says so", () =>
  // Over plain http there is no isolation.
  stand.site.withoutIsolation(async () => {
    const visitor = await stand.arrive({ host: plainHost });
    assert.equal(await visitor.page.evaluate(() => "gpu" in navigator), false);
    assert.match(
      (await visitor.page.locator("#engine").textContent()) ?? "",
      /CPU.*offers no WebGPU/,
    );
    await visitor.set("maxRounds", "1");
    assert.notEqual(await visitor.answer(sum), "");
    await visitor.leaveClean();
  }));

test("WebGPU asked for where there is none: told, and one press leads to the CPU", () =>
  // Over plain http there is no isolation.
  stand.site.withoutIsolation(async () => {
    const visitor = await stand.arrive({
      host: plainHost,
      search: "?backend=webgpu",
      loaded: false,
    });
    const notice = visitor.page.locator(".notice.error");
    await notice.waitFor();
    assert.match((await notice.textContent()) ?? "", /no WebGPU.*CPU/i);
    const length = visitor.page.locator("#setting-segmentTokens");
    assert.ok(
      await length.isDisabled(),
      "what is entered before the defaults are known would be overwritten",
    );
    assert.ok(await visitor.page.locator("#setting-backend").isEnabled());
    assert.equal(await notice.getByText("Reload on the GPU").count(), 0, "there is none");
    await notice.getByText("Reload on the CPU").click();
    await visitor.state("ready");
    assert.ok(await length.isEnabled());
    assert.notEqual(await length.inputValue(), "");
    assert.match(visitor.page.url(), /backend=cpu/);
    assert.equal(await notice.count(), 0);
    await visitor.leaveClean();
  }));

test("everything goes by keyboard alone", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const focused = (): Promise<string> =>
    page.evaluate(
      () =>
        document.activeElement?.id ||
        document.activeElement?.className ||
        document.activeElement?.ariaLabel ||
        "",
    );
  const tabTo = async (wanted: string, key = "Tab"): Promise<void> => {
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press(key);
      if ((await focused()).includes(wanted)) return;
    }
    assert.fail(`${key} never reaches ${wanted}`);
  };
  await tabTo("chip");
  await tabTo("question");
  await page.keyboard.type(sum);
  await page.keyboard.press("Enter");
  await page.locator(".exchange").waitFor();
  await visitor.state("ready");
  await tabTo("segment", "Shift+Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".inspector h3").textContent(), "Round 1");
  if ((await page.locator(".segment").count()) > 1) {
    await page.keyboard.press("ArrowRight");
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", /^Round [2-9]/);
  }
  await page.keyboard.press("Home");
  await tabTo("Round after");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".inspector h3").textContent(), "Round 2");
  assert.equal(
    await page.evaluate(() =>
      document.querySelector(".inspector")?.contains(document.activeElement),
    ),
    true,
    "the focus stays in the panel",
  );
  await page.locator(".segment").first().focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press(" ");
  assert.equal(await page.locator(".inspector").count(), 0);
  await visitor.leaveClean();
});

test("the answer's end stays in view; a new conversation starts from nothing", async () => {
  const visitor = await stand.arrive({
    viewport: { width: 1000, height: 600 },
  });
  const { page } = visitor;
  await visitor.set("maxRounds", "3");
  for (let count = 0; count < 4; count++) await visitor.answer(sum);
  const facts = (await page.locator(".exchange .facts").last().boundingBox())!;
  const box = (await page.locator("#question").boundingBox())!;
  assert.ok(
    facts.y > 0 && facts.y + facts.height <= box.y,
    `facts end at ${facts.y + facts.height}, the box begins at ${box.y}`,
  );
  await page.locator("#new").click();
  assert.equal(await page.locator(".exchange").count(), 0);
  assert.equal(await page.locator(".votes:visible").count(), 0);
  await visitor.leaveClean();
});

test("members can be left out, and one alone answers", async () => {
  const visitor = await stand.arrive();
  const boxes = visitor.page.locator(".takes-part input");
  for (let index = 1; index < (await boxes.count()); index++) await boxes.nth(index).uncheck();
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer(sum), "");
  assert.match(
    (await visitor.page.locator(".legend").textContent()) ?? "",
    /^Written by \w+ in (1 segment|2 segments)\.$/,
  );
  await boxes.first().uncheck();
  assert.ok(await visitor.page.locator("#ask").isDisabled());
  await visitor.leaveClean();
});

for (const width of [360, 390, 1280]) {
  test(`nothing is cut off at ${width} pixels`, async () => {
    const visitor = await stand.arrive({
      viewport: { width, height: 800 },
    });
    await visitor.set("maxRounds", "2");
    await visitor.answer(sum);
    await visitor.page.locator(".segment").first().click();
    await visitor.fits();
    await visitor.models();
    assert.equal(
      await visitor.page
        .locator("#models-dialog")
        .evaluate((dialog) => dialog.scrollWidth - dialog.clientWidth),
      0,
    );
    await visitor.page.keyboard.press("Escape");
    assert.equal(
      await visitor.page.evaluate(() => document.activeElement?.id),
      "models",
      "the focus is back where it was",
    );
    await visitor.leaveClean();
  });
}
