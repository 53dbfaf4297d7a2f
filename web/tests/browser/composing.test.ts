/** Slips while one composes a question: double clicks, examples, input methods, late words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const sum = "What is 347 + 586?";

async function arrive(): Promise<Visitor> {
  const visitor = await stand.arrive({
    serviceWorkers: "block",
    viewport: { width: 640, height: 480 },
  });
  await visitor.set("maxRounds", "2");
  return visitor;
}

test("a double click asks, an example leaves what is typed, an input method's keys stop nothing", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const box = page.locator("#question");
  // “Stop” takes the place of “Ask” under the pointer.
  await box.fill(sum);
  await page.locator("#ask").dblclick();
  await page.locator(".exchange").first().waitFor();
  await visitor.state("ready");
  assert.equal(await page.locator(".exchange").count(), 1);
  assert.doesNotMatch((await page.locator(".exchange").textContent()) ?? "", /stopped by you/);

  // Keys of an input method; the second, as Safari has it, comes once the composition is over.
  const composing = [{ isComposing: true }, { keyCode: 229 }];
  const press = (selector: string, key: string): Promise<void> =>
    page.locator(selector).evaluate(
      (element, inits) =>
        inits.forEach((init) => void element.dispatchEvent(new KeyboardEvent("keydown", init))),
      composing.map((init) => ({ ...init, key, bubbles: true, cancelable: true })),
    );
  await page.getByRole("button", { name: "Edit the question" }).click();
  await page.locator(".question-form textarea").fill("What is 1 + 1?");
  for (const key of ["Enter", "Escape"]) await press(".question-form textarea", key);
  assert.equal(await page.locator(".question-form textarea").inputValue(), "What is 1 + 1?");
  await page.getByRole("button", { name: "Cancel" }).click();
  await box.fill("Half a question");
  await press("#question", "Enter");
  await page.locator(".segment").first().click();
  await press(".segment >> nth=0", "Escape");
  assert.equal(await page.locator(".inspector").count(), 1);
  assert.equal(await page.locator(".exchange").count(), 1);
  await page.keyboard.press("Escape");
  await visitor.when(
    () => !document.querySelector<HTMLElement>("#stop")!.hidden,
    () => {
      for (const how of [{ isComposing: true }, { keyCode: 229 }]) {
        const key = { key: "Escape", bubbles: true, ...how };
        document.querySelector("#question")!.dispatchEvent(new KeyboardEvent("keydown", key));
      }
      document.body.dataset["composed"] = "true";
    },
  );
  await page.locator(".chip").first().click();
  await page.locator(".exchange").nth(1).waitFor();
  await page.locator("body[data-composed]").waitFor();
  await visitor.state("ready");
  assert.equal(await box.inputValue(), "Half a question");
  const last = await page.locator(".exchange").last().textContent();
  assert.doesNotMatch(last ?? "", /stopped by you/);
  await visitor.leaveClean();
});

test("a complaint is in view far down, goes with its file, and an opened conversation shows its end", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const isInView = (selector: string): Promise<boolean> =>
    page
      .locator(selector)
      .last()
      .evaluate((element) => {
        const { top, bottom } = element.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      });
  for (const number of [1, 2, 3]) await visitor.answer(`What is ${number} + 1?`);
  await page
    .locator(".exchange")
    .last()
    .evaluate((last) => last.scrollIntoView({ block: "end" }));
  const picture = { name: "a.png", mimeType: "image/png", buffer: Buffer.from([0x89, 0, 1, 2]) };
  await page.locator("#attach-file").setInputFiles(picture);
  const complaint = page.locator(".notice", { hasText: "a.png is no text" });
  await complaint.waitFor();
  assert.ok(await isInView(".notice"), "it is where the visitor is");
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  assert.ok(await isInView(".notice"), "also beside the members, in one column");
  const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("Notes.") };
  await page.locator("#attach-file").setInputFiles(notes);
  await page.locator("#ask").click();
  await page.locator(".notice", { hasText: "Type a question about notes.txt first" }).waitFor();
  await page.getByRole("button", { name: "Remove notes.txt" }).click();
  assert.equal(await page.locator(".notice").count(), 0, "it goes with the file");

  await page.locator("#new").click();
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator("#conversations").click();
  await page.locator(".conversation-title", { hasText: "1 + 1" }).click();
  await page.locator(".exchange").nth(2).waitFor();
  await page.waitForFunction(() => scrollY > 0);
  assert.ok(await isInView(".exchange .answer"), "the last answer");
  await visitor.leaveClean();
});

test("a dropped file of any text goes with the question; words typed meanwhile stay", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  const long = "Nothing but words here. ".repeat(12_000);
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "Cargo.toml"));
    for (const kind of ["dragenter", "dragover", "drop"])
      document.body.dispatchEvent(
        new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }),
      );
  }, long);
  await page.locator(".attached-name", { hasText: "Cargo.toml" }).waitFor();
  const box = page.locator("#question");
  await box.fill("Summarise this");
  await box.press("Enter");
  await page.keyboard.type(" and that");
  await page.locator(".exchange").first().waitFor();
  assert.equal(await box.inputValue(), "Summarise this and that");
  assert.equal(await page.locator(".exchange .question").textContent(), "Summarise this");
  assert.equal(await page.locator(".attached-name:visible").count(), 0);
  await visitor.state("ready");
  await visitor.leaveClean();
});
