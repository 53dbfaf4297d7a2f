/**
 * Takes the picture for the README: the built page after an answer, with a round laid open. Model files
 * behind question and seed answer instead of the toys.
 */
import { mkdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { Site } from "./site.ts";
import { launch, Visitor } from "./visitor.ts";

/** Hundreds of megabytes may be read and run. */
const minutes = 600_000;
const [out = "page.png", question = "What is 347 + 586?", seed = "1", ...models] = process.argv.slice(2);
const site = new Site(`${process.env["CONCLAVE_WEB"] ?? "./"}dist/`);
await site.open();
const browser = await launch("none");
const visitor = await Visitor.arrive(browser, site, { viewport: { width: 1240, height: 1060 }, colorScheme: "light" });
if (models.length > 0) {
  await visitor.page.locator(".takes-part input:checked").evaluateAll((boxes: HTMLInputElement[]) => boxes.forEach((box) => box.click()));
  await visitor.pick(models);
  for (const model of models) {
    const card = visitor.page.locator('.member[data-state="ready"]', { hasText: basename(model, ".gguf") });
    await card.waitFor({ timeout: minutes });
    await card.getByRole("checkbox").check();
  }
  const idle = visitor.page.locator(".member", { has: visitor.page.locator(".takes-part input:not(:checked)") });
  for (let left = await idle.count(); left > 0; left--)
    await idle
      .first()
      .getByRole("button", { name: /^Remove/ })
      .click();
}
await visitor.set("seed", seed);
await visitor.page.locator("details.settings").evaluate((details: HTMLDetailsElement) => (details.open = false));
console.log(await visitor.answer(question, minutes));
const segments = visitor.page.locator(".segment");
await segments.nth(Math.min(1, (await segments.count()) - 1)).click();
await visitor.page.mouse.move(0, 0);
await visitor.page.evaluate(() => scrollTo(0, 0));
mkdirSync(dirname(out), { recursive: true });
await visitor.page.screenshot({ path: out });
visitor.clean();
await browser.close();
site.close();
