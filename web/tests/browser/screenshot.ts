/** Takes the picture for the README: the built page after an answer, with a round laid open. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { Site } from "./site.ts";
import { launch, Visitor } from "./visitor.ts";

const [out = "page.png", question = "What is 347 + 586?", seed = "1"] = process.argv.slice(2);
const site = new Site(`${process.env["CONCLAVE_WEB"] ?? "./"}dist/`);
await site.open();
const browser = await launch("none");
const visitor = await Visitor.arrive(browser, site, { viewport: { width: 1240, height: 1060 }, colorScheme: "light" });
await visitor.set("seed", seed);
await visitor.page.locator("details.settings").evaluate((details: HTMLDetailsElement) => (details.open = false));
console.log(await visitor.answer(question));
await visitor.page.locator(".segment").nth(1).click();
await visitor.page.mouse.move(0, 0);
await visitor.page.evaluate(() => scrollTo(0, 0));
mkdirSync(dirname(out), { recursive: true });
await visitor.page.screenshot({ path: out });
visitor.clean();
await browser.close();
site.close();
