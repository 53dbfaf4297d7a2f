/**
 * Picked files where the browser gives no handles of them: copied when the visitor wants it, and
 * there at the next visit.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
after(() => putNothingBeforeWorker(stand.site));
const sum = "What is 347 + 586?";
const [ada, quill] = ["ada", "quill"].map((name) => `${dist}members/${name}.gguf`) as [
  string,
  string,
];

const notice = ({ page }: Visitor, text: string | RegExp) =>
  page.locator(".notice", { hasText: text });
const offer = (visitor: Visitor, name = "ada") =>
  notice(visitor, `lets the page read ${name} in this visit only`);
const press = ({ page }: Visitor, name: string) => page.getByRole("button", { name }).click();
const ready = ({ page }: Visitor) =>
  page.locator('.member[data-state="ready"] .name').allTextContents();
const rows = ({ page }: Visitor) => page.locator("#models-dialog .stored li");

/** A visitor with a member of a picked file, alone. */
async function arrive(file = ada): Promise<Visitor> {
  const visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  await visitor.pick([file]);
  await visitor.page.locator('.member[data-state="ready"]:only-child').waitFor();
  return visitor;
}

async function reload(visitor: Visitor): Promise<void> {
  await visitor.page.reload();
  await visitor.state("ready");
}

/** Names of the folders in which models are stored. */
const folders = ({ page }: Visitor): Promise<string[]> =>
  page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    const models = await root.getDirectoryHandle("conclave-models", { create: true });
    const names: string[] = [];
    for await (const name of models.keys()) names.push(name);
    return names;
  });

test("a picked file is copied when asked for, is there after a reload, listed and deleted", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  assert.match(
    (await offer(visitor).textContent()) ?? "",
    /A copy of it, [\d.]+\smb in the page's own storage in this browser, on this machine/i,
  );
  assert.deepEqual(await folders(visitor), [], "nothing is copied unasked");
  await press(visitor, "Keep a copy");
  await notice(visitor, "ada is kept in this browser").waitFor();
  await reload(visitor);
  assert.deepEqual(await ready(visitor), ["ada"]);
  assert.equal(await page.locator(".notice").count(), 0);
  assert.notEqual(await visitor.answer(sum), "");
  // Picked once more, it is known.
  await press(visitor, "Remove ada");
  await visitor.state("ready");
  await visitor.pick([ada]);
  await page.locator('.member[data-state="ready"]:only-child').waitFor();
  await reload(visitor);
  assert.deepEqual(await ready(visitor), ["ada"]);
  // After its member has left, the list brings it back.
  await press(visitor, "Remove ada");
  await visitor.state("ready");
  await visitor.models();
  await press(visitor, "Add ada.gguf");
  await page.locator('.member[data-state="ready"]:only-child').waitFor();
  assert.deepEqual(await ready(visitor), ["ada"]);
  await reload(visitor);
  assert.deepEqual(await ready(visitor), ["ada"]);

  await visitor.models();
  await rows(visitor).first().waitFor();
  assert.match(
    (await rows(visitor).textContent()) ?? "",
    /^ada\.gguf ?copied from your files · [\d.]+\sMB/,
  );
  await press(visitor, "Delete ada.gguf");
  await rows(visitor)
    .getByRole("button", { name: /^Delete [\d.]+/ })
    .click();
  await rows(visitor).waitFor({ state: "detached" });
  assert.deepEqual(await folders(visitor), []);
  await reload(visitor);
  await notice(visitor, "ada was a picked file, whose copy is no longer in this browser").waitFor();
  assert.equal((await ready(visitor)).length, 3, "the toys stand in for it");
  await visitor.leaveClean();
});

test("who declines a copy is not asked again for that file; another is offered", async () => {
  const visitor = await arrive();
  await offer(visitor).getByRole("button", { name: "Dismiss" }).click();
  await press(visitor, "Remove ada");
  await visitor.state("ready");
  await visitor.pick([ada, quill]);
  await offer(visitor, "quill").waitFor();
  assert.equal(await offer(visitor).count(), 0);
  await reload(visitor);
  await notice(visitor, "ada and quill were picked files").waitFor();
  assert.deepEqual(await folders(visitor), []);
  await visitor.leaveClean();
});

test("without room that is said before the copy, and nothing is copied", async (context) => {
  context.after(() => putNothingBeforeWorker(stand.site));
  // There is room once there is a folder of this name.
  runBeforeWorker(
    stand.site,
    `StorageManager.prototype.estimate = async () => {
      const root = await navigator.storage.getDirectory();
      const room = await root.getDirectoryHandle("room").catch(() => undefined);
      return { quota: room ? 100_000_000 : 300_000, usage: 200_000 };
    };`,
  );
  const visitor = await arrive();
  const { page } = visitor;
  const limit = async (quotaSize?: number): Promise<void> => {
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Storage.overrideQuotaForOrigin", {
      origin: new URL(page.url()).origin,
      ...(quotaSize === undefined ? {} : { quotaSize }),
    });
  };
  await notice(
    visitor,
    /There is no room for it: the browser lets the page keep 100\skB more/,
  ).waitFor();
  assert.deepEqual(await folders(visitor), []);
  await page.evaluate(async () => {
    await (await navigator.storage.getDirectory()).getDirectoryHandle("room", { create: true });
  });
  await press(visitor, "Try again");
  // The browser gives less than it said.
  await limit(300_000);
  await press(visitor, "Keep a copy");
  await notice(
    visitor,
    /^ada\.gguf needs [\d.]+ MB more on this machine, and the browser/,
  ).waitFor();
  assert.deepEqual(await folders(visitor), []);
  await limit();
  await press(visitor, "Try again");
  await notice(visitor, "ada is kept in this browser").waitFor();
  await visitor.leaveClean();
});

