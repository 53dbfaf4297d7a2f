/**
 * The browser's own language model as a judge in the page. No browser of the tests has one, so a
 * stand-in replaces it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults } from "../axe.ts";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");

/**
 * Runs before the page's own scripts: a model that names the longest candidate, once it is
 * downloaded.
 */
function standIn(): void {
  let available = "downloadable";
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
    availability: async () => available,
    create: async ({ monitor }: { monitor: (monitor: EventTarget) => void }) => {
      if (!navigator.userActivation.isActive)
        throw new DOMException("Nobody has pressed anything.", "NotAllowedError");
      const told = new EventTarget();
      monitor(told);
      for (const loaded of [0, 1])
        told.dispatchEvent(new ProgressEvent("downloadprogress", { loaded, total: 1 }));
      available = "available";
      return session();
    },
  };
  Object.assign(globalThis, { LanguageModel: model, standIn: own });
}

const counted = ({ page }: Visitor): Promise<{ asked: number; open: number }> =>
  page.evaluate(
    () => (globalThis as unknown as { standIn: { asked: number; open: number } }).standIn,
  );

test("a stand-in for the browser's own model is offered, downloaded on a press, judges, and goes with its member", {
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
  assert.deepEqual(await page.evaluate(faults, "./axe/axe.min.js"), []);
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

test("a browser without such a model offers none", async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu" });
  await visitor.page.evaluate(() => Reflect.deleteProperty(globalThis, "LanguageModel"));
  await visitor.models();
  assert.ok(!(await visitor.page.getByRole("button", { name: /let it judge/i }).isVisible()));
  await visitor.leaveClean();
});
