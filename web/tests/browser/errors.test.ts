/**
 * Broken, truncated, damaged and missing files, broken weights, too long questions and answers:
 * reported and survived. Also the display of thoughts.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Locator } from "playwright-core";
import { writeRecitingFolder, type Recital } from "./reciting-folder.ts";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";

interface Listed {
  name: string;
  file: string;
}
const listed = async (): Promise<Listed[]> =>
  JSON.parse(await readFile(`${dist}members/members.json`, "utf8")) as Listed[];

test("a file that is no model, or is cut short, is refused by name; the members stay", async () => {
  const [first] = await listed();
  const whole = await readFile(`${dist}members/${first!.file}`);
  const visitor = await stand.arrive();
  const { page } = visitor;
  const names = await page.locator(".member .name").allTextContents();
  const bad: [string, Buffer][] = [
    ["text.gguf", Buffer.from("This is no model at all.")],
    ["empty.gguf", Buffer.alloc(0)],
    ["header.gguf", whole.subarray(0, 20)],
    ["half.gguf", whole.subarray(0, whole.length >> 1)],
    [
      "counts.gguf",
      Buffer.concat([whole.subarray(0, 8), Buffer.alloc(16, 0xff), whole.subarray(24, 4096)]),
    ],
  ];
  for (const [name, buffer] of bad) {
    await visitor.pick([{ name, mimeType: "application/octet-stream", buffer }]);
    const card = page.locator(".member", { hasText: name.replace(".gguf", "") });
    await card.locator('[role="alert"][data-kind="ModelFile"]').waitFor();
    await visitor.state("ready");
    await card.getByRole("button", { name: `Remove ${name.replace(".gguf", "")}` }).click();
    assert.deepEqual(await page.locator(".member .name").allTextContents(), names, `after ${name}`);
  }
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer(sum), "", "the page still answers");
  await visitor.leaveClean();
});

test("where the browser never opens a file of its storage, the page starts and answers", async (t) => {
  t.after(() => putNothingBeforeWorker(stand.site));
  runBeforeWorker(
    stand.site,
    "FileSystemFileHandle.prototype.createSyncAccessHandle = () => new Promise(() => undefined);",
  );
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  assert.notEqual(await visitor.answer(sum), "");
  await visitor.leaveClean();
});

test("picked and dropped files join under own names; what is no model is said", async () => {
  const [first] = await listed();
  const buffer = await readFile(`${dist}members/${first!.file}`);
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.pick([{ mimeType: "application/octet-stream", buffer, name: "mine.gguf" }]);
  await page.locator('.member[data-state="ready"] .name', { hasText: /^mine$/ }).waitFor();
  assert.equal(await page.locator("#ensemble").textContent(), "Your own choice");

  const dropped = await page.evaluateHandle(
    async ([address, name]) => {
      const data = new DataTransfer();
      data.items.add(new File([await (await fetch(address!)).arrayBuffer()], name!));
      return data;
    },
    [`members/${first!.file}`, "mine.gguf"],
  );
  await page.dispatchEvent("body", "dragenter", { dataTransfer: dropped });
  assert.ok(await page.locator(".drop").isVisible(), "the page says that it takes what is dragged");
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  assert.ok(await page.locator(".drop").isHidden());
  await page.locator('.member[data-state="ready"] .name', { hasText: /^mine 2$/ }).waitFor();
  await visitor.state("ready");

  await visitor.pick([{ mimeType: "text/plain", buffer: Buffer.from("{}"), name: "config.json" }]);
  await page.locator(".notice.error", { hasText: "no model among these files" }).waitFor();
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "");
  const legend = await page.locator(".legend .name").allTextContents();
  assert.ok(legend.includes("mine") && legend.includes("mine 2"));
  await visitor.leaveClean();
});

test("a damaged bundled file is named; the others answer; another try repairs it", async () => {
  const [first] = await listed();
  const damaged = await readFile(`${dist}members/${first!.file}`);
  damaged[damaged.length >> 1]! ^= 0xff;
  stand.site.overrides.set(`members/${first!.file}`, damaged);
  const visitor = await stand.arrive();
  const { page } = visitor;
  const failure = page.locator(".member .failure").first();
  assert.match((await failure.textContent()) ?? "", /SHA-256/);
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "");
  stand.site.overrides.clear();
  await page
    .locator(".member")
    .first()
    .getByRole("button", { name: /^Try again/ })
    .click();
  await page
    .locator('.member[data-state="ready"] .name')
    .filter({ hasText: first!.name })
    .waitFor();
  await visitor.leaveClean();
});

test("a question beyond the context is refused with a way on", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const long = "one two three four ".repeat(3000).trim();
  await visitor.ask(long);
  await visitor.state("ready");
  const failure = page.locator(".exchange .failure");
  assert.equal(await failure.locator("[role=alert]").getAttribute("data-kind"), "ContextFull");
  const told = (await failure.boundingBox())!;
  const box = (await page.locator("#question").boundingBox())!;
  assert.ok(
    told.y > 0 && told.y + told.height <= box.y,
    "what to do next is in view, however long the question",
  );
  assert.deepEqual(
    await failure.getByRole("button").allTextContents(),
    ["Shorten the question"],
    "no member is to blame, and nothing to begin anew",
  );
  await failure.getByRole("button").click();
  assert.equal(await page.locator("#question:focus").inputValue(), long);
  await visitor.set("maxRounds", "1");
  await visitor.set("alpha", "20");
  assert.notEqual(await visitor.answer(sum), "");
  const chart = page.locator("#weights .plot");
  const charted = await chart.getAttribute("aria-label");
  assert.match(charted ?? "", /^Weights after round 1: /);
  await visitor.ask(long);
  await visitor.state("ready");
  assert.equal(
    await chart.getAttribute("aria-label"),
    charted,
    "a question without an answer leaves the chart of the last one",
  );
  assert.deepEqual(
    await failure.last().getByRole("button").allTextContents(),
    ["Shorten the question"],
    "what was said before is left out by itself: a new conversation has no more room",
  );
  await failure.last().getByRole("button").click();
  assert.deepEqual(
    [await page.locator(".exchange").count(), await page.locator("#question:focus").inputValue()],
    [3, long],
  );
  await visitor.leaveClean();
});

/** A visitor whose ensemble has one more member: a folder of that name. */
async function withFolder(
  context: TestContext,
  name: string,
  text: string,
  recital: Recital,
): Promise<Visitor> {
  const folder = await mkdtemp(join(tmpdir(), "conclave-errors-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  await writeRecitingFolder(join(folder, name), text, recital);
  const visitor = await stand.arrive();
  await visitor.ownToys();
  await visitor.pickFolder(join(folder, name));
  await visitor.page.locator('.member[data-state="ready"] .name', { hasText: name }).waitFor();
  return visitor;
}

/** Presses a button by keyboard alone. */
async function press({ page }: Visitor, button: Locator): Promise<void> {
  for (
    let tabs = 0;
    tabs < 50 && !(await button.evaluate((one) => one === document.activeElement));
    tabs++
  )
    await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await button.waitFor({ state: "detached" });
}

test("a member of broken weights is named and can be removed; others answer", async (context) => {
  const visitor = await withFolder(context, "Broken", "It works.", { broken: true });
  const { page } = visitor;
  const names = (await page.locator(".member .name").allTextContents()).filter(
    (name) => name !== "Broken",
  );
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer(sum), "", "the others go on");
  const leaving = page.locator(".exchange .leaving");
  assert.match(
    (await leaving.locator("[role=status]").textContent()) ?? "",
    /^Broken left in round 1, the others go on: the model's logits are not finite numbers/,
  );
  assert.equal(await page.locator(".failure [role=alert]").count(), 0);
  assert.match(
    (await page.locator(".member", { hasText: "Broken" }).textContent()) ?? "",
    /left in the first round/,
  );
  await press(visitor, leaving.getByRole("button", { name: "Remove Broken" }));
  await page.waitForFunction(
    (count) => document.querySelectorAll(".member").length === count,
    names.length,
  );
  assert.deepEqual(await page.locator(".member .name").allTextContents(), names);
  assert.notEqual(await visitor.answer(sum), "");
  assert.equal(await page.locator(".leaving [role=status]").count(), 1);
  await visitor.leaveClean();
});

test("broken and alone, its failure is the answer's, with a way on", async (context) => {
  const visitor = await withFolder(context, "Broken", "It works.", { broken: true });
  const { page } = visitor;
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer(sum), "", "the others go on");
  const charted = await page.locator("#weights .plot").getAttribute("aria-label");
  assert.match(charted ?? "", /^Weights after round [12]: /);
  await page.locator("#new").click();
  for (const box of await page
    .locator(".member", { hasNotText: "Broken" })
    .locator(".takes-part input")
    .all())
    await box.setChecked(false);
  assert.equal(await visitor.answer(sum), "");
  assert.equal(
    await page.locator("#weights .plot").getAttribute("aria-label"),
    charted,
    "it failed before it had a round, and leaves the chart of the last answer",
  );
  const failure = page.locator(".exchange .failure");
  assert.match(
    (await failure.locator("[role=alert]").textContent()) ?? "",
    /^Broken: the model's logits are not finite numbers/,
  );
  await press(visitor, failure.getByRole("button", { name: "Remove Broken" }));
  assert.equal(await page.locator("#question").inputValue(), sum);
  assert.ok(await page.locator("#question").evaluate((box) => box === document.activeElement));
  await visitor.leaveClean();
});

