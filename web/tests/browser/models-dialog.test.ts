/**
 * The dialog for choosing models: search, fit before anything loads, and picked files too large.
 */
import assert from "node:assert/strict";
import { mkdtemp, open, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { stage } from "./stage.ts";

const stand = stage("none");
let folder = "";
before(async () => void (folder = await mkdtemp(join(tmpdir(), "conclave-dialog-"))));
after(() => rm(folder, { recursive: true, force: true }));

test("single models say what each is good at, or that it was not measured", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.models();
  const facts = await page.locator(".pick-list li").evaluateAll((lines) =>
    lines.map((line) => ({
      name: line.querySelector("label")?.textContent ?? "",
      // Read with the box by a screen reader.
      facts:
        document.getElementById(line.querySelector("input")?.getAttribute("aria-describedby") ?? "")
          ?.textContent ?? "",
    })),
  );
  const measured = facts.filter(({ facts }) => !facts.endsWith("quality not measured"));
  assert.deepEqual(
    measured.map(({ name }) => name),
    ["SmolLM2 135M", "Qwen2.5 Coder 0.5B", "Qwen2.5 Coder 1.5B"],
  );
  assert.match(measured[0]!.facts, /36 % of our 641 questions right: facts 52, reading 50/);
  assert.match(measured[1]!.facts, /measured 64 % of 154 plain facts right/);
  await visitor.leaveClean();
});

test("what is typed while the list is fetched stays in its field", async () => {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  let fetched = (): void => {};
  const held = new Promise<void>((resolve) => (fetched = resolve));
  await page.route("**/catalogue.json", async (route) => {
    await held;
    await route.continue();
  });
  await page.locator("#add-model").click();
  const address = page.getByLabel("Address", { exact: true });
  await page.locator(".remote > summary").click();
  await address.click();
  await page.keyboard.type("http://lo");
  fetched();
  await page.locator("#models-dialog .pick-list li").first().waitFor();
  await page.keyboard.type("calhost:8000");
  assert.equal(await address.inputValue(), "http://localhost:8000");
  assert.equal(await page.locator("#reference").inputValue(), "");
  await visitor.leaveClean();
});

test("a dialog stays on a click in its margin, and on a selection that ends outside", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.models();
  const dialog = page.locator("#models-dialog");
  const { x, y, height } = (await dialog.boundingBox())!;
  await page.mouse.click(x + 8, y + height / 2);
  await page.getByRole("searchbox", { name: "Search models by name" }).hover();
  await page.mouse.down();
  await page.mouse.move(x - 20, y + 40);
  await page.mouse.up();
  assert.ok(await dialog.evaluate((element: HTMLDialogElement) => element.open));
  await page.mouse.click(x - 20, y + 40);
  assert.ok(!(await dialog.evaluate((element: HTMLDialogElement) => element.open)));
  await visitor.leaveClean();
});

test("a ticked model stays in view while others are searched", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.models();
  await page.getByRole("searchbox", { name: "Search models by name" }).fill("zzzz");
  const ticked = page.locator(".pick-list li", { has: page.locator("input:checked") });
  const count = await ticked.count();
  assert.ok(count > 0, "the recommended ones");
  assert.equal(await page.locator(".pick-list li:visible").count(), count);
  await visitor.leaveClean();
});

