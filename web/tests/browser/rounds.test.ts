/** Rounds that are opened and closed: what is in view, and where the focus is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";
import { withWriter, writing } from "./with-writer.ts";

const stand = stage("none");
const writer = writing();
const long = Array.from({ length: 60 }, (_, line) => `This is line ${line} of it.`).join("\n\n");

/** Whether the panel of a round is in view, clear of the question box. Runs in the page. */
const isClear = (): boolean => {
  const panel = document.querySelector(".inspector")?.getBoundingClientRect();
  const box = document.querySelector("#composer")!.getBoundingClientRect();
  return panel !== undefined && panel.top >= 0 && panel.bottom <= box.top;
};

for (const reducedMotion of ["no-preference", "reduce"] as const)
  for (const [width, height] of [
    [1280, 860],
    [390, 844],
  ] as const)
    test(`a pressed round is in view, at ${width} pixels, motion: ${reducedMotion}`, async () => {
      const viewport = { width, height };
      const visitor = await withWriter(stand, writer, long, { viewport, reducedMotion });
      const { page } = visitor;
      await visitor.answer("What are the lines?");
      await page.evaluate(() => {
        scrollTo(0, 0);
        const heights: number[] = [];
        addEventListener("scroll", () => heights.push(scrollY));
        Object.assign(globalThis, { heights });
      });
      assert.ok(
        await page
          .locator(".answer")
          .evaluate((answer) => answer.getBoundingClientRect().height > 2 * innerHeight),
      );
      await page.locator(".segment").first().click();
      await page.waitForFunction(isClear);
      const heights = await page.evaluate(
        () => (globalThis as unknown as { heights: number[] }).heights,
      );
      assert.equal(heights.length > 2, reducedMotion === "no-preference", heights.join(", "));
      // A press that closes it moves nothing.
      await page.locator(".segment[data-open]").first().scrollIntoViewIfNeeded();
      const before = await page.evaluate(() => scrollY);
      await page.locator(".segment[data-open]").first().click();
      assert.equal(await page.locator(".inspector").count(), 0);
      assert.equal(await page.evaluate(() => scrollY), before);
      await visitor.leaveClean();
    });

test("a double click selects its word, which stays under the pointer; the round is open", async () => {
  const visitor = await withWriter(stand, writer, long);
  const { page } = visitor;
  await visitor.answer("What are the lines?");
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator(".segment").first().dblclick({ delay: 50 });
  await page.waitForTimeout(1000);
  assert.match(await page.evaluate(() => String(getSelection())), /^\w+\s*$/);
  assert.equal(await page.locator(".inspector").count(), 1);
  assert.equal(await page.evaluate(() => scrollY), 0);
  await visitor.leaveClean();
});

/** The focus: a segment by its round, or another element by its text or id. */
const focused = ({ page }: Visitor): Promise<string> =>
  page.evaluate(() => {
    const focus = document.activeElement as HTMLElement;
    return focus.dataset["round"] ?? (focus.id || focus.textContent.slice(0, 30));
  });

test("Escape closes an open round, and the focus is where it was opened", async () => {
  const visitor = await withWriter(stand, writer, long);
  const { page } = visitor;
  await visitor.answer("What are the lines?");
  const panel = page.locator(".inspector");
  const close = async (): Promise<string> => {
    await panel.waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await panel.count(), 0);
    return focused(visitor);
  };
  const segment = page.locator(".segment");
  await segment.first().focus();
  await page.keyboard.press("Enter");
  assert.equal(await close(), "1", "opened by a key");
  const third = page.locator('.segment[data-round="3"]').first();
  await third.click();
  assert.equal(await close(), "3", "opened by a click");
  assert.ok(await third.evaluate((one) => one.getBoundingClientRect().top > 0), "in view");
  await page.keyboard.press("ArrowRight");
  assert.equal(await focused(visitor), "4", "keys go on from there");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Round after" }).press("Enter");
  assert.equal(await close(), "5", "another round was opened in the panel");
  await page.getByRole("button", { name: "How it was written" }).press("Enter");
  assert.equal(await close(), "How it was written");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Close" }).press("Enter");
  assert.equal(await focused(visitor), "How it was written");
  await third.click();
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  assert.equal(await close(), "3", "nothing had the focus");
  await third.click();
  await page.locator("#question").focus();
  assert.equal(await close(), "question", "the focus stays where the visitor is at work");
  await visitor.leaveClean();
});

test("while an answer is under way Escape first closes a round that has the focus", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "2");
  await visitor.when(
    () => document.querySelectorAll(".segment").length > 1,
    () => {
      const press = (): void => {
        const focus = document.activeElement!;
        focus.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      };
      document.querySelector<HTMLElement>(".segment")!.click();
      const seen = [document.querySelectorAll(".inspector").length];
      press();
      seen.push(document.querySelectorAll(".inspector").length);
      Object.assign(globalThis, { seen: [...seen, document.body.dataset["state"]] });
      press();
      Object.assign(globalThis, { stop: document.querySelector("#stop")!.textContent });
    },
  );
  await visitor.ask("Tell me a short story about a fox.");
  await visitor.state("ready");
  assert.deepEqual(
    await page.evaluate(() => {
      const noted = globalThis as unknown as { seen: unknown[]; stop: string };
      return [...noted.seen, noted.stop];
    }),
    [1, 0, "answering", "Stopping"],
  );
  assert.match((await page.locator(".exchange .facts").textContent()) ?? "", /stopped by you/);
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});
