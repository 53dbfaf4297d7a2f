/** Setup of every browser test: the built folder on a strict host, and one Chromium a file. */
import { existsSync } from "node:fs";
import { after, afterEach, before, beforeEach } from "node:test";
import type { Browser } from "playwright-core";
import { Site } from "./site.ts";
import { launch, Visitor, type Graphics } from "./visitor.ts";

const web = process.env["CONCLAVE_WEB"] ?? "./";
export const dist = `${web}dist/`;

export interface Stage {
  site: Site;
  browser: Browser;
  /** A visitor of the site in this browser. */
  arrive(options?: Parameters<typeof Visitor.arrive>[2]): Promise<Visitor>;
}

/**
 * Set before the first test of the file runs. A test's browser ends after `limitMs`, so that
 * whatever it waits for fails.
 */
export function stage(graphics: Graphics, flags: string[] = [], limitMs = 300_000): Stage {
  const made = {
    arrive: (options) => Visitor.arrive(made.browser, made.site, options),
  } as Stage;
  before(async () => {
    for (const file of [
      "index.html",
      "engine.wasm",
      "engine-relaxed.wasm",
      "engine-shared.wasm",
      "engine-shared-relaxed.wasm",
      "members/members.json",
    ]) {
      if (!existsSync(dist + file))
        throw new Error(`${dist}${file} is missing: build the page first (cargo xtask dist)`);
    }
    // The package, the engine's script as a separate module, and the accessibility checker.
    made.site = new Site(dist, "/some/where/", {
      library: `${web}package`,
      pkg: `${web}pkg`,
      axe: `${web}node_modules/axe-core`,
    });
    await made.site.open();
    made.browser = await launch(graphics, flags);
  });
  let limit: ReturnType<typeof setTimeout> | undefined;
  beforeEach(async () => {
    if (!made.browser.isConnected()) made.browser = await launch(graphics, flags);
    limit = setTimeout(() => void endHung(made.browser), limitMs);
  });
  afterEach(() => clearTimeout(limit));
  after(async () => {
    await made.browser?.close();
    made.site?.close();
  });
  return made;
}

/** Ends a browser whose test hangs, and prints its pages. */
async function endHung(browser: Browser): Promise<void> {
  for (const page of browser.contexts().flatMap((context) => context.pages())) {
    const text = page.locator("body").innerText({ timeout: 5000 });
    console.log(`${page.url()} hangs:`, await text.catch(String));
  }
  await browser.close();
}
