/**
 * Facts about members on the page, and model folders: formats, predicted and actual memory, weights
 * quantised while they load.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { About } from "../../src/protocol/engine.ts";
import { memoryOf, parseCatalogue } from "../../src/page/catalogue.ts";
import { bytes } from "../../src/page/figures.ts";
import { total } from "../../src/page/member-facts.ts";
import { writeModel, type Shape } from "./generated-model.ts";
import { writeRecitingFolder } from "./reciting-folder.ts";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("swiftshader");
let folder = "";
before(async () => void (folder = await mkdtemp(join(tmpdir(), "conclave-members-"))));
after(() => rm(folder, { recursive: true, force: true }));

const abouts = (visitor: Visitor): Promise<About[]> =>
  visitor.page.evaluate(
    () => (window as unknown as { conclave: { members: About[] } }).conclave.members,
  );

async function pickFolder(visitor: Visitor, path: string, quantise?: string): Promise<void> {
  await visitor.models();
  if (quantise !== undefined) await visitor.page.locator("#quantise").selectOption(quantise);
  await visitor.page
    .locator("#models-dialog .add-files input[webkitdirectory]")
    .setInputFiles(path);
  await visitor.page.locator("#models-dialog[open]").waitFor({ state: "detached" });
}

test("the memory foretold is what the engine takes; cards say their share, the panel the sum", {
  timeout: 300_000,
}, async () => {
  const visitor = await stand.arrive({
    search: "?backend=webgpu&debug",
  });
  const { page } = visitor;
  const catalogue = JSON.parse(await readFile(`${dist}catalogue.json`, "utf8")) as {
    models: Record<string, { shape: Shape }>;
  };
  const known = parseCatalogue(catalogue).flatMap(({ members }) => members);
  const smol =
    known.find(({ name }) => name === "SmolLM2 135M") ??
    assert.fail("the catalogue lacks SmolLM2 135M");
  await writeModel(join(folder, "smol.gguf"), catalogue.models["smollm2-135m"]!.shape);
  await visitor.ownToys();
  await visitor.models();
  await page
    .locator("#models-dialog .add-files input:not([webkitdirectory])")
    .setInputFiles(join(folder, "smol.gguf"));
  const card = page.locator(".member", { hasText: "smol" });
  await card.and(page.locator('[data-state="ready"]')).waitFor({ timeout: 240_000 });
  const all = await abouts(visitor);
  const about = all.find(({ name }) => name === "smol")!;
  // As much as this machine's memory allows a model that the page does not know.
  assert.ok([1024, 2048, 4096, 8192].includes(about.context), String(about.context));
  assert.deepEqual(about.memory, memoryOf(smol, about.context, "webgpu"));
  assert.equal(
    await card.locator(".about").textContent(),
    `134.5\u00a0M\u00a0parameters · ${bytes(about.bytes)} · Llama model, its numbers in Q8_0`,
  );
  assert.equal(
    await card.locator(".share").textContent(),
    `${bytes(total(about.memory))} of graphics memory`,
  );
  const sum = all.reduce((bytes, { memory }) => bytes + total(memory), 0);
  assert.ok(
    ((await page.locator("#memory").textContent()) ?? "").startsWith(
      `Together ${bytes(sum)} of graphics memory: weights `,
    ),
  );
  await visitor.leaveClean();
});

for (const backend of ["webgpu", "cpu"]) {
  test(`a picked folder answers as it is and rounded to Q8_0, on ${backend}`, {
    timeout: 300_000,
  }, async () => {
    const path = join(folder, "Reciter");
    await writeRecitingFolder(path, "It works.");
    const visitor = await stand.arrive({
      search: `?backend=${backend}`,
    });
    const { page } = visitor;
    await visitor.set("seed", "1");
    for (const { name, quantise, formats } of [
      { name: "Reciter", quantise: undefined, formats: "BF16" },
      { name: "Reciter 2", quantise: "Q8_0", formats: "BF16 kept as Q8_0" },
    ]) {
      await pickFolder(visitor, path, quantise);
      const card = page.locator(".member", { has: page.getByText(name, { exact: true }) });
      await card.and(page.locator('[data-state="ready"]')).waitFor();
      assert.match(
        (await card.locator(".about").textContent()) ?? "",
        new RegExp(`^\\d+\\sk\\sparameters · .+ · Llama model, its numbers in ${formats}$`),
      );
      await visitor.only(card);
      assert.equal(await visitor.answer("What do you say?"), "It works.");
    }
    await visitor.leaveClean();
  });
}

test("a base model, which has no chat template, is told on its card, and answers", async () => {
  const whole = await readFile(`${dist}members/ada.gguf`);
  const key = "tokenizer.chat_template";
  const at = whole.indexOf(key);
  assert.ok(at > 0, "Ada has one to lose");
  const buffer = Buffer.from(whole);
  buffer.write("x", at + key.length - 1);
  const visitor = await stand.arrive({ search: "?backend=cpu&debug" });
  await visitor.ownToys();
  await visitor.pick([{ name: "Base.gguf", mimeType: "application/octet-stream", buffer }]);
  const told = visitor.page.locator(".member", { hasText: "Base model, no chat template" });
  await told.waitFor();
  assert.equal(await told.locator(".name").textContent(), "Base");
  assert.equal(await told.count(), 1, "the toys were taught to converse");
  assert.deepEqual(
    (await abouts(visitor)).filter(({ template }) => !template).map(({ name }) => name),
    ["Base"],
  );
  await visitor.set("maxRounds", "2");
  for (const name of await visitor.page.locator(".member .name").allTextContents())
    if (name !== "Base") await visitor.page.getByLabel(`${name} takes part`).uncheck();
  await visitor.answer("What is 3 + 4?");
  assert.equal(await visitor.page.locator(".exchange [role=alert]").count(), 0);
  await visitor.leaveClean();
});

const octets = "application/octet-stream";
const shown = (visitor: Visitor): Promise<string[]> =>
  visitor.page.locator(".member .name").allTextContents();

/** Waits until these are the members on the page and in the engine, all ready. */
async function seated(visitor: Visitor, names: string[]): Promise<void> {
  await visitor.page.waitForFunction((names) => {
    const cards = [...document.querySelectorAll('.member[data-state="ready"] .name')].map(
      ({ textContent }) => textContent,
    );
    const engine =
      (window as unknown as { conclave?: { members: { name: string }[] } }).conclave?.members.map(
        ({ name }) => name,
      ) ?? [];
    return [cards, engine].every(
      (there) => there.length === names.length && names.every((name) => there.includes(name)),
    );
  }, names);
  await visitor.state("ready");
}

