/**
 * Setup of every test here: one Firefox and one WebKit a file, and a host with the built page for
 * each test.
 */
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { dist } from "../browser/stage.ts";
import { Site } from "../browser/site.ts";
import { BrowserEnded, Tab, type Line } from "./driver.ts";
import { launchFirefox } from "./firefox.ts";
import { Visit } from "./visit.ts";
import { launchWebKit, type WebKitOptions } from "./webkit.ts";

const web = process.env["CONCLAVE_WEB"] ?? "./";

export type Options = Pick<WebKitOptions, "dark">;

const launches: Record<string, (options: Options) => Promise<Line>> = {
  Firefox: ({ dark = false }) =>
    launchFirefox({ "layout.css.prefers-color-scheme.content-override": dark ? 0 : 1 }),
  WebKit: launchWebKit,
};

/** A new origin with the page, so that tests share no browser storage. */
export async function newSite(): Promise<Site> {
  const site = new Site(dist, "/some/where/", {
    library: `${web}package`,
    axe: `${web}node_modules/axe-core`,
  });
  await site.open();
  return site;
}

/** Whether the browser no longer answers. Commands in which it ends fail with other errors. */
async function hasEnded(tab: Tab): Promise<boolean> {
  for (let tries = 0; tries < 3; tries++) {
    const error = await tab.open("about:blank").then(
      () => undefined,
      (error: unknown) => error,
    );
    if (error === undefined || error instanceof BrowserEnded) return error !== undefined;
  }
  return true;
}

type Body = (visit: Visit) => Promise<void>;

/** Launches a file's browsers; returns a function that runs a test in each. */
export function inEachBrowser(
  options: Options = {},
): (title: string, body: Body, only?: string) => void {
  const tabs = new Map<string, { line: Line; tab: Tab }>();
  const launch = async (name: string): Promise<void> => {
    const line = await launches[name]!(options);
    tabs.set(name, { line, tab: await Tab.of(line) });
  };
  before(async () => {
    readFileSync(`${dist}index.html`); // Fails without a built page.
    await Promise.all(Object.keys(launches).map(launch));
  });
  after(() => tabs.forEach(({ line }) => line.close()));
  const visited = async (name: string, title: string, body: Body): Promise<void> => {
    const { line, tab } = tabs.get(name)!;
    const site = await newSite();
    try {
      await body(new Visit(name, tab, site));
      await tab.frame().catch(() => undefined);
      await tab.open("about:blank").catch(() => undefined);
    } catch (error) {
      await tab.picture(`failed ${name} ${title.slice(0, 40)}`).catch(() => undefined);
      const ended = await hasEnded(tab);
      // The next test does not inherit a browser that may have ended.
      line.close();
      await launch(name);
      const Kind = ended ? BrowserEnded : Error;
      throw new Kind(`${String(error)}\n${name} wrote:\n${line.log()}`, { cause: error });
    } finally {
      site.close();
    }
  };
  return (title, body, only) => {
    for (const name of Object.keys(launches).filter(
      (name) => only === undefined || name === only,
    )) {
      test(`${name}: ${title}`, { timeout: 180_000 }, async (context) => {
        try {
          await visited(name, title, body);
        } catch (error) {
          if (!(error instanceof BrowserEnded)) throw error;
          // The process of a page in WebKitGTK crashes, rarely, in code of its own.
          context.diagnostic(`${error.message}. The test is run again.`);
          await visited(name, title, body);
        }
      });
    }
  };
}
