/**
 * How answers look and what can be done with them: Markdown, hostile Markdown, the actions, and the
 * round under way.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";
import { withWriter as writes, writing } from "./with-writer.ts";

const stand = stage("none");
const story = "Tell me a short story about a fox.";
const writer = writing();

const rich = [
  "## Two eggs",
  "",
  "Take **two** eggs and `butter`:",
  "",
  "1. Beat them.",
  "   - with a fork",
  "2. Fry them.",
  "",
  "| what | grams |",
  "|:-----|------:|",
  "| eggs | 120 |",
  "| butter | 10 |",
  "",
  "```python",
  "def fry(eggs):",
  "    return eggs * 2  # in a pan",
  "```",
  "",
  "See [a book](https://books.example/eggs).",
].join("\n");
const hostile = [
  "<script>document.title='taken'</script>",
  "",
  `<img src=x onerror="document.title='taken'"> and <b onclick="document.title='taken'">bold</b>`,
  "",
  "[press](javascript:document.title='taken') ![seen](https://tracker.example/pixel.png)",
  "",
  "<javascript:alert(1)> <svg/onload=alert(1)>",
  "",
  "<style>body{display:none}</style>",
  "",
  '```html"onmouseover=alert(1)',
  '<iframe src="https://tracker.example"></iframe>',
  "```",
].join("\n");

/** A visitor whose one member writes this answer. */
const withWriter = (answer: string, context?: Parameters<typeof writes>[3]): Promise<Visitor> =>
  writes(stand, writer, answer, context);