test("a copy that is stopped or cut off is not there, nor taken for whole", async (context) => {
  context.after(() => putNothingBeforeWorker(stand.site));
  runBeforeWorker(
    stand.site,
    `const digest = crypto.subtle.digest.bind(crypto.subtle);
    crypto.subtle.digest = async (...asked) => {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      return digest(...asked);
    };`,
  );
  const visitor = await arrive();
  const { page } = visitor;
  await press(visitor, "Keep a copy");
  const under = notice(visitor, "ada is copied into this browser");
  await under.getByRole("progressbar", { name: "Copying ada" }).waitFor();
  assert.equal(await under.getByRole("button").count(), 1);
  await press(visitor, "Stop copying");
  await notice(visitor, "The copy of ada was stopped; nothing of it is kept.").waitFor();
  assert.deepEqual(await folders(visitor), []);
  await press(visitor, "Copy it after all");
  await under.waitFor();
  for (let tries = 0; (await folders(visitor)).length === 0 && tries < 100; tries++)
    await page.waitForTimeout(20);
  assert.equal((await folders(visitor)).length, 1, "the copy has begun");
  putNothingBeforeWorker(stand.site);
  await reload(visitor);
  await notice(visitor, "ada was a picked file").waitFor();
  assert.equal((await ready(visitor)).length, 3);
  await visitor.models();
  await page.locator("#stored-summary", { hasText: "No models are stored here yet" }).waitFor();
  assert.deepEqual(await folders(visitor), [], "what was left of it is gone");
  await visitor.leaveClean();
});

test("“Delete everything” deletes copies; “Keep nothing” has none made", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await press(visitor, "Keep a copy");
  await notice(visitor, "ada is kept in this browser").waitFor();
  assert.equal((await folders(visitor)).length, 1);
  await visitor.conversations();
  await press(visitor, "Delete everything");
  await page.getByText("Copies of picked files go, too.").waitFor();
  await press(visitor, "Delete all conversations and settings");
  await page.locator(".dialog-status", { hasText: "settings were deleted" }).waitFor();
  assert.deepEqual(await folders(visitor), []);
  await page.getByLabel("Keep nothing").check();
  await page.locator(".dialog-status", { hasText: "Nothing is kept" }).waitFor();
  await page.keyboard.press("Escape");
  await visitor.pick([quill]);
  await page.locator('.member[data-state="ready"] .name', { hasText: /^quill$/ }).waitFor();
  await visitor.answer(sum);
  assert.equal(await page.locator(".notice").count(), 0);
  assert.deepEqual(await folders(visitor), []);
  await visitor.leaveClean();
});

test("“Delete everything” says that copies are left where no engine could delete them", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await press(visitor, "Keep a copy");
  await notice(visitor, "ada is kept in this browser").waitFor();
  const address = page.url();
  await page.goto(address.replace("backend=cpu", "backend=webgpu"));
  await page.locator("#engine", { hasText: "No engine" }).waitFor();
  await visitor.conversations();
  await press(visitor, "Delete everything");
  await press(visitor, "Delete all conversations and settings");
  await page
    .locator(".dialog-status", { hasText: "were deleted. Only copies of picked files are left" })
    .waitFor();
  assert.equal((await folders(visitor)).length, 1);
  await page.keyboard.press("Escape");
  // The next engine deletes them.
  await press(visitor, "Reload on the CPU");
  await visitor.state("ready");
  for (let tries = 0; (await folders(visitor)).length > 0 && tries < 100; tries++)
    await page.waitForTimeout(50);
  assert.deepEqual(await folders(visitor), []);
});

test("a notice that is replaced or withdrawn passes the keyboard's focus on", async (context) => {
  context.after(() => putNothingBeforeWorker(stand.site));
  runBeforeWorker(
    stand.site,
    `const digest = crypto.subtle.digest.bind(crypto.subtle);
    crypto.subtle.digest = async (...asked) => {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return digest(...asked);
    };`,
  );
  const visitor = await arrive();
  const { page } = visitor;
  await press(visitor, "Keep a copy");
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "Stop copying" }).focus();
  const done = notice(visitor, "ada is kept in this browser");
  await done.waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  assert.equal(await focused(), "Dismiss");
  await page.keyboard.press("Enter");
  await done.waitFor({ state: "detached" });
  await visitor.pick([quill]);
  const choice = offer(visitor, "quill").getByRole("button", { name: "Keep a copy" });
  await choice.focus();
  for (const key of ["Tab", "Shift+Tab"]) await page.keyboard.press(key); // As by the keyboard.
  // As if “Delete everything” was pressed in another tab.
  await page.evaluate(() =>
    dispatchEvent(new StorageEvent("storage", { key: "conclave copies deleted" })),
  );
  await choice.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "TEXTAREA");
});
