/**
 * A full session on the page, from the first choice to an offline visit: an ensemble of three
 * families from the hub on this machine. The toys replace large models; nothing else differs.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Hub } from "../hub.ts";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";
const families = [
  { file: "ada", name: "Ada of the hub", family: "Llama" },
  { file: "quill", name: "Quill of the hub", family: "Qwen3" },
  { file: "juno", name: "Juno of the hub", family: "Gemma" },
];
const refOf = (file: string): string => `hf:makers/${file}-GGUF/${file}.gguf`;
/** Needs of a toy, roughly: to be displayed, and small enough for any machine. */
const needed = {
  weights: 1_400_000,
  kv: 800_000,
  scratch: 2_000_000,
  perToken: { weights: 128, kv: 1_500 },
};
const taken = {
  bytes: 1_400_000,
  memory: { webgpu: needed, cpu: needed },
  shape: { context: 1024 },
};
let hub: Hub;
let bytes = 0;

before(async () => {
  hub = await Hub.start();
  for (const { file } of families) {
    const data = await readFile(`${dist}members/${file}.gguf`);
    bytes += data.length;
    await hub.put(`makers/${file}-GGUF/${file}.gguf`, data);
  }
  const models = Object.fromEntries(
    families.map(({ file, name, family }) => [
      file,
      { name, family, licence: "MIT", ref: refOf(file), format: "Q8_0", ...taken },
    ]),
  );
  const ensembles = [
    {
      name: "Three",
      description: "One of each family.",
      members: families.map(({ file }) => file),
    },
  ];
  stand.site.rebuild("catalogue.json", JSON.stringify({ models, ensembles }));
});
after(() => hub.stop());

async function arrive(): Promise<Visitor> {
  await hub.reset();
  return stand.arrive({
    search: `?debug&hub=${encodeURIComponent(hub.address)}`,
  });
}

async function choose(visitor: Visitor): Promise<void> {
  await visitor.models();
  await visitor.page.locator('[data-ensemble="Three"] button').click();
  await visitor.page.locator("#ensemble", { hasText: "Three" }).waitFor();
}

const names = (visitor: Visitor): Promise<string[]> =>
  visitor.page.locator('.member[data-state="ready"] .name').allTextContents();

test("three families come from the hub, stay, and answer offline after a reload", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  visitor.clean(); // No request has left the page's origin so far.
  await visitor.models();
  const entry = page.locator('[data-ensemble="Three"]');
  assert.match(
    (await entry.locator(".facts").textContent()) ?? "",
    new RegExp(
      `to fetch from ${new URL(hub.address).host.replaceAll(".", "\\.")} · .* of memory: weights`,
    ),
  );
  await page.locator("#models-dialog").getByRole("button", { name: "Close" }).click();
  assert.deepEqual(await hub.seen(), [], "nothing is asked before a model is chosen");

  await choose(visitor);
  await visitor.state("ready");
  assert.deepEqual(
    await names(visitor),
    families.map(({ name }) => name),
  );
  assert.equal(await hub.sent(), bytes, "every byte once");
  assert.match(
    (await page.locator("#about-models").textContent()) ?? "",
    /Ada of the hub, Quill of the hub and Juno of the hub answer here/,
  );
  await visitor.set("seed", "1");
  const online = await visitor.answer(sum);
  assert.match(online, /933/);
  await visitor.offlineCopy();

  await hub.reset();
  await page.context().setOffline(true);
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator("#ensemble").textContent(), "Three");
  assert.deepEqual(
    await names(visitor),
    families.map(({ name }) => name),
  );
  assert.equal(await page.locator("#setting-seed").inputValue(), "1", "settings are kept");
  assert.equal(await visitor.text(), online, "and so is the conversation");
  await page.locator("#new").click();
  assert.equal(await visitor.answer(sum), online);
  assert.match(
    (await page.locator(".legend").textContent()) ?? "",
    /^Written by .+ of the hub \d+ of \d+ segments?, .+ of the hub (\d+|none), .+ of the hub (\d+|none)/,
  );
  assert.deepEqual(await hub.seen(), []);

  // With one model missing, the next visit says so, shows the toys, and fetches nothing unasked.
  await visitor.models();
  const rows = page.locator(".stored li");
  assert.equal(await rows.count(), 3);
  const row = page.locator(`[data-ref="${refOf("quill")}"]`);
  await row.getByRole("button", { name: "Delete quill.gguf" }).click();
  await row.getByRole("button", { name: /^Delete 1\.3/ }).click();
  await row.waitFor({ state: "detached" });
  assert.match((await page.locator("#stored-summary").textContent()) ?? "", /^2 models, 2\.7/);
  assert.equal(await page.evaluate(() => document.activeElement?.id), "stored-summary");
  await page.context().setOffline(false);
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator("#ensemble").textContent(), "The bundled toys");
  const notice = page.locator('[data-key="incomplete"]');
  assert.match((await notice.textContent()) ?? "", /Three, .* one model is missing/);
  assert.deepEqual(await hub.seen(), []);
  await notice.getByRole("button", { name: "Fetch the rest" }).click();
  await page
    .locator('.member[data-state="ready"] .name', { hasText: "Quill of the hub" })
    .waitFor();
  assert.equal(await hub.sent(), (await readFile(`${dist}members/quill.gguf`)).length);
  await visitor.leave();
});