for (const [colorScheme, width] of [
  ["light", 1280],
  ["dark", 360],
] as const)
  test(`an answer in Markdown has headings, lists, tables and code, ${colorScheme}`, async () => {
    const visitor = await withWriter(rich, {
      colorScheme,
      viewport: { width, height: 800 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const { page } = visitor;
    await visitor.answer("How do I fry two eggs?");
    const answer = page.locator(".answer");
    assert.deepEqual(
      await answer.locator("> *").evaluateAll((parts) => parts.map(({ localName }) => localName)),
      ["h3", "p", "ol", "div", "div", "p"],
    );
    assert.equal(await answer.locator("strong").textContent(), "two");
    // One wrote all of it: a stripe as its name is underlined, in place of a line under each word.
    const marks = await answer.evaluate((root) => {
      const [segment, name] = [".segment", ".member .name"].map((selector) =>
        getComputedStyle(document.querySelector(selector)!),
      );
      const { borderInlineStartStyle, borderInlineStartWidth } = getComputedStyle(root);
      return {
        stripe: [borderInlineStartStyle, borderInlineStartWidth],
        name: name!.textDecorationStyle,
        under: segment!.textDecorationLine,
      };
    });
    assert.deepEqual(marks, { stripe: [marks.name, "3px"], name: marks.name, under: "none" });
    assert.equal(await answer.locator("ol > li > ul > li").textContent(), "with a fork");
    assert.deepEqual(await answer.locator("td").allTextContents(), ["eggs", "120", "butter", "10"]);
    assert.equal(
      await answer
        .locator("td")
        .nth(1)
        .evaluate((cell) => getComputedStyle(cell).textAlign),
      "end",
    );
    const code = "def fry(eggs):\n    return eggs * 2  # in a pan";
    assert.equal(await answer.locator("pre").textContent(), code);
    assert.equal(await answer.locator(".code-comment").textContent(), "# in a pan");
    assert.equal(await answer.locator("a").getAttribute("href"), "https://books.example/eggs");
    // One text: none of its parts is a control but links and buttons.
    assert.deepEqual(
      await answer.evaluate((root) =>
        [...root.querySelectorAll("[role]")].map((part) => part.getAttribute("role")),
      ),
      ["group", "group"],
      "only what scrolls by itself",
    );

    const copied = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
    await answer.getByRole("button", { name: "Copy the code" }).press("Enter");
    await page.getByText("Copied").waitFor();
    assert.equal(await copied(), code);
    await page.getByRole("button", { name: "Copy the answer" }).press("Enter");
    await page.waitForFunction(
      (wanted) => navigator.clipboard.readText().then((text) => text === wanted),
      rich,
    );

    await visitor.faultless();
    await visitor.fits();
    await visitor.leaveClean();
  });

test("hostile Markdown does nothing", async () => {
  const visitor = await withWriter(hostile);
  const { page } = visitor;
  await visitor.answer("Attack!");
  const answer = page.locator(".answer");
  const shown = (await answer.textContent()) ?? "";
  for (const part of ["<script>", "onerror=", "onclick=", "<svg/onload", "<style>", "<iframe"])
    assert.ok(shown.includes(part), `${part} is text`);
  assert.deepEqual(
    await answer.evaluate((root) =>
      [...new Set([...root.querySelectorAll("*")].map(({ localName }) => localName))].sort(),
    ),
    ["a", "button", "code", "div", "p", "pre", "span"],
  );
  assert.deepEqual(
    await answer.evaluate((root) =>
      [...root.querySelectorAll("*")]
        .flatMap((part) => part.getAttributeNames())
        .filter((name) => name.startsWith("on") || name === "style" || name === "src"),
    ),
    [],
  );
  assert.deepEqual(
    await answer
      .locator("a")
      .evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
    ["https://tracker.example/pixel.png"],
    "an image is a link, loaded by nobody",
  );
  for (const words of ["press", "bold"]) await answer.getByText(words).first().click();
  assert.equal(await page.title(), "Conclave");
  await visitor.leaveClean();
});

test("an answer continues after a limit, by the keyboard, and its rounds count on", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  await visitor.set("seed", "5");
  await visitor.set("segmentTokens", "4");
  await visitor.set("maxRounds", "2");
  const begun = await visitor.answer(story);
  assert.match(
    (await page.locator(".exchange .facts").textContent()) ?? "",
    /the most rounds allowed · 2/,
  );
  await page.getByRole("button", { name: "Continue" }).press("Enter");
  await page.locator(".exchange .facts", { hasText: "· 4 rounds" }).waitFor();
  await visitor.state("ready");
  const whole = await visitor.text();
  assert.ok(whole.startsWith(begun) && whole.length > begun.length, whole);
  await page.getByRole("button", { name: "How it was written" }).press("Enter");
  const round = page.locator(".inspector h3");
  for (const number of [1, 2, 3, 4]) {
    assert.equal(await round.textContent(), `Round ${number}`);
    if (number < 4) await page.getByRole("button", { name: "Round after" }).press("Enter");
  }
  assert.ok(await page.getByRole("button", { name: "Round after" }).isDisabled());
  await visitor.set("maxRounds", "64");
  await page.getByRole("button", { name: "Continue" }).press("Enter");
  await page.locator(".exchange .facts", { hasText: "finished" }).waitFor();
  await visitor.state("ready");
  assert.ok((await visitor.text()).startsWith(whole));
  assert.equal(await page.getByRole("button", { name: "Continue" }).isVisible(), false);
  assert.equal(await page.locator(".exchange").count(), 1);
  await visitor.leaveClean();
});

test("a stopped answer is continued from where it was", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await Visitor.arrive(stand.browser, stand.site, { serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "4");
  await visitor.when(
    () => document.querySelector(".segment") !== null,
    () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })),
  );
  await visitor.ask(story);
  await visitor.state("ready");
  assert.match((await page.locator(".exchange .facts").textContent()) ?? "", /stopped by you/);
  const kept = await visitor.text();
  await visitor.set("maxRounds", "2");
  await page.getByRole("button", { name: "Continue" }).click();
  await visitor.state("answering");
  await visitor.state("ready");
  const whole = await visitor.text();
  assert.ok(whole.startsWith(kept) && whole.length > kept.length, `${kept} | ${whole}`);
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});

test("a question is edited, an answer regenerated, and the earlier ones come back", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  const questions = page.locator(".exchange .question");
  await visitor.answer("What is 2 + 3?");
  const second = await visitor.answer("What is 5 + 4?");
  await page
    .getByRole("button", { name: "Edit the question and ask again" })
    .first()
    .press("Enter");
  const box = page.getByRole("textbox", { name: "The question, edited" });
  assert.equal(await box.inputValue(), "What is 2 + 3?");
  await visitor.faultless("while editing");
  await box.press("Escape");
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Edit",
    "the focus is back",
  );
  await page.keyboard.press("Enter");
  await box.fill("What is 20 + 30?");
  await box.press("Enter");
  await visitor.state("ready");
  assert.deepEqual(await questions.allTextContents(), ["What is 20 + 30?"]);
  const notice = page.locator('.notice[data-key="replaced"]');
  assert.match((await notice.textContent()) ?? "", /The earlier answer and 1 answer after it/);
  await notice.getByRole("button", { name: "Bring back" }).click();
  assert.deepEqual(await questions.allTextContents(), ["What is 2 + 3?", "What is 5 + 4?"]);
  assert.equal(await visitor.text(), second);

  await page.locator("#question").fill("half a question");
  await page.getByRole("button", { name: "Regenerate" }).last().press("Enter");
  await visitor.state("ready");
  assert.deepEqual(await questions.allTextContents(), ["What is 2 + 3?", "What is 5 + 4?"]);
  assert.equal(await page.locator("#question").inputValue(), "half a question");
  await notice.getByRole("button", { name: "Bring back" }).click();
  assert.equal(await visitor.text(), second);
  await visitor.leaveClean();
});

