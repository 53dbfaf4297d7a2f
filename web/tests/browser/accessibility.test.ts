/**
 * axe-core's findings on the page and the element in Chromium, in every state that a visitor meets,
 * light and dark; and the focus, which axe-core does not see.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import { withWriter, writing } from "./with-writer.ts";

const stand = stage("none");
const writer = writing();

const structured = [
  "## Areas",
  "| shape | area |",
  "|---|---:|",
  "| square | 4 |",
  "",
  "```js",
  'const [unit, area] = ["m", 2 * 2]; // of a square',
  "```",
  "",
  "It is $a^2$, or",
  "",
  "$$\\int_0^a a\\,dx.$$",
].join("\n");
const rightToLeft = ["المساحة هي 4.", "", "1. أولا", "2. ثانيا", "", "| الشكل | المساحة |"];
rightToLeft.push("|---|---|", "| مربع | 4 |");

test("what has the focus is not behind the question box", async () => {
  const visitor = await withWriter(stand, writer, structured, {
    viewport: { width: 390, height: 560 },
  });
  const { page } = visitor;
  await visitor.answer("What is the area?");
  await page.locator(".answer .segment").first().click();
  await page.locator(".inspector").waitFor();
  await page.evaluate(() => scrollTo(0, 0));
  const edit = page.getByRole("button", { name: "Edit the question and ask again" });
  await edit.focus();
  const place = () =>
    page.evaluate(() => {
      const [focus, box] = [document.activeElement!, document.querySelector("#composer")!];
      const covered = focus.getBoundingClientRect().bottom - box.getBoundingClientRect().top;
      const name = `${focus.tagName} ${focus.className} ${focus.textContent.slice(0, 30)}`;
      return { name, within: box.contains(focus), covered, scrolled: scrollY };
    });
  let [before, stops] = [await place(), 0];
  assert.match(before.name, /edit/);
  for (; ; stops++) {
    await page.keyboard.press("Tab");
    const now = await place();
    if (now.within) {
      assert.equal(now.scrolled, before.scrolled, "the box is in view wherever one has scrolled");
      break;
    }
    assert.ok(now.covered <= 0 && stops < 100, JSON.stringify(now));
    before = now;
  }
  assert.ok(stops > 8, `${stops} places take the focus between the question and the box`);
  await visitor.leaveClean();
});

test("a long question scrolls within its box, which leaves room for the answer", async () => {
  const visitor = await withWriter(stand, writer, structured);
  const { page } = visitor;
  await visitor.answer("What is the area?");
  const long = Array.from({ length: 60 }, (_, index) => `Line ${index} of a question`).join("\n");
  // A phone, a wide screen, and the same at 200 and 400 %.
  for (const [width, height] of [
    [320, 568],
    [1280, 800],
    [640, 400],
    [320, 256],
  ] as const) {
    await page.setViewportSize({ width, height });
    await page.locator("#question").fill(long);
    await page.locator("#question").press("ControlOrMeta+End");
    const seen = await page.evaluate(() => {
      const area = document.querySelector("#question") as HTMLTextAreaElement;
      const box = (selector: string): DOMRect =>
        document.querySelector(selector)!.getBoundingClientRect();
      const [composer, ask] = [box("#composer"), box("#ask")];
      return {
        scrolls: area.scrollHeight > area.clientHeight + 100,
        atEnd: area.scrollTop + area.clientHeight >= area.scrollHeight - 20,
        lines: area.clientHeight / Number.parseFloat(getComputedStyle(area).lineHeight),
        // The last line is above the window's end, and so is the button.
        below: Math.max(area.getBoundingClientRect().bottom, ask.bottom) - innerHeight,
        left: composer.top / innerHeight,
        wide: document.documentElement.scrollWidth - innerWidth,
      };
    });
    const told = `${width} × ${height}: ${JSON.stringify(seen)}`;
    assert.ok(seen.scrolls && seen.atEnd && seen.lines >= 1.5, told);
    assert.ok(seen.below <= 0 && seen.wide <= 0, told);
    assert.ok(seen.left >= 0.4, told);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.id), "ask", told);
  }
  await visitor.leaveClean();
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing wrong with the page, ${colorScheme}`, async () => {
    const visitor = await stand.arrive({ colorScheme });
    const { page } = visitor;
    await visitor.faultless("on arrival");
    await visitor.answer("What is 347 + 586?");
    await page.locator(".segment").first().click();
    await visitor.openSettings();
    await visitor.faultless("after an answer, with a round laid open and the settings");
    await page.getByRole("button", { name: /^Ask .+ alone$/ }).click();
    await visitor.state("ready");
    await visitor.faultless("with the strongest member's answer beside it");
    await visitor.models();
    await visitor.faultless("with the dialog open");
    const search = page.getByRole("searchbox", { name: "Search models by name" });
    await search.fill("smollm2");
    await visitor.faultless("with models found by name");
    await search.fill("nonesuch");
    await visitor.faultless("with no model found");
    await search.fill("");
    await page.keyboard.press("Escape");
    await page
      .locator("#attach-file")
      .setInputFiles([
        { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one two three") },
      ]);
    await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
    await page.setViewportSize({ width: 320, height: 640 });
    await visitor.faultless("with a file attached, 320 pixels wide");
    await page.locator("#conversations").click();
    await page.locator(".conversations li").waitFor();
    await visitor.faultless("with the conversations");
    await page.getByRole("button", { name: /^Rename/ }).click();
    await visitor.faultless("with a title being changed");
    assert.equal(
      await page
        .locator("#conversations-dialog")
        .evaluate((dialog) => dialog.scrollWidth > dialog.clientWidth),
      false,
      "nothing is wider than the screen",
    );
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: /^Delete: / }).click();
    await page.getByRole("button", { name: "Undo" }).waitFor();
    await visitor.faultless("after a deletion");
    await visitor.leaveClean();
  });

  test(`axe finds nothing wrong with answers of all kinds, ${colorScheme}`, async () => {
    const visitor = await withWriter(stand, writer, structured, {
      colorScheme,
      viewport: { width: 390, height: 844 },
    });
    const { page } = visitor;
    await visitor.answer("What is the area?");
    const answer = page.locator(".answer");
    await answer.locator("math").first().waitFor();
    for (const kind of ["table", "pre", "h3"]) assert.equal(await answer.locator(kind).count(), 1);
    await visitor.faultless("with a table, code and formulas");
    await answer.locator(".segment").first().click();
    await page.locator(".inspector").waitFor();
    await page.getByRole("button", { name: "Edit the question and ask again" }).click();
    await visitor.faultless("while a question is edited, with a round laid open");
    assert.equal(await page.locator(".exchange .question-form textarea").isVisible(), true);
    await page.keyboard.press("Escape");
    writer.answer = rightToLeft.join("\n");
    await visitor.answer("ما هي المساحة؟");
    await visitor.faultless("with a right-to-left answer");
    await page
      .locator("#attach-file")
      .setInputFiles([
        { name: "scan.txt", mimeType: "text/plain", buffer: Buffer.from([0, 1, 2, 3]) },
      ]);
    await page.locator(".notice.error").waitFor();
    for (const share of [0, 0.5, 1]) {
      await page.evaluate((at) => scrollTo(0, at * document.body.scrollHeight), share);
      await visitor.faultless(`with a notice, scrolled by ${share}`);
    }
    await visitor.leaveClean();
  });

  test(`axe finds nothing wrong with the element, ${colorScheme}`, async () => {
    const body =
      '<main><h1>Embedded</h1><conclave-chat backend="cpu"></conclave-chat></main>' +
      '<script type="module" src="./library/element.js"></script>';
    stand.site.overrides.set(
      "embed.html",
      '<!doctype html><html lang="en"><title>Embedded</title>' +
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="./mark.svg">' +
        `${body}</html>`,
    );
    const visitor = await stand.arrive({
      search: "embed.html",
      loaded: false,
      colorScheme,
    });
    const chat = visitor.page.locator("conclave-chat");
    await chat.locator("[part=box]").fill("What is 3 + 4?");
    await visitor.faultless("before a question");
    await chat.locator("[part=ask]").click();
    await chat.locator("[part=segment]").first().waitFor();
    await chat.locator("[part=ask]").filter({ hasText: "Ask" }).waitFor();
    await visitor.faultless("after an answer");
    await visitor.leaveClean();
  });
}