test("a download shows how far it is, stops, and goes on where it was", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await hub.break({ kind: "slow", file: "*quill.gguf", bytesPerSecond: 20_000, times: 1 });
  await choose(visitor);
  const card = page.locator(".member", { hasText: "Quill of the hub" });
  await card.locator(".loaded", { hasText: /kB of 1\.3\sMB/ }).waitFor();
  assert.match(
    (await page.locator("#news").textContent()) ?? "",
    /: (downloading|checking what is stored|verifying|starting)\.$| is ready\.$/,
  );
  // The second click meets “Go on”.
  await card.getByRole("button", { name: "Stop Quill of the hub" }).dblclick();
  await card.locator(".failure", { hasText: "What has arrived is kept" }).waitFor();
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Go on",
    "the focus goes to what took the button's place",
  );
  await visitor.state("ready");
  // Another engine has the same members, and fetches nothing unasked.
  await visitor.set("backend", "cpu");
  await visitor.state("loading");
  await visitor.state("ready");
  assert.equal(await page.locator("#ensemble").textContent(), "Three");
  assert.equal((await names(visitor)).length, 2);
  assert.equal(await card.getAttribute("data-state"), "stopped");
  await card.getByRole("button", { name: "Go on with Quill of the hub" }).click();
  await card.and(page.locator('[data-state="ready"]')).waitFor();
  assert.equal((await names(visitor)).length, 3);
  await visitor.leave();
});

test("a choice is kept while its first models load: a reload offers the rest", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await hub.break({ kind: "slow", file: "*quill.gguf", bytesPerSecond: 20_000, times: 1 });
  await choose(visitor);
  const card = page.locator(".member", { hasText: "Quill of the hub" });
  await card.locator(".loaded", { hasText: /kB of 1\.3\sMB/ }).waitFor();
  await hub.mend();
  const notice = page.locator('[data-key="incomplete"]');
  for (const again of [false, true]) {
    await page.reload();
    await visitor.state("ready");
    assert.match((await notice.textContent()) ?? "", /Three, .* missing/, `again: ${again}`);
  }
  await notice.getByRole("button", { name: "Fetch the rest" }).click();
  await card.and(page.locator('[data-state="ready"]')).waitFor();
  await visitor.state("ready");
  assert.equal((await names(visitor)).length, 3);
  await visitor.leave();
});

