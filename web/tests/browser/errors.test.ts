/** Broken, truncated, damaged and missing files, broken weights, and a question that is too long: told, survived. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { writeRecitingFolder } from "./reciting-folder.ts";
import { dist, stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";

interface Listed {
  name: string;
  file: string;
}
const listed = async (): Promise<Listed[]> => JSON.parse(await readFile(`${dist}members/members.json`, "utf8")) as Listed[];

test("a file that is no model, or is cut short, is refused by name; the members that are there stay", async () => {
  const [first] = await listed();
  const whole = await readFile(`${dist}members/${first!.file}`);
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  const names = await page.locator(".member .name").allTextContents();
  const bad: [string, Buffer][] = [
    ["text.gguf", Buffer.from("This is no model at all.")],
    ["empty.gguf", Buffer.alloc(0)],
    ["header.gguf", whole.subarray(0, 20)],
    ["half.gguf", whole.subarray(0, whole.length >> 1)],
    ["counts.gguf", Buffer.concat([whole.subarray(0, 8), Buffer.alloc(16, 0xff), whole.subarray(24, 4096)])],
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
  visitor.clean();
  await visitor.leave();
});

test("files join by picking and by dropping, under names of their own; what is no model is said", async () => {
  const [first] = await listed();
  const buffer = await readFile(`${dist}members/${first!.file}`);
  const visitor = await Visitor.arrive(stand.browser, stand.site);
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
  visitor.clean();
  await visitor.leave();
});

test("a bundled file that arrives damaged is named; the others answer; another try repairs it", async () => {
  const [first] = await listed();
  const damaged = await readFile(`${dist}members/${first!.file}`);
  damaged[damaged.length >> 1]! ^= 0xff;
  stand.site.overrides.set(`members/${first!.file}`, damaged);
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  const failure = page.locator(".member .failure").first();
  assert.match((await failure.textContent()) ?? "", /SHA-256/);
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "");
  stand.site.overrides.clear();
  await page.locator(".member").first().getByRole("button", { name: /^Try again/ }).click();
  await page.locator('.member[data-state="ready"] .name').filter({ hasText: first!.name }).waitFor();
  visitor.clean();
  await visitor.leave();
});

test("a question beyond the context is refused with a way on", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  const long = "one two three four ".repeat(3000).trim();
  await visitor.ask(long);
  await visitor.state("ready");
  const failure = page.locator(".exchange .failure");
  assert.equal(await failure.locator("[role=alert]").getAttribute("data-kind"), "ContextFull");
  const told = (await failure.boundingBox())!;
  const box = (await page.locator("#question").boundingBox())!;
  assert.ok(told.y > 0 && told.y + told.height <= box.y, "what to do next is in view, however long the question");
  assert.deepEqual(await failure.getByRole("button").allTextContents(), ["Shorten the question"], "no member is to blame, and nothing to begin anew");
  await failure.getByRole("button").click();
  assert.equal(await page.locator("#question:focus").inputValue(), long);
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "");
  await visitor.ask(long);
  await visitor.state("ready");
  await failure.last().getByRole("button", { name: "Start a new conversation" }).click();
  assert.deepEqual([await page.locator(".exchange").count(), await page.locator("#question:focus").inputValue()], [0, long]);
  visitor.clean();
  await visitor.leave();
});

test("a member whose weights are broken is named, and the others answer once it is removed", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "conclave-errors-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  await writeRecitingFolder(join(folder, "Broken"), "It works.", { broken: true });
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  const names = await page.locator(".member .name").allTextContents();
  await visitor.models();
  await page.locator("#models-dialog .add-files input[webkitdirectory]").setInputFiles(join(folder, "Broken"));
  await page.locator("#models-dialog[open]").waitFor({ state: "detached" });
  await page.locator('.member[data-state="ready"] .name', { hasText: "Broken" }).waitFor();
  await visitor.set("maxRounds", "1");
  assert.equal(await visitor.answer(sum), "");
  const failure = page.locator(".exchange .failure");
  assert.match((await failure.locator("[role=alert]").textContent()) ?? "", /^Broken: the model's logits are not finite numbers/);
  const remove = failure.getByRole("button", { name: "Remove Broken" });
  for (let tabs = 0; tabs < 50 && !(await remove.evaluate((button) => button === document.activeElement)); tabs++) await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Enter");
  await remove.waitFor({ state: "detached" });
  assert.deepEqual(await page.locator(".member .name").allTextContents(), names);
  assert.equal(await page.locator("#question").inputValue(), sum);
  assert.ok(await page.locator("#question").evaluate((box) => box === document.activeElement));
  await page.keyboard.press("Enter");
  await page.locator(".exchange").nth(1).waitFor();
  await visitor.state("ready");
  assert.notEqual(await visitor.text(), "");
  assert.equal(await page.locator(".failure [role=alert]").count(), 1);
  visitor.clean();
  await visitor.leave();
});
