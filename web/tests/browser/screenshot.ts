/**
 * Takes the picture for the README: the built page after an answer, with a round's details open.
 * Model files after question and seed replace the toys. So do servers, `http://…/v1#NAME`, and
 * `judge:http://…/v1#NAME` for one that only judges; with them Ada stays.
 */
import { mkdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { readableName } from "../../src/page/readable-name.ts";
import { Site } from "./site.ts";
import { launch, Visitor } from "./visitor.ts";

/** Hundreds of megabytes may be read and run. */
const minutes = 600_000;
const [out = "page.png", question = "What is 347 + 586?", seed = "1", ...named] =
  process.argv.slice(2);
const [servers, models] = [true, false].map((far) =>
  named.filter((model) => /^(judge:)?http:/.test(model) === far),
) as [string[], string[]];
const judge = "judge:";
const remotes = servers.map((server) => ({
  address: new URL(server.replace(judge, "")),
  judges: server.startsWith(judge),
}));
const site = new Site(`${process.env["CONCLAVE_WEB"] ?? "./"}dist/`);
await site.open();
const browser = await launch("none");
const visitor = await Visitor.arrive(browser, site, {
  viewport: { width: 1240, height: 1060 },
  colorScheme: "light",
  also: remotes.map(({ address }) => address.origin),
});
if (servers.length > 0) await visitor.ownToys();
if (models.length > 0) {
  await visitor.pick(models);
  for (const model of models) {
    const card = visitor.page.locator('.member[data-state="ready"]', {
      hasText: readableName(basename(model, ".gguf")),
    });
    await card.waitFor({ timeout: minutes });
    await card.getByRole("checkbox").check();
  }
}
if (servers.length > 0)
  await visitor.page
    .locator(".member", { hasNotText: "Adds and subtracts" })
    .getByRole("checkbox")
    .evaluateAll((boxes: HTMLInputElement[]) => boxes.forEach((box) => box.checked && box.click()));
if (named.length > 0) {
  const idle = visitor.page.locator(".member", {
    has: visitor.page.locator(".takes-part input:not(:checked)"),
  });
  for (let left = await idle.count(); left > 0; left--)
    await idle
      .first()
      .getByRole("button", { name: /^Remove/ })
      .click();
}
for (const { address, judges } of remotes) {
  await visitor.join({
    base: address.origin + address.pathname,
    name: address.hash.slice(1),
    judges,
  });
  await visitor.page
    .locator('.member[data-state="ready"]', { hasText: `at ${address.host} ` })
    .waitFor();
}
await visitor.set("seed", seed);
await visitor.page
  .locator("details.settings")
  .evaluate((details: HTMLDetailsElement) => (details.open = false));
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