test("a panic that nobody waits for is told, and one press opens the engine again", async () => {
  // Rejects as the module's own promise queue does, seen by the worker alone.
  runBeforeWorker(
    stand.site,
    'addEventListener("message", ({ data }) => { ' +
      'if (data.type === "ask") Promise.reject(new Error("unreachable")); });',
  );
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  await visitor.ask(sum);
  const alert = visitor.page.locator(".failure [role=alert]");
  await alert.waitFor();
  assert.match((await alert.textContent()) ?? "", /unreachable/);
  putNothingBeforeWorker(stand.site);
  await visitor.page.locator(".failure button", { hasText: "CPU" }).click();
  await visitor.state("ready");
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer(sum), "");
  await visitor.leave();
});

test("a template that doubles text without end is its model's fault alone", async (context) => {
  const template =
    "{% set n = namespace(x='ab') %}" +
    "{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}";
  const visitor = await withFolder(context, "Hostile", "It works.", { template });
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  assert.equal(await visitor.answer(sum), "");
  const failure = page.locator(".exchange .failure");
  assert.equal(await failure.locator("[role=alert]").getAttribute("data-kind"), "Template");
  assert.match(
    (await failure.locator("[role=alert]").textContent()) ?? "",
    /^Hostile: .*does not come to an end within its limits/,
  );
  await press(visitor, failure.getByRole("button", { name: "Remove Hostile" }));
  assert.notEqual(await visitor.answer(sum), "", "the others answer");
  await visitor.leaveClean();
});

