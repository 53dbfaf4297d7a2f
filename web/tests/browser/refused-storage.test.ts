/** A browser that stores nothing more: the page does not say that it did, and loses nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";

test("what is not stored is not told as imported or put back, and Undo stays", async () => {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  await visitor.answer(sum);
  await page.evaluate(() => {
    const { transaction } = IDBDatabase.prototype;
    IDBDatabase.prototype.transaction = function (stores, mode, options) {
      if (mode === "readwrite" && document.body.dataset["full"] === "yes")
        throw new DOMException("There is no room.", "QuotaExceededError");
      return transaction.call(this, stores, mode, options);
    };
  });
  const setFull = (full: "yes" | "no"): Promise<void> =>
    page.evaluate((full) => void (document.body.dataset["full"] = full), full);
  const dialog = page.locator("#conversations-dialog");
  const status = (text: string): Promise<void> =>
    dialog.locator(".dialog-status", { hasText: text }).waitFor();
  const press = (name: string): Promise<void> => dialog.getByRole("button", { name }).click();

  await setFull("yes");
  await visitor.conversations();
  await press(`Delete: ${sum}`);
  await status(`“${sum}” could not be deleted.`);
  await press("Delete everything");
  await press("Delete all conversations and settings");
  await status("The conversations could not be deleted.");
  assert.equal(await dialog.locator("li").count(), 1);

  await setFull("no");
  await press(`Delete: ${sum}`);
  await status(`“${sum}” was deleted.`);
  await setFull("yes");
  await press("Undo");
  await status("1 conversation could not be put back: this browser stored nothing.");
  const file =
    "<!-- conclave conversation -->\n# A\n\n<!-- conclave question -->\n## B\n\nB\n\n" +
    "<!-- conclave answer -->\nC\n";
  await dialog
    .locator("input[type=file]")
    .setInputFiles([{ name: "a.md", mimeType: "text/markdown", buffer: Buffer.from(file) }]);
  await status("a.md can't be imported: this browser did not store it.");
  assert.equal(await dialog.locator("li").count(), 0);

  await setFull("no");
  await press("Close");
  await visitor.conversations();
  await press("Undo the deletion");
  await status("1 conversation put back.");
  assert.deepEqual(await dialog.locator(".conversation-title").allTextContents(), [sum]);
  await visitor.leaveClean();
});
