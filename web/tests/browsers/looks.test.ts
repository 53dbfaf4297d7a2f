/**
 * The page's appearance in Firefox and in WebKit: on a phone, in dark mode, and in a browser
 * without a language.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tab } from "./driver.ts";
import { inEachBrowser, newSite } from "./stand.ts";
import { Visit } from "./visit.ts";
import { launchWebKit } from "./webkit.ts";

const light = inEachBrowser();
const dark = inEachBrowser({ dark: true });
const sum = "What is 347 + 586?";

for (const [inEach, scheme] of [
  [light, "light"],
  [dark, "dark"],
] as const) {
  inEach(`nothing is cut off at the width of a phone, ${scheme}`, async (visit) => {
    const { tab, site } = visit;
    // Windows have a minimum width; frames have none.
    site.overrides.set(
      "phone.html",
      '<!doctype html><title>Phone</title><link rel="icon" href="./mark.svg">' +
        "<style>body { margin: 0 } iframe { border: 0 }</style>" +
        '<iframe width="360" height="780" src="./index.html"></iframe>',
    );
    site.strangers.add("phone.html");
    visit.prepare();
    await tab.size(500, 900);
    await tab.open(`${site.address}phone.html`);
    await tab.frame("iframe");
    await visit.state("ready");
    const over = (selector: string): number => {
      const element = document.querySelector(selector)!;
      return element.scrollWidth - element.clientWidth;
    };
    assert.equal(await tab.evaluate(over, "html"), 0, "on arrival");
    await tab.picture(`${visit.browser} ${scheme} phone`);
    await visit.answer(sum);
    await tab.click(".segment");
    await tab.shown(".inspector");
    assert.equal(await tab.evaluate(over, "html"), 0, "with a round laid open");
    await tab.evaluate(() => document.querySelector(".question")!.scrollIntoView());
    await tab.picture(`${visit.browser} ${scheme} phone answer`);
    await visit.models();
    assert.equal(await tab.evaluate(over, "#models-dialog"), 0, "in the dialog");
    await tab.picture(`${visit.browser} ${scheme} phone dialog`);
  });
}

dark("in the dark the page is dark", async (visit) => {
  await visit.arrive();
  const [paper, ink] = await visit.tab.evaluate(() => {
    const { backgroundColor, color } = getComputedStyle(document.documentElement);
    return [backgroundColor, color];
  });
  assert.deepEqual([paper, ink], ["rgb(23, 22, 20)", "rgb(236, 231, 222)"]);
  await visit.tab.picture(`${visit.browser} dark first`);
});

light("a bar that nobody knows the length of is not drawn full", async (visit) => {
  await visit.arrive({ search: "?backend=webgpu", loaded: false });
  await visit.tab.shown(".load progress:indeterminate");
  // WebKit and Chromium draw none; Firefox draws its own bar at full width, unless it has no
  // colour.
  if (visit.browser !== "Firefox") return;
  assert.equal(
    await visit.tab.evaluate(
      () =>
        getComputedStyle(document.querySelector(".load progress")!, "::-moz-progress-bar")
          .backgroundColor,
    ),
    "rgba(0, 0, 0, 0)",
  );
});

test("WebKit: under a C locale, a language that there is not, the page opens and draws its chart", {
  timeout: 180_000,
}, async () => {
  const line = await launchWebKit({ language: "C.UTF-8" });
  const site = await newSite();
  try {
    const visit = new Visit("WebKit", await Tab.of(line), site);
    await visit.arrive();
    // One member adds wrongly here, so that weights move and the chart is drawn.
    await visit.set("alpha", "20");
    await visit.set("temperature", "0");
    assert.notEqual(await visit.answer("What is 5 + 6?"), "");
    await visit.tab.until(() => document.querySelectorAll("#weights canvas").length === 1);
    await visit.clean();
  } finally {
    site.close();
    line.close();
  }
});
