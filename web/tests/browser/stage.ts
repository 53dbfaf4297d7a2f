/** What every browser test stands on: the built folder on a strict host, and one Chromium a file. */
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import type { Browser } from "playwright-core";
import { Site } from "./site.ts";
import { launch, type Graphics } from "./visitor.ts";

export const dist = `${process.env["CONCLAVE_WEB"] ?? "./"}dist/`;

export interface Stage {
  site: Site;
  browser: Browser;
}

/** Filled before the first test of the file runs. */
export function stage(graphics: Graphics): Stage {
  const made = {} as Stage;
  before(async () => {
    for (const file of ["index.html", "pkg/conclave.js", "members/members.json"]) {
      if (!existsSync(dist + file)) throw new Error(`${dist}${file} is missing: build the page first (cargo xtask dist)`);
    }
    made.site = new Site(dist);
    await made.site.open();
    made.browser = await launch(graphics);
  });
  after(async () => {
    await made.browser?.close();
    made.site?.close();
  });
  return made;
}
