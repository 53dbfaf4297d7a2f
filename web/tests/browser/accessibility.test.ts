/**
 * axe-core's findings on the page and the element in Chromium, in every state that a visitor meets,
 * light and dark.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults } from "../axe.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const script = "./axe/axe.min.js";

async function withoutFaults({ page }: Visitor, state: string): Promise<void> {
  assert.deepEqual(await page.evaluate(faults, script), [], state);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe finds nothing wrong with the page, ${colorScheme}`, async () => {
    const visitor = await stand.arrive({ colorScheme });
    const { page } = visitor;
    await withoutFaults(visitor, "on arrival");
    await visitor.answer("What is 347 + 586?");
    await page.locator(".segment").first().click();
    await page
      .locator("details.settings")
      .evaluate((details: HTMLDetailsElement) => (details.open = true));
    await withoutFaults(visitor, "after an answer, with a round laid open and the settings");
    await page.getByRole("button", { name: /^Ask .+ alone$/ }).click();
    await visitor.state("ready");
    await withoutFaults(visitor, "with the strongest member's answer beside it");
    await visitor.models();
    await withoutFaults(visitor, "with the dialog open");
    const search = page.getByRole("searchbox", { name: "Search models by name" });
    await search.fill("smollm2");
    await withoutFaults(visitor, "with models found by name");
    await search.fill("nonesuch");
    await withoutFaults(visitor, "with no model found");
    await search.fill("");
    await page.keyboard.press("Escape");
    await page
      .locator("#attach-file")
      .setInputFiles([
        { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one two three") },
      ]);
    await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
    await page.setViewportSize({ width: 320, height: 640 });
    await withoutFaults(visitor, "with a file attached, 320 pixels wide");
    await page.locator("#conversations").click();
    await page.locator(".conversations li").waitFor();
    await withoutFaults(visitor, "with the conversations");
    await page.getByRole("button", { name: /^Rename/ }).click();
    await withoutFaults(visitor, "with a title being changed");
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
    await withoutFaults(visitor, "after a deletion");
    await visitor.leaveClean();
  });

  test(`axe finds nothing wrong with the element, ${colorScheme}`, async () => {
    const body =
      '<main><h1>Embedded</h1><conclave-chat backend="cpu"></conclave-chat></main><script type="module" src="./library/element.js"></script>';
    stand.site.overrides.set(
      "embed.html",
      `<!doctype html><html lang="en"><title>Embedded</title><meta name="color-scheme" content="light dark"><link rel="icon" href="./mark.svg">${body}</html>`,
    );
    const visitor = await stand.arrive({
      search: "embed.html",
      loaded: false,
      colorScheme,
    });
    const chat = visitor.page.locator("conclave-chat");
    await chat.locator("[part=box]").fill("What is 3 + 4?");
    await withoutFaults(visitor, "before a question");
    await chat.locator("[part=ask]").click();
    await chat.locator("[part=segment]").first().waitFor();
    await chat.locator("[part=ask]").filter({ hasText: "Ask" }).waitFor();
    await withoutFaults(visitor, "after an answer");
    await visitor.leaveClean();
  });
}
