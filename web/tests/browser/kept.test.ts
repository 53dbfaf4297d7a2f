/** Conversations, the half-typed question, settings and members outlive a reload at any moment. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { arriveGreedy, idle, shown } from "./conversation-shown.ts";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const story = "Tell me a short story about a fox.";

// Makes answers long enough for a reload in their midst.
before(() => putBeforeWorker(stand.site, "paced-worker.ts"));
after(() => putNothingBeforeWorker(stand.site));

const arrive = (): Promise<Visitor> => arriveGreedy(stand);

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

const closeDialog = ({ page }: Visitor): Promise<void> =>
  page.locator("#conversations-dialog").getByRole("button", { name: "Close" }).click();
const titles = async ({ page }: Visitor): Promise<string[]> => {
  await page.locator(".conversations[aria-busy=false]").waitFor({ state: "attached" });
  return page.locator(".conversation-title").allTextContents();
};

test("two tabs on one conversation keep each other's turns and show them", async () => {
  const first = await arrive();
  await first.answer(sum);
  const second = await first.sibling();
  await second.conversations();
  await second.page.locator(".conversation-title").first().click();
  await second.page.locator(".exchange").waitFor();
  assert.deepEqual((await shown(second)).questions, [sum]);
  // Both ask in the same millisecond: the order of their turns is still one.
  const now = new Date();
  for (const tab of [first, second]) await tab.page.clock.setFixedTime(now);
  await Promise.all([first.ask(story), second.ask("What is 5 + 8?")]);
  await Promise.all([idle(first), idle(second)]);
  await first.page.locator(".exchange").nth(2).waitFor();
  await second.page.locator(".exchange").nth(2).waitFor();
  for (const tab of [first, second])
    await tab.page.waitForFunction(
      () =>
        ![...document.querySelectorAll(".facts")].some((each) =>
          /another tab/.test(each.textContent ?? ""),
        ),
    );
  const [one, two] = [await shown(first), await shown(second)];
  assert.deepEqual(one.questions, two.questions);
  assert.deepEqual(one.answers, two.answers);
  assert.ok(one.answers.every((answer) => answer !== ""));
  await first.page.reload();
  await first.page.locator(".exchange").nth(2).waitFor();
  assert.deepEqual((await shown(first)).answers, one.answers);
  for (const tab of [first, second]) tab.clean();
  await first.leave();
});

test("conversations are listed, searched, renamed, and deleted with a way back", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.set("maxRounds", "2");
  await visitor.answer(sum);
  await page.locator("#new").click();
  await visitor.answer("What is 5 + 8?");
  await visitor.conversations();
  assert.deepEqual(await titles(visitor), ["What is 5 + 8?", sum]);
  await page.locator("#search-conversations").fill("347");
  await page.locator(".conversations li").nth(1).waitFor({ state: "detached" });
  assert.deepEqual(await titles(visitor), [sum]);
  const found = page.locator("#conversations-dialog", {
    hasText: "No conversation with all these",
  });
  await page.locator("#search-conversations").fill("giraffe");
  await found.waitFor();
  await page.locator("#search-conversations").fill("");
  await page.locator(".conversations li").nth(1).waitFor();
  const when = await page.locator(".conversations li").first().textContent();
  assert.match(when ?? "", /[A-Z][a-z]{2} \d+, \d{4}, \d+:\d\d\s[AP]M/, "a date, without seconds");

  const row = page.locator(".conversations li").nth(1);
  await row.getByRole("button", { name: /^Rename/ }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("A large sum");
  await page.keyboard.press("Enter");
  await page.locator(".conversation-title", { hasText: "A large sum" }).waitFor();
  await page.waitForFunction(
    () => document.activeElement?.getAttribute("aria-label") === "Rename: A large sum",
  );

  // One title at a time is changed, and stays while the list changes around it.
  const form = page.locator(".conversations form");
  await page.getByRole("button", { name: "Rename: What is 5 + 8?" }).click();
  await page.getByRole("button", { name: "Rename: A large sum" }).click();
  assert.deepEqual([await form.count(), await titles(visitor)], [1, ["What is 5 + 8?"]]);
  await page.locator("#search-conversations").fill("347");
  await page.locator(".conversations li").nth(1).waitFor({ state: "detached" });
  await page.locator("#search-conversations").fill("");
  await page.locator(".conversations li").nth(1).waitFor();
  const kept = await form.locator("input").evaluate((input) =>
    // In Safari the composition is over before the key that ends it.
    [{ isComposing: true }, { keyCode: 229 }].flatMap((how) =>
      ["Enter", "Escape"].map((key) => {
        const of = { key, bubbles: true, cancelable: true, ...how };
        return [input.dispatchEvent(new KeyboardEvent("keydown", of)), input.isConnected];
      }),
    ),
  );
  assert.deepEqual(
    kept,
    [false, true, false, true].map((sent) => [sent, true]),
    "an input method's keys",
  );

  await page.getByRole("button", { name: "Delete: What is 5 + 8?" }).click();
  const status = page.locator("#conversations-dialog .dialog-status");
  await status.getByRole("button", { name: "Undo" }).waitFor();
  assert.deepEqual([await form.count(), await titles(visitor)], [1, []]);
  assert.equal(await page.locator(".exchange").count(), 0, "it was on the page");
  await page.keyboard.press("Enter"); // The focus is on Undo.
  await page.locator(".conversations li").nth(1).waitFor();
  await form.getByRole("button", { name: "Cancel" }).click();
  assert.deepEqual(await titles(visitor), ["What is 5 + 8?", "A large sum"]);
  await page.locator(".conversation-title", { hasText: "What is 5 + 8?" }).click();
  await page.locator(".exchange").waitFor();
  assert.deepEqual((await shown(visitor)).questions, ["What is 5 + 8?"]);
  assert.notEqual((await shown(visitor)).answers[0], "");

  await visitor.conversations();
  await page.getByRole("button", { name: "Delete everything" }).click();
  await page.getByRole("button", { name: "Delete all conversations and settings" }).click();
  await status.getByRole("button", { name: "Undo" }).waitFor();
  assert.deepEqual(await titles(visitor), []);
  await closeDialog(visitor);
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator(".exchange").count(), 0);
  assert.notEqual(await page.locator("#setting-maxRounds").inputValue(), "2");
  await visitor.leaveClean();
});

test("who wants nothing kept finds nothing, in no storage", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  await visitor.answer(sum);
  await visitor.conversations();
  await page.getByLabel("Keep nothing").check();
  await page.locator(".dialog-status", { hasText: "Nothing is kept" }).waitFor();
  await closeDialog(visitor);
  assert.equal(await page.locator(".exchange").count(), 0);
  await visitor.answer(story);
  await page.locator("#question").fill("half a quest");
  const stored = await page.evaluate(async () => {
    const open = indexedDB.open("conclave kept");
    const database = await new Promise<IDBDatabase>((resolve) => {
      open.onsuccess = () => resolve(open.result);
    });
    const names = [...database.objectStoreNames];
    const counts = await Promise.all(
      names.map(
        (name) =>
          new Promise<number>((resolve) => {
            const count = database.transaction(name).objectStore(name).count();
            count.onsuccess = () => resolve(count.result);
          }),
      ),
    );
    database.close();
    const texts = [localStorage, sessionStorage].flatMap((storage) =>
      Object.values({ ...storage }),
    );
    return { counts, texts: texts.join(" ") };
  });
  assert.deepEqual(stored.counts, [0, 0, 0, 0]);
  assert.doesNotMatch(stored.texts, /fox|quest|347/);
  await page.reload();
  await visitor.state("ready");
  assert.deepEqual(await shown(visitor), { questions: [], answers: [], draft: "" });
  await visitor.leaveClean();
});

test("conversations of the first version are there, under the present one", async () => {
  const context = await stand.browser.newContext({ serviceWorkers: "block" });
  const page = await context.newPage();
  // A page of the same origin that opens no database.
  await page.goto(`${stand.site.address}mark.svg`);
  await page.evaluate(async () => {
    const open = indexedDB.open("conclave kept", 1);
    open.onupgradeneeded = () =>
      open.result.createObjectStore("conversations", { keyPath: "id" }).put({
        id: "old",
        title: "An old talk",
        changed: 1_700_000_000_000,
        turns: [
          { question: "First?", answer: "Yes, first." },
          { question: "Second?", answer: "No." },
        ],
      });
    await new Promise((resolve) => (open.onsuccess = resolve));
    open.result.close();
  });
  const visitor = await Visitor.arrive({ newContext: async () => context }, stand.site);
  await visitor.conversations();
  await visitor.page.locator(".conversation-title", { hasText: "An old talk" }).click();
  await visitor.page.locator(".exchange").nth(1).waitFor();
  assert.deepEqual((await shown(visitor)).questions, ["First?", "Second?"]);
  assert.deepEqual(await visitor.page.locator(".answer").allTextContents(), ["Yes, first.", "No."]);
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "", "it goes on");
  visitor.clean();
  await context.close();
});

test("conversations leave as Markdown and JSON and come back from both", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.set("maxRounds", "3");
  const answer = await visitor.answer(sum);
  const files: string[] = [];
  await visitor.conversations();
  for (const kind of ["Markdown", "JSON"]) {
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: new RegExp(`^${kind}`) }).click();
    files.push(await (await download).path());
  }
  const [markdown, json] = await Promise.all(files.map((file) => readFile(file, "utf8")));
  assert.ok(markdown!.includes(sum) && markdown!.includes(answer));
  const input = page.locator("#conversations-dialog input[type=file]");
  await input.setInputFiles([
    { name: "a.md", mimeType: "text/markdown", buffer: Buffer.from(markdown!) },
    { name: "a.json", mimeType: "application/json", buffer: Buffer.from(json!) },
    { name: "b.json", mimeType: "application/json", buffer: Buffer.from("{}") },
  ]);
  const status = page.locator("#conversations-dialog .dialog-status");
  await status.filter({ hasText: "b.json can't be imported" }).waitFor();
  assert.deepEqual(await titles(visitor), [sum, sum, sum]);
  for (const [index, rounds] of [
    [0, true],
    [1, false],
  ] as const) {
    await page.locator(".conversation-title:not([aria-current])").nth(0).click();
    await page.locator(".exchange").waitFor();
    assert.equal(await page.locator(".answer").textContent(), answer, String(index));
    assert.equal((await page.locator(".segment").count()) > 0, rounds);
    await visitor.conversations();
    if (rounds)
      await page
        .locator(".conversations li", { has: page.locator("[aria-current]") })
        .getByRole("button", { name: /^Delete/ })
        .click();
    await page.locator(".conversations li").nth(1).waitFor();
  }
  await visitor.leaveClean();
});

test("a link brings question and ensemble; it asks and fetches nothing by itself", async () => {
  const link = {
    question: "What is 5 + 8?",
    title: "Two",
    members: [{ name: "ada", ref: "hf:makers/ada-GGUF/ada.gguf" }],
  };
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    serviceWorkers: "block",
    search: `#ask=${encodeURIComponent(JSON.stringify(link))}`,
  });
  const { page } = visitor;
  assert.equal(await page.locator("#question").inputValue(), link.question);
  assert.equal(new URL(page.url()).hash, "");
  const notice = page.locator('[data-key="link"]');
  assert.match((await notice.textContent()) ?? "", /names an ensemble, Two: hf:makers/);
  assert.equal(await page.locator(".exchange").count(), 0);
  assert.equal(await page.locator("#ensemble").textContent(), "The bundled toys");
  await notice.getByRole("button", { name: "Dismiss" }).press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "question");
  visitor.clean();
  // The page makes such links, too.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await visitor.conversations();
  await page.getByRole("button", { name: "Copy a link to the question" }).click();
  await page.locator(".dialog-status", { hasText: "The link was copied" }).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  const second = await page.context().newPage();
  await second.goto(copied);
  await second.waitForFunction(
    (question) => document.querySelector<HTMLTextAreaElement>("#question")?.value === question,
    link.question,
  );
  await visitor.leave();
});

test("a text file goes with a question, as much of it as there is room for", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  const attach = (name: string, text: string | Buffer): Promise<void> =>
    page
      .locator("#attach-file")
      .setInputFiles([{ name, mimeType: "text/plain", buffer: Buffer.from(text) }]);
  await attach("picture.txt", Buffer.from([0, 1, 2, 3]));
  await page.locator(".notice.error", { hasText: "picture.txt is no text" }).waitFor();
  await attach("notes.txt", Buffer.from("\ufeffone two three", "utf16le"));
  await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
  await page.reload();
  await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
  await visitor.state("ready");
  await visitor.answer("Count the words!");
  assert.equal(await page.locator(".about-question").textContent(), "With notes.txt.");
  assert.ok(await page.locator("#attached").isHidden());

  await attach("long.txt", "one two three\n".repeat(4000));
  await visitor.ask("Count the words!");
  await visitor.state("ready");
  assert.match(
    (await page.locator(".exchange").nth(1).textContent()) ?? "",
    /With long\.txt: its first [\d,]+ of 56,000 characters; the rest had no room\./,
  );
  assert.match(
    (await page.locator(".exchange").nth(1).textContent()) ?? "",
    /the oldest question was left out, with its answer/,
  );
  assert.notEqual((await shown(visitor)).answers[1], "");
  await visitor.leaveClean();
});

test("picked files are read again in place where the browser keeps their handles", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { serviceWorkers: "block" });
  const { page } = visitor;
  // A real handle of a real file; only the browser's own window for picking it is not driven.
  await page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    const handle = await root.getFileHandle("mine.gguf", { create: true });
    const writer = await handle.createWritable();
    await writer.write(await (await fetch("./members/ada.gguf")).arrayBuffer());
    await writer.close();
    Object.defineProperty(globalThis, "showOpenFilePicker", { value: async () => [handle] });
  });
  await visitor.models();
  await page.locator("#models-dialog .add-files input:not([webkitdirectory])").click();
  await page.locator('.member[data-state="ready"] .name', { hasText: /^mine$/ }).waitFor();
  await page.locator(".member", { hasText: "Quill" }).waitFor({ state: "detached" });
  await page.reload();
  await page.locator('.member[data-state="ready"] .name', { hasText: /^mine$/ }).waitFor();
  await visitor.state("ready");
  assert.deepEqual(await page.locator(".member .name").allTextContents(), ["mine"]);
  assert.notEqual(await visitor.answer(sum), "");
  // Without the file the toys are there, and the card says what to do.
  await page.evaluate(async () => {
    await (await navigator.storage.getDirectory()).removeEntry("mine.gguf");
  });
  await page.reload();
  await visitor.state("ready");
  const card = page.locator(".member", { hasText: "mine" });
  assert.equal(await card.getAttribute("data-state"), "held");
  await card.getByRole("button", { name: "Try again with mine" }).waitFor();
  assert.equal(await page.locator('.member[data-state="ready"]').count(), 3);
  await visitor.leaveClean();
});

test("what is asked again or brought back stays so after a reload, in every tab", async () => {
  const first = await arrive();
  await first.set("maxRounds", "2");
  await first.answer(sum);
  await first.answer("What is 5 + 8?");
  const before = await shown(first);
  const second = await first.sibling();
  await second.conversations();
  await second.page.locator(".conversation-title").first().click();
  await second.page.locator(".exchange").nth(1).waitFor();
  await first.page.getByRole("button", { name: "Regenerate" }).first().click();
  await idle(first);
  await second.page.locator(".exchange").nth(1).waitFor({ state: "detached" });
  await idle(second);
  for (const tab of [first, second]) assert.deepEqual((await shown(tab)).questions, [sum]);
  await first.page.getByRole("button", { name: "Bring back" }).click();
  await second.page.locator(".exchange").nth(1).waitFor();
  for (const tab of [first, second]) {
    assert.deepEqual(await shown(tab), before);
    await tab.page.reload();
    await tab.page.locator(".exchange").nth(1).waitFor();
    assert.deepEqual(await shown(tab), before);
  }
  await first.state("ready");
  await first.page.getByRole("button", { name: "Regenerate" }).last().click();
  await idle(first);
  const anew = await shown(first);
  await first.page.reload();
  await first.page.locator(".exchange").nth(1).waitFor();
  assert.deepEqual(await shown(first), anew);
  for (const tab of [first, second]) tab.clean();
  await first.leave();
});