test("toys leave once a visitor's own model is ready, stay if it fails, return after the last", {
  timeout: 300_000,
}, async () => {
  const mine = await readFile(`${dist}members/quill.gguf`);
  const visitor = await stand.arrive({ search: "?backend=cpu&debug" });
  const { page } = visitor;
  const toys = await shown(visitor);
  assert.equal(toys.length, 3);

  await visitor.pick([
    { name: "Half.gguf", mimeType: octets, buffer: mine.subarray(0, mine.length >> 1) },
  ]);
  await page.locator(".member .failure [role=alert]").waitFor();
  await seated(visitor, toys);
  await page.getByRole("button", { name: "Remove Half" }).click();
  assert.equal(await page.locator("#ensemble").textContent(), "The bundled toys");

  await visitor.pick([{ name: "Mine.gguf", mimeType: octets, buffer: mine }]);
  await seated(visitor, ["Mine"]);
  assert.equal(await page.locator("#ensemble").textContent(), "Your own choice");
  assert.equal(
    await page.locator("#made-room[role=status]").textContent(),
    "The bundled toys have made room. They come back when the last model that you added goes.",
  );
  await visitor.set("maxRounds", "1");
  await visitor.set("segmentTokens", "2"); // Too short for all of the answer.
  await visitor.set("seed", "1");
  assert.notEqual(await visitor.answer("What is 347 + 586?"), "");
  assert.match(
    (await page.locator(".legend").textContent()) ?? "",
    /^Written by Mine in \d segments?\.$/,
  );

  await page.getByRole("button", { name: "Remove Mine" }).click();
  await seated(visitor, toys);
  assert.deepEqual(
    [await page.locator("#ensemble").textContent(), await page.locator("#made-room").textContent()],
    ["The bundled toys", ""],
  );

  // Requested explicitly, they stay.
  await visitor.pick([{ name: "Mine.gguf", mimeType: octets, buffer: mine }]);
  await seated(visitor, ["Mine"]);
  await page.getByRole("button", { name: "Bring the toys back" }).click();
  await seated(visitor, ["Mine", ...toys]);
  // They never answer together with real models.
  const ticked = (): Promise<string[]> =>
    page
      .locator(".member", { has: page.locator("input:checked") })
      .locator(".name")
      .allTextContents();
  const aside = page.locator('[data-key="aside"]');
  assert.deepEqual(await ticked(), toys);
  assert.match((await aside.textContent()) ?? "", /^Mine takes no part now/);
  const goOn = page.locator(".exchange").getByRole("button", { name: "Continue" });
  assert.ok(await goOn.isDisabled(), "the toys don't finish the answer of a real model");
  const whyNot = page.locator(".exchange .why-not");
  assert.equal(await whyNot.textContent(), "Real models wrote this, and toys can't go on with it.");
  assert.ok((await whyNot.boundingBox())!.width > 100, "for all to read");
  assert.equal(await goOn.getAttribute("aria-describedby"), await whyNot.getAttribute("id"));
  await page.getByLabel("Mine takes part").check();
  assert.deepEqual(await ticked(), ["Mine"]);
  assert.match((await aside.textContent()) ?? "", /take no part now/);
  assert.ok(await goOn.isEnabled());
  assert.equal(await whyNot.textContent(), "");
  await page.getByLabel(`${toys[0]!} takes part`).check();
  await visitor.pick([{ name: "Second.gguf", mimeType: octets, buffer: mine }]);
  await seated(visitor, ["Mine", ...toys, "Second"]);
  assert.deepEqual(await ticked(), ["Second"]);
  assert.ok(await page.locator("#bring-toys").isHidden());
  await visitor.faultless();
  await visitor.leaveClean();
});