test("a second tab says that it waits, and then uses what the first has stored", async () => {
  const visitor = await arrive();
  await hub.break({ kind: "slow", file: "*quill.gguf", bytesPerSecond: 20_000, times: 1 });
  await choose(visitor);
  const second = await visitor.sibling();
  await choose(second);
  await second.page
    .locator(".member", { hasText: "Quill of the hub" })
    .locator(".loaded", { hasText: "waiting: another tab is fetching it" })
    .waitFor();
  await hub.mend();
  for (const tab of [visitor, second]) {
    await tab.state("ready");
    assert.equal((await names(tab)).length, 3);
  }
  assert.equal(await hub.sent(), bytes, "fetched once for both");
  await visitor.leave();
});

test("models that a tab has chosen are there for the next one, in the same engine", async () => {
  const visitor = await arrive();
  await choose(visitor);
  await visitor.state("ready");
  const second = await visitor.sibling();
  assert.match((await second.page.locator("#engine").textContent()) ?? "", /, in another tab$/);
  assert.equal(await second.page.locator("#ensemble").textContent(), "Three");
  assert.deepEqual(await names(second), await names(visitor));
  for (const answer of await Promise.all([visitor, second].map((tab) => tab.answer(sum))))
    assert.notEqual(answer, "");
  assert.equal(await hub.sent(), bytes);
  await visitor.leave();
});

test("what fails is told on the card with a way on; the others answer meanwhile", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await hub.break({ kind: "flip", file: "*juno.gguf", times: 0 });
  await choose(visitor);
  const card = page.locator(".member", { hasText: "Juno of the hub" });
  await card.locator('[role="alert"][data-kind="Download"]').waitFor();
  await visitor.state("ready");
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer(sum), "");
  assert.match(
    (await page.locator(".legend").textContent()) ?? "",
    /^Written by (Ada|Quill) of the hub 1 of 1 segment, (Ada|Quill) of the hub (1|none)/,
  );
  await hub.reset();
  await card.getByRole("button", { name: "Try again with Juno of the hub" }).click();
  await card.and(page.locator('[data-state="ready"]')).waitFor();
  await visitor.leave();
});

test("a model joins by its name; a name that is none is faulted only when entered", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator("#add-model").click();
  const box = page.locator("#reference");
  const hint = page.locator("#reference-hint");
  await page.waitForFunction(() => document.activeElement?.id === "reference");
  await page.keyboard.type("hf:makers/ada-GGUF/ada.bin");
  assert.match((await hint.textContent()) ?? "", /^For example/);
  assert.equal(await box.getAttribute("aria-invalid"), "false");
  await page.keyboard.press("Enter");
  assert.match((await hint.textContent()) ?? "", /no \.gguf file/);
  assert.equal(await box.getAttribute("aria-invalid"), "true");
  await box.fill("hf:makers/nobody-GGUF/nobody.gguf");
  assert.match((await hint.textContent()) ?? "", /^nobody, from 127\.0\.0\.1/);
  await page.keyboard.press("Enter");
  await page.locator(".dialog-status.error").waitFor();
  assert.equal(await page.locator(".member").count(), 3, "nothing joins that is not there");
  await box.fill(refOf("ada"));
  await page.keyboard.press("Enter");
  await page.locator('.member[data-state="ready"] .name', { hasText: /^ada$/ }).waitFor();
  assert.equal(await page.locator("#models-dialog[open]").count(), 0);
  assert.match((await hint.textContent()) ?? "", /^For example/, "nothing is left to tell off");
  assert.equal(
    await page.evaluate(() => document.activeElement?.id),
    "add-model",
    "the focus is back where it was",
  );

  // The toys have made room, and the next visit begins with it alone; once it is removed they are
  // back, at the next visit too.
  assert.deepEqual(await names(visitor), ["ada"]);
  await page.reload();
  await visitor.state("ready");
  assert.deepEqual(
    [await names(visitor), await page.locator("#ensemble").textContent()],
    [["ada"], "Your own choice"],
  );
  await page.getByRole("button", { name: "Remove ada" }).click();
  await page.locator('.member[data-state="ready"]').nth(2).waitFor();
  assert.deepEqual(
    [await names(visitor), await page.locator("#ensemble").textContent()],
    [["Ada", "Quill", "Juno"], "The bundled toys"],
  );
  await page.reload();
  await visitor.state("ready");
  assert.deepEqual(await names(visitor), ["Ada", "Quill", "Juno"]);
  await visitor.leave();
});

