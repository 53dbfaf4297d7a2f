/**
 * The browser's own language model as a judge in the page. No browser of the tests has one, so a
 * stand-in replaces it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { dist, stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");

/**
 * Runs before the page's own scripts: a model that names the longest candidate, once it is
 * downloaded; then it is there after a reload.
 */
function standIn(): void {
  const downloaded = "stand-in downloaded";
  // Scripts that drive the browser count as a visitor's action otherwise.
  let pressed = false;
  addEventListener("click", () => (pressed = true), { capture: true });
  Object.defineProperty(navigator, "userActivation", {
    get: () => ({ isActive: pressed, hasBeenActive: pressed }),
  });
  const own = { asked: 0, open: 0 };
  const session = (): object => {
    own.open++;
    return {
      contextWindow: 6144,
      clone: async () => session(),
      destroy: () => void own.open--,
      prompt: async (
        question: string,
        { responseConstraint }: { responseConstraint: { enum: string[] } },
      ) => {
        own.asked++;
        const length = (letter: string): number =>
          new RegExp(`^${letter}: (.*)$`, "m").exec(question)?.[1]?.length ?? 0;
        return JSON.stringify(responseConstraint.enum.toSorted((a, b) => length(b) - length(a))[0]);
      },
    };
  };
  const model = {
    availability: async () => (localStorage.getItem(downloaded) ? "available" : "downloadable"),
    create: async ({ monitor }: { monitor: (monitor: EventTarget) => void }) => {
      if (!localStorage.getItem(downloaded) && !navigator.userActivation.isActive)
        throw new DOMException("Nobody has pressed anything.", "NotAllowedError");
      const told = new EventTarget();
      monitor(told);
      for (const loaded of [0, 1])
        told.dispatchEvent(new ProgressEvent("downloadprogress", { loaded, total: 1 }));
      localStorage.setItem(downloaded, "yes");
      return session();
    },
  };
  Object.assign(globalThis, { LanguageModel: model, standIn: own });
}

const counted = ({ page }: Visitor): Promise<{ asked: number; open: number }> =>
  page.evaluate(
    () => (globalThis as unknown as { standIn: { asked: number; open: number } }).standIn,
  );

test("a stand-in for the browser's own model is offered, fetched by a press, judges, and leaves", {
  timeout: 240_000,
}, async () => {
  const context = await stand.browser.newContext();
  await context.addInitScript(standIn);
  const visitor = await Visitor.arrive({ newContext: async () => context }, stand.site, {
    search: "?backend=cpu",
  });
  const { page } = visitor;
  await visitor.models();
  const take = page.getByRole("button", { name: "Download it and let it judge" });
  await take.waitFor();
  await visitor.faultless();
  await take.click();
  const card = page.locator('.member[data-state="ready"]', {
    hasText: "the browser's own model · judges only",
  });
  await card.waitFor();
  assert.equal(
    await page.locator("#tagline").textContent(),
    "Several small models, one answer, inside this browser.",
  );
  const before = (await counted(visitor)).asked;
  await visitor.set("seed", "1");
  await visitor.answer("Tell me a story about a fox.");
  await page.locator(".segment").first().click();
  assert.ok((await page.locator(".matrix td small", { hasText: "by letter" }).count()) > 0);
  assert.match((await card.locator(".won").textContent()) ?? "", /judges what the others draft/);
  const { asked, open } = await counted(visitor);
  assert.ok(asked > before);
  assert.equal(open, 1, "every question's session is gone");
  await page.getByRole("button", { name: "Remove Browser" }).click();
  await card.waitFor({ state: "detached" });
  await page.waitForFunction(
    () => (globalThis as unknown as { standIn: { open: number } }).standIn.open === 0,
  );
  await visitor.leaveClean();
});

test("the browser's own model judges after a reload too, with the toys, until it is removed", {
  timeout: 240_000,
}, async () => {
  const context = await stand.browser.newContext({ serviceWorkers: "block" });
  await context.addInitScript(standIn);
  const visitor = await Visitor.arrive({ newContext: async () => context }, stand.site, {
    search: "?backend=cpu",
  });
  const { page } = visitor;
  const card = page.locator(".member", { hasText: "the browser's own model · judges only" });
  const ready = page.locator('.member[data-state="ready"]');
  await visitor.models();
  await page.getByRole("button", { name: "Download it and let it judge" }).click();
  await ready.nth(3).waitFor();
  await visitor.state("ready");

  await page.reload();
  await ready.nth(3).waitFor();
  assert.equal(await card.getAttribute("data-state"), "ready", "without a press");
  assert.equal(await page.locator(".member").count(), 4);
  await visitor.set("seed", "1");
  await visitor.answer("Tell me a story about a fox.");
  assert.ok((await counted(visitor)).asked > 0, "it is asked again");

  // A browser that has deleted its model downloads it on a press only.
  await page.evaluate(() => localStorage.removeItem("stand-in downloaded"));
  await page.reload();
  await page.locator('.member[data-state="failed"]', { hasText: "needs a user action" }).waitFor();
  await visitor.state("ready");
  assert.equal(await ready.count(), 3, "the others answer");
  await page.getByRole("button", { name: "Try again with Browser" }).click();
  await ready.nth(3).waitFor();

  // Toys that nobody asked for still make room for the visitor's own.
  await visitor.pick([`${dist}members/ada.gguf`]);
  await page.waitForFunction(() => document.querySelectorAll(".member").length === 2);
  await page.getByRole("button", { name: "Remove ada" }).click();
  await ready.nth(3).waitFor();
  await page.getByRole("button", { name: "Remove Browser" }).click();
  await page.reload();
  await visitor.state("ready");
  assert.equal(await page.locator(".member").count(), 3, "the toys");
  await visitor.leaveClean();
});

test("a browser without such a model offers none", async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu" });
  await visitor.page.evaluate(() => Reflect.deleteProperty(globalThis, "LanguageModel"));
  await visitor.models();
  assert.ok(!(await visitor.page.getByRole("button", { name: /let it judge/i }).isVisible()));
  await visitor.leaveClean();
});