test("who wrote how much is told below an answer; weights are drawn where feedback moved them", {
  timeout: 300_000,
}, async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu" });
  const { page } = visitor;
  await visitor.set("seed", "1");
  await visitor.set("maxRounds", "3");
  await visitor.set("alpha", "0");
  await visitor.set("trust", "0");
  await visitor.answer("Tell me a short story about a fox.");
  assert.match(
    (await page.locator(".legend").textContent()) ?? "",
    /^Written by \w+ \d of 3 segments, \w+ (\d|none), \w+ (\d|none)(; \d in the same words)?\./,
  );
  assert.equal(await page.locator("#weights canvas, .trust").count(), 0);
  assert.equal(
    await page.locator("#weights .hint:visible").textContent(),
    "All votes count alike: each weight is about 0.333.",
  );
  await visitor.set("alpha", "50");
  await visitor.set("trust", "4");
  await visitor.answer("Tell me a short story about an owl.");
  await page.locator("#weights canvas").waitFor();
  assert.equal(await page.locator(".trust li").count(), 3);
  await visitor.faultless();
  await visitor.leaveClean();
});

test("who often decides alone against all others is left out by one press, back by another", {
  timeout: 300_000,
}, async () => {
  // The toys seldom do: the engine's round events are modified on their way to the page.
  runBeforeWorker(
    stand.site,
    `const post = postMessage.bind(globalThis);
    globalThis.postMessage = (data, ...others) => {
      if (data.event?.type === "round" && data.event.shares.length > 0) data.event.turnedBy = [1];
      post(data, ...others);
    };`,
  );
  try {
    const visitor = await stand.arrive({ search: "?backend=cpu" });
    const { page } = visitor;
    await visitor.set("seed", "1");
    await visitor.set("segmentTokens", "3");
    await visitor.set("maxRounds", "4");
    await visitor.set("trust", "0");
    await visitor.answer("Tell me a short story about a fox.");
    const told = page.locator("#advice [role=status]");
    assert.equal(await told.textContent(), "", "four rounds are too few");
    await visitor.answer("Tell me a short story about an owl.");
    assert.equal(
      await told.textContent(),
      "In this conversation Quill's vote alone decided 8 of 8 rounds against all the others.",
    );
    assert.match(
      (await page.locator(".legend").last().textContent()) ?? "",
      / Quill's vote decided 4 rounds against all the others\.$/,
    );
    await visitor.faultless();
    const box = page.getByLabel("Quill takes part");
    await page.getByRole("button", { name: "Answer without Quill" }).press("Enter");
    assert.equal(await box.isChecked(), false);
    assert.equal(
      await page.evaluate(() => document.activeElement?.textContent),
      "Let Quill take part again",
      "the focus goes to what takes it back",
    );
    await page.keyboard.press("Enter");
    assert.equal(await box.isChecked(), true);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "question");
    await visitor.answer("Tell me a short story about a bear.");
    assert.equal(await told.textContent(), "", "it is not offered twice");
    await page.locator("#new").click();
    for (const animal of ["a fox", "an owl"])
      await visitor.answer(`Tell me a short story about ${animal}.`);
    await page.getByRole("button", { name: "Answer without Quill" }).click();
    await visitor.answer("Tell me a short story about a bear.");
    assert.ok(!((await page.locator(".legend").last().textContent()) ?? "").includes("Quill"));
    await visitor.leaveClean();
  } finally {
    putNothingBeforeWorker(stand.site);
  }
});

test("a file that failed answers nothing; picked files are asked for again after a reload", async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  const { page } = visitor;
  const toys = page.locator("#about-toys");
  const bad = { name: "bad.gguf", mimeType: "", buffer: Buffer.from("\x89PNG, not a model") };
  await visitor.pick([bad]);
  await page.locator('.member[data-state="failed"]').waitFor();
  await visitor.state("ready");
  assert.ok(await toys.isVisible(), "the toys answer");
  await page.getByRole("button", { name: "Remove bad" }).click();
  await visitor.ownToys(["ada", "juno"]);
  assert.match((await page.locator("#about-models").textContent()) ?? "", /^ada and juno answer/i);
  await page.reload();
  const notice = page.locator('.notice[data-key="lost"]');
  await notice.waitFor();
  assert.match(
    (await notice.textContent()) ?? "",
    /^ada and juno were picked files, which a page may not open by itself.*Choose them again\./i,
  );
  await visitor.state("ready");
  await page.reload();
  await notice.waitFor(); // The toys stand in for them until others are chosen.
  await notice.getByRole("button", { name: "Choose files" }).click();
  await page.locator("#models-dialog[open]").waitFor();
  await visitor.leaveClean();
});
