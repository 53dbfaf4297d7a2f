/** Setup of every browser test: the built folder on a strict host, and one Chromium a file. */
import { existsSync } from "node:fs";
import { after, before } from "node:test";
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

/** Set before the first test of the file runs. */
export function stage(graphics: Graphics, flags: string[] = []): Stage {
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
  after(async () => {
    await made.browser?.close();
    made.site?.close();
  });
  return made;
}