test("a full context ends an answer once the others left, without an error", async (context) => {
  const visitor = await withFolder(context, "Singer", "la ", { endless: true, context: 128 });
  const { page } = visitor;
  for (const box of await page
    .locator(".member", { hasNotText: "Singer" })
    .locator(".takes-part input")
    .all())
    await box.setChecked(false);
  // A song may repeat itself.
  await visitor.set("discount", "1");
  const text = await visitor.answer("Sing!");
  assert.ok(text.length > 80 && "la ".repeat(60).startsWith(text), text);
  assert.match(
    (await page.locator(".exchange .facts").textContent()) ?? "",
    /since the context is full/,
  );
  assert.equal(await page.locator("[role=alert]").count(), 0);
  await page
    .locator(".exchange .failure")
    .getByRole("button", { name: "Start a new conversation" })
    .click();
  assert.equal(await page.locator(".exchange").count(), 0);
  await visitor.leaveClean();
});

test("a member that may think shows it folded, and not in the answer", async (context) => {
  const visitor = await withFolder(context, "Thinker", "Yes.", { thinks: "Hm, lt'u" });
  const { page } = visitor;
  for (const box of await page
    .locator(".member", { hasNotText: "Thinker" })
    .locator(".takes-part input")
    .all())
    await box.setChecked(false);
  assert.equal(await visitor.answer("Is it so?"), "Yes.");
  assert.equal(await page.locator(".thoughts details").count(), 0, "off unless it is asked for");
  for (const [mode, count] of [
    ["on", 1],
    ["auto", 2],
  ] as const) {
    await visitor.set("thinking", mode);
    assert.equal(await visitor.answer("Is it so?"), "Yes.");
    assert.equal(await page.locator(".thoughts details").count(), count);
  }
  const fold = page.locator(".thoughts details").last();
  assert.equal(await fold.locator("summary").textContent(), "What Thinker thought");
  const thought = fold.locator(".thought");
  assert.ok(await thought.isHidden(), "folded");
  await fold.locator("summary").click();
  assert.ok(await thought.isVisible());
  assert.equal(await thought.textContent(), "Hm, lt'u");
  await visitor.leaveClean();
});
