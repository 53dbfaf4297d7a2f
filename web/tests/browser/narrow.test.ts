/** Details of a narrow screen: forms, notices and drafts that have less room. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator } from "playwright-core";
import { stage } from "./stage.ts";

const stand = stage("none");

const boxOf = async (locator: Locator) => (await locator.boundingBox())!;

for (const [width, height] of [
  [390, 844],
  [320, 640],
] as const)
  test(`what a phone has less room for is whole, ${width} × ${height}`, async () => {
    const visitor = await stand.arrive({ viewport: { width, height } });
    const { page } = visitor;
    // The kept draft is named beside the bar, in the recorded answer and in one under way.
    const kept = page.locator('.showing .drafting li[data-state="kept"]').first();
    await kept.waitFor();
    const rows = await kept.evaluate((row) => {
      const copy = row.closest(".drafting")!.cloneNode(true) as HTMLElement;
      document.querySelector("#transcript")!.append(copy);
      const measured = [row, copy.querySelector('[data-state="kept"]')!].map((one) =>
        [".name", ".meter", ".mark"].map((part) => {
          const { left, right, top, bottom } = one.querySelector(part)!.getBoundingClientRect();
          return { left, right, middle: (top + bottom) / 2 };
        }),
      );
      copy.remove();
      return measured;
    });
    for (const [name, bar, mark] of rows) {
      assert.ok(mark!.left >= bar!.right && bar!.left >= name!.right, JSON.stringify(rows));
      assert.ok(Math.abs(mark!.middle - bar!.middle) < 8, JSON.stringify(rows));
    }

    await visitor.answer("What is 347 + 586?");
    // So is who was taken, in the panel of a round.
    await page.locator(".segment").first().click();
    const [name, mark] = await page.locator(".candidates .taken").evaluate((row) =>
      [".name", ".mark"].map((part) => {
        const { top, bottom } = row.querySelector(part)!.getBoundingClientRect();
        return (top + bottom) / 2;
      }),
    );
    assert.ok(Math.abs(name! - mark!) < 12, `${name} ${mark}`);
    await page.keyboard.press("Escape");

    await visitor.conversations();
    const title = page.locator(".conversation-title").first();
    await title.hover();
    const edges = await title.evaluate((one) => {
      const { borderTopColor, borderBottomColor, backgroundColor } = getComputedStyle(one);
      return [borderTopColor, borderBottomColor, backgroundColor];
    });
    assert.deepEqual(edges, Array(3).fill("rgba(0, 0, 0, 0)"), "no frame without its sides");
    await page.getByRole("button", { name: /^Rename: / }).click();
    const field = await boxOf(page.getByLabel("Title", { exact: true }));
    const list = await boxOf(page.locator(".stored.conversations"));
    assert.ok(field.width > 0.95 * list.width, `${field.width} of ${list.width}`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");

    // A notice's only button begins where its text does.
    await page
      .locator("#attach-file")
      .setInputFiles([{ name: "a.png", mimeType: "image/png", buffer: Buffer.from([0, 1, 2, 3]) }]);
    const notice = page.locator(".notice.error");
    const [said, dismiss] = await notice.evaluate((one) =>
      [one.querySelector("p")!, one.querySelector("button")!].map((part) => {
        const range = document.createRange();
        range.selectNodeContents(part);
        return range.getBoundingClientRect().left;
      }),
    );
    assert.ok(Math.abs(said! - dismiss!) < 1, `${said} ${dismiss}`);
    await visitor.fits();
    await visitor.leaveClean();
  });