test("a conversation's title follows its first question, unless the visitor named it", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const titles = page.locator(".conversation-title");
  const titled = async (title: string): Promise<void> => {
    await page.locator("#conversations").click();
    await titles.filter({ hasText: title }).waitFor();
    assert.deepEqual(await titles.allTextContents(), [title]);
    await page.keyboard.press("Escape");
  };
  const edit = async (index: number, question: string): Promise<void> => {
    await page
      .getByRole("button", { name: "Edit the question and ask again" })
      .nth(index)
      .press("Enter");
    await page.getByRole("textbox", { name: "The question, edited" }).fill(question);
    await page.keyboard.press("Enter");
    await visitor.state("ready");
  };
  await visitor.answer("What is 2 + 3?");
  await visitor.answer("What is 5 + 4?");
  await edit(1, "What is 5 + 5?");
  await titled("What is 2 + 3?");
  await edit(0, "What is 20 + 30?");
  await titled("What is 20 + 30?");
  await page.getByRole("button", { name: "Bring back" }).click();
  await titled("What is 2 + 3?");
  await page.reload();
  await visitor.state("ready");
  await edit(0, "What is 1 + 1?");
  await titled("What is 1 + 1?");

  await page.locator("#conversations").click();
  await page.getByRole("button", { name: /^Rename/ }).click();
  await page.getByLabel("Title", { exact: true }).fill("Sums");
  await page.keyboard.press("Enter");
  await titles.filter({ hasText: "Sums" }).waitFor();
  await page.keyboard.press("Escape");
  await edit(0, "What is 4 + 4?");
  await titled("Sums");
  await visitor.leaveClean();
});

test("a round says that one answered alone, and how sure; less sure, it asks others", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  // Ada is a little larger than Quill. With the most trust in size it is the strongest member.
  await page.getByLabel("Juno takes part").uncheck();
  await visitor.set("trust", "4");
  await visitor.set("temperature", "0");
  const panel = page.locator(".inspector");
  const told = panel.locator("> p.hint");
  /** Asks a first question, and opens its round. */
  const open = async (alone: string): Promise<void> => {
    await visitor.set("alone", alone);
    await visitor.answer("How many times does the letter e occur in 'cheese'?");
    await page.locator(".segment").first().click();
    await panel.waitFor();
  };

  await open("1.5");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByText("Download the run").click(),
  ]);
  const { rounds } = JSON.parse(await readFile(await download.path(), "utf8")) as {
    rounds: { scores: { harmonic: number }[][] }[];
  };
  assert.deepEqual(
    rounds.map(({ scores }) => scores.map((row) => row.length)),
    [[1, 0]],
  );
  const surprise = -rounds[0]!.scores[0]![0]!.harmonic;
  assert.ok(surprise > 0.5 && surprise < 1.5, String(surprise));
  assert.deepEqual(await told.allTextContents(), [
    "Ada, the strongest member, was sure of its answer " +
      `(surprise ${surprise.toFixed(1)} nats), so that no other was asked.`,
  ]);
  assert.match((await panel.locator("h3 + p").textContent()) ?? "", /^Ada's draft was taken\. D/);
  assert.deepEqual(await panel.locator(".candidates .name").allTextContents(), ["Ada"]);
  assert.deepEqual(await panel.locator(".candidates .mark").allTextContents(), ["taken"]);
  assert.equal(await panel.locator(".matrix").count(), 0);
  await visitor.faultless();

  // Only a first question is ever answered alone.
  await page.locator("#new").click();
  await open("0.5");
  assert.deepEqual(await told.allTextContents(), []);
  assert.equal(await panel.locator(".matrix tbody tr").count(), 2);
  await visitor.leaveClean();
});