test("models are searched by name, by the keyboard alone, on a phone in one column", async () => {
  const visitor = await stand.arrive({ viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  await visitor.models();
  const dialog = page.locator("#models-dialog");
  // Those that are ticked stay.
  const others = ".pick-list li:not(:has(input:checked)) label";
  const labels = dialog.locator(`${others}:visible`);
  const all = await dialog.locator(others).count();
  const search = page.getByRole("searchbox", { name: "Search models by name" });
  const found = dialog.locator(".search-line").getByRole("status");
  await page.keyboard.press("Tab");
  assert.equal(
    await search.evaluate((input) => input === document.activeElement),
    true,
    "it comes first after the way out",
  );
  await page.keyboard.type("0.5b QWEN");
  assert.match((await found.textContent()) ?? "", /^\d models?, \d ensembles?, 0 stored\.$/);
  const names = await labels.allTextContents();
  assert.ok(names.length > 0 && names.length < all, names.join(", "));
  for (const name of names) assert.match(name, /qwen.*0\.5b/i);
  for (const card of await dialog.locator(".ensemble:visible").allTextContents())
    assert.match(card, /qwen.*0\.5b/i);
  assert.equal(
    await dialog.evaluate(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth),
    false,
    "nothing is wider than the screen",
  );
  const lefts = await labels.evaluateAll((each) =>
    each.map((one) => one.getBoundingClientRect().x),
  );
  assert.equal(new Set(lefts).size, 1, "one column");
  await page.keyboard.type(" nonesuch");
  assert.match((await found.textContent()) ?? "", /^No model here has such a name/);
  assert.equal(await labels.count(), 0);
  await search.fill("");
  assert.equal(await found.textContent(), "");
  assert.equal(await labels.count(), all);

  // It stays while the lists are built anew, and begins empty when the dialog opens again.
  await search.fill("smollm2");
  const few = await labels.count();
  await page.locator("#context-tokens").selectOption("1024");
  await page.waitForTimeout(200);
  assert.equal(await labels.count(), few);
  await dialog.getByRole("button", { name: "Close" }).press("Enter");
  await visitor.models();
  assert.equal(await search.inputValue(), "");
  await page.mouse.click(195, 5);
  await visitor.leaveClean();
});

test("each model says whether it fits before anything loads", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.models();
  const dialog = page.locator("#models-dialog");
  for (const entry of [".pick-list li", ".ensemble-members li"]) {
    const models = dialog.locator(entry);
    const badges = await models.locator(".badge").allTextContents();
    assert.equal(badges.length, await models.count(), entry);
    for (const badge of badges) assert.match(badge, /^(fits|may be too large|too large here)$/);
    assert.ok(badges.includes("fits"), entry);
  }
  await visitor.leaveClean();
});

test("a picked file that is too large says so, and loads only when pressed", async () => {
  const path = join(folder, "Giant.gguf");
  const file = await open(path, "w");
  await file.truncate(5e9); // Takes no place on the disk.
  await file.close();
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.pick([path]);
  const notice = page.locator(".notice.warning");
  assert.match(
    (await notice.locator("p").first().textContent()) ?? "",
    /^Giant is too large here\. Too large for the CPU path/,
  );
  await visitor.faultless();
  const card = page.locator(".member", { hasText: "Giant" });
  assert.equal(await card.count(), 0);
  await visitor.state("ready");
  await notice.getByRole("button", { name: "Load Giant nevertheless" }).press("Enter");
  assert.equal(await notice.count(), 0);
  await card.and(page.locator('[data-state="failed"]')).waitFor();
  assert.match(
    (await card.getByRole("alert").textContent()) ?? "",
    /^Giant needs 5\.0\sGB of memory/,
  );
  await visitor.leave();
});

test("a folder of the hub is judged by what it takes as it is to be loaded", async () => {
  const sizes = { "config.json": 900, "tokenizer.json": 900, "model.safetensors": 9e9 };
  const siblings = Object.entries(sizes).map(([rfilename, size]) => ({ rfilename, size }));
  const hub = createServer((_, response) => {
    response.writeHead(200, {
      "content-type": "application/json",
      "access-control-allow-origin": "*",
    });
    response.end(JSON.stringify({ sha: "0".repeat(40), siblings }));
  });
  await new Promise<void>((resolve) => hub.listen(0, "127.0.0.1", resolve));
  try {
    const address = `http://127.0.0.1:${(hub.address() as AddressInfo).port}`;
    const visitor = await stand.arrive({ search: `?debug&hub=${encodeURIComponent(address)}` });
    const { page } = visitor;
    await visitor.state("ready");
    await visitor.models();
    for (const [quantise, taken] of [
      ["", "9.0"],
      ["auto", "4.8"],
    ] as const) {
      await page.locator("#quantise").selectOption(quantise);
      await page.locator("#reference").fill("hf:makers/large");
      await page.keyboard.press("Enter");
      const told = new RegExp(`CPU path.* one would take ${taken.replace(".", "\\.")}\\sGB`);
      await page.locator(".dialog-status.error", { hasText: told }).waitFor();
    }
    await visitor.leave();
  } finally {
    hub.closeAllConnections();
    hub.close();
  }
});