test("a newer version of a stored model is looked for when asked, and named", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await page.locator("#add-model").click();
  await page.locator("#reference").fill(refOf("quill"));
  await page.keyboard.press("Enter");
  await page.locator('.member[data-state="ready"] .name', { hasText: /^quill$/ }).waitFor();
  await visitor.models();
  await hub.reset();
  const look = page.getByRole("button", { name: "Look for newer versions" });
  const told = page.locator(".updates [role=status]");
  await look.click();
  await told.getByText("No newer version is known.").waitFor();
  assert.equal(await hub.sent(), 0, "no file is fetched for it");
  await hub.put("makers/quill-GGUF/README.md", "A commit later.");
  await look.click();
  await told.getByText("1 model of 1 can be had newer.").waitFor();
  assert.match((await page.locator(".stored .newer").textContent()) ?? "", /delete this one/);
  await hub.break({ kind: "404", on: "api", times: 1 });
  await look.click();
  await told.getByText(/1 model could not be asked about/).waitFor();
  assert.equal(await page.locator(".stored .newer").count(), 0);
  await visitor.leave();
});

test("what has no room is refused before a byte of it is fetched", async () => {
  // Chromium lets tests set an origin's quota, but reports the real one to the page.
  const told =
    "StorageManager.prototype.estimate = async () => ({ quota: 1_000_000, usage: 200_000 });";
  runBeforeWorker(stand.site, told);
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.models();
  assert.ok(await page.locator('[data-ensemble="Three"] button').isDisabled());
  assert.match(
    (await page.locator('[data-ensemble="Three"] .verdict').textContent()) ?? "",
    /Too large for the storage here/,
  );
  await page.locator("#reference").fill(refOf("ada"));
  await page.keyboard.press("Enter");
  await page
    .locator(".dialog-status.error", { hasText: /Too large for the storage here: 1\.4/ })
    .waitFor();
  assert.equal(await hub.sent(), 0);
  putNothingBeforeWorker(stand.site);
  await visitor.leave();
});

/** Line of script: a fixed quota, of which files take their whole size before they are written. */
const fixedQuota = (quota: number): string => `
  StorageManager.prototype.estimate = async () => {
    const root = await navigator.storage.getDirectory();
    let usage = 0;
    const models = await root.getDirectoryHandle("conclave-models", { create: true });
    for await (const model of models.values())
      for await (const part of model.values()) usage += (await part.getFile()).size;
    return { quota: ${quota}, usage };
  };`;

test("an interrupted download goes on in the storage that it has reserved", async () => {
  runBeforeWorker(stand.site, fixedQuota(2_000_000));
  const visitor = await arrive();
  const { page } = visitor;
  await visitor.state("ready");
  await hub.break({ kind: "slow", file: "*quill.gguf", bytesPerSecond: 20_000, times: 1 });
  const add = async (): Promise<void> => {
    await page.locator("#add-model").click();
    await page.locator("#reference").fill(refOf("quill"));
    await page.keyboard.press("Enter");
  };
  await add();
  await page.locator(".member .loaded", { hasText: /kB of 1\.3\sMB/ }).waitFor();
  // Nothing gives back what is reserved.
  await page.reload();
  await visitor.state("ready");
  await add();
  await page.locator('.member[data-state="ready"] .name', { hasText: /^quill$/ }).waitFor();
  putNothingBeforeWorker(stand.site);
  await visitor.leave();
});