test("an answer is saved as a picture in its writers' colours", async () => {
  const visitor = await stand.arrive({ colorScheme: "light" });
  const { page } = visitor;
  await visitor.answer("What is 347 + 586?");
  const voices = await page.locator(".legend .name").evaluateAll((names) =>
    names.map((name) => {
      const hex = getComputedStyle(name).getPropertyValue("--voice").trim();
      return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
    }),
  );
  assert.ok(voices.length >= 3);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as picture" }).press("Enter"),
  ]);
  assert.equal(download.suggestedFilename(), "conclave-answer.png");
  const png = await readFile(await download.path());
  const found = await page.evaluate(
    async ({ base64, voices }) => {
      const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
      const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
      const context = canvas.getContext("2d")!;
      context.drawImage(bitmap, 0, 0);
      const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
      const count = ([r, g, b]: number[]): number => {
        let pixels = 0;
        for (let at = 0; at < data.length; at += 4)
          if (data[at] === r && data[at + 1] === g && data[at + 2] === b) pixels++;
        return pixels;
      };
      return { width: bitmap.width, height: bitmap.height, pixels: voices.map(count) };
    },
    { base64: png.toString("base64"), voices },
  );
  assert.equal(found.width, 1440);
  assert.ok(found.height > 300 && found.height < 3000, String(found.height));
  for (const pixels of found.pixels) assert.ok(pixels > 20, found.pixels.join(", "));
  await visitor.leaveClean();
});

test("a narrow table keeps its words whole, and all its headers look alike", async () => {
  const names = ["Planet", "Diameter", "Satellites", "Circumference", "Observations"];
  const row = (cells: string[]): string => `| ${cells.join(" | ")} |`;
  const lines = [row(names), row(names.map(() => "---")), row(names.map(() => "Mercury"))];
  const visitor = await withWriter(lines.join("\n"), {
    viewport: { width: 320, height: 640 },
  });
  const { page } = visitor;
  await visitor.answer("Which planets are there?");
  const heads = await page.locator(".answer th").evaluateAll((cells) =>
    cells.map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const { color, fontWeight } = getComputedStyle(cell);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      return `${color} ${fontWeight} ${lines.size}`;
    }),
  );
  assert.equal(heads.length, 5);
  const ink = await page.locator(".answer").evaluate((element) => getComputedStyle(element).color);
  assert.deepEqual(new Set(heads), new Set([`${ink} 600 1`]));
  assert.ok(
    await page.locator(".answer .wide").evaluate((part) => part.scrollWidth > part.clientWidth),
    "it scrolls by itself",
  );
  await visitor.fits();
  await visitor.leaveClean();
});

test("drafts are shown as they arrive, then the votes, then one is kept", async () => {
  writer.answer = "The fox went home and slept until the morning came again over the hill.";
  writer.pace = 900;
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    also: new URL(writer.address).origin,
    serviceWorkers: "block",
  });
  const { page } = visitor;
  await visitor.ownToys();
  await visitor.join({ base: writer.address, name: "words" });
  const far = page.locator('.member[data-state="ready"]', {
    hasText: `at ${new URL(writer.address).host} `,
  });
  await far.waitFor();
  await visitor.set("segmentTokens", "8");
  await visitor.set("maxRounds", "3");
  // Each state of the panel, as it comes.
  await page.evaluate(() => {
    const seen: string[] = [];
    Object.assign(globalThis, { seen });
    new MutationObserver(() => {
      const panel = document.querySelector<HTMLElement>(".exchange .drafting");
      if (!panel || panel.hidden) return;
      const rows = [...panel.querySelectorAll<HTMLElement>("li")];
      const state = rows.map((row) => row.dataset["state"]).join(" ");
      const titled = `${panel.querySelector("p")?.textContent?.split(" ")[0]}: ${state}`;
      if (seen.at(-1) !== titled) seen.push(titled);
    }).observe(document.body, { subtree: true, childList: true, attributes: true });
  });
  await visitor.ask(story);
  await page.locator('.exchange .drafting li[data-state="drafted"]').nth(2).waitFor();
  await visitor.faultless("in the middle of a round");
  await visitor.state("ready");
  const seen = await page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen);
  const first = seen.slice(0, seen.findIndex((state) => state.startsWith("The")) + 1);
  assert.ok(
    first.includes("Each: drafted drafted drafted drafting"),
    `those here are first: ${seen.join("\n")}`,
  );
  assert.equal(first.at(-2), "All: drafted drafted drafted drafted", seen.join("\n"));
  assert.match(first.at(-1) ?? "", /^The: (?=.*kept)(kept|lost)( (kept|lost)){3}$/);
  assert.equal(await page.locator(".exchange .drafting").isVisible(), false, "over");
  writer.pace = 0;
  await visitor.leaveClean();
});
