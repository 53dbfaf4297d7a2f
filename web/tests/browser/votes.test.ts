/** The weights beside an answer: the chart, its sentence, the cards and an open round agree. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { stage } from "./stage.ts";

const stand = stage("none");

const numbers = (text: string | null): number[] =>
  [...(text ?? "").matchAll(/\d\.\d+/g)].map(([number]) => Number(number));

/** Weights of the open round's own table. */
const open = (page: Page): Promise<number[]> =>
  page
    .locator(".inspector .matrix tbody td.figure")
    .allTextContents()
    .then((texts) => texts.map(Number));

/** The same beside the answer, once they are those. */
async function agree(page: Page, weights: number[], when: string): Promise<void> {
  assert.equal(weights.length, 3, when);
  const cards = await page.locator(".member .votes .figure").allTextContents();
  assert.deepEqual(cards.map(Number), weights, `cards ${when}`);
  const label = await page.locator("#weights .plot").getAttribute("aria-label");
  assert.deepEqual(numbers(label), weights, `chart ${when}`);
  const sentence = numbers(await page.locator("#weights > .hint").first().textContent());
  const [low, high] = [Math.min(...weights), Math.max(...weights)];
  if (await page.locator("#weights .plot").isHidden())
    assert.deepEqual([...new Set(sentence)], [...new Set([low, high])], `sentence ${when}`);
}

test("beside an earlier answer with an open round are that round's weights", async () => {
  const visitor = await stand.arrive({ viewport: { width: 1280, height: 700 } });
  const { page } = visitor;
  await visitor.set("maxRounds", "3");
  for (const question of [
    "What is 347 + 586?",
    "Tell me a story about a fox.",
    "Who wrote Hamlet?",
  ])
    await visitor.answer(question);
  const exchange = (place: number): Locator => page.locator(".exchange").nth(place);
  const latest = (await page.locator(".member .votes .figure").allTextContents()).map(Number);

  await exchange(0).locator(".segment").first().click();
  const first = await open(page);
  assert.notDeepEqual(first, latest);
  await agree(page, first, "of the first answer");
  const told = await page.locator("#weights").textContent();

  // One round is open at a time, and what was pressed stays in its place.
  const segment = exchange(1).locator(".segment").first();
  await segment.scrollIntoViewIfNeeded();
  // Measured at once: then the panel is scrolled into view.
  const [before, after] = await segment.evaluate((pressed: HTMLElement) => {
    const { top } = pressed.closest(".exchange")!.getBoundingClientRect();
    pressed.click();
    return [top, pressed.closest(".exchange")!.getBoundingClientRect().top];
  });
  assert.equal(await page.locator(".inspector").count(), 1);
  assert.equal(await exchange(1).locator(".inspector").count(), 1);
  assert.ok(Math.abs(after! - before!) < 2, `${before} ${after}`);
  await agree(page, await open(page), "of the second answer");
  const began = await open(page);
  await page.getByRole("button", { name: "Round after" }).click();
  assert.notDeepEqual(await open(page), began);
  await agree(page, await open(page), "of its second round");
  assert.notEqual(await page.locator("#weights").textContent(), told);

  await page.getByRole("button", { name: "Close" }).click();
  await agree(page, latest, "with all rounds closed");
  await visitor.leaveClean();
});

test("after a reload the weights are those of the conversation, beside its own members", async () => {
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  const beside = page.locator(".member .votes:visible, #weights > :visible:not(:empty)");
  await visitor.set("maxRounds", "3");
  await visitor.answer("What is 347 + 586?");
  const cards = page.locator(".member .votes .figure");
  const weights = (await cards.allTextContents()).map(Number);
  const told = await page.locator("#weights").textContent();
  await page.reload();
  await visitor.state("ready");
  await agree(page, weights, "after a reload");
  assert.equal(await page.locator("#weights").textContent(), told);
  assert.equal(await page.locator(".member .votes:visible").count(), 3);
  // A member that voted has gone: the weights are not those of the others.
  await page.getByRole("button", { name: "Remove Juno" }).click();
  await beside.first().waitFor({ state: "hidden" });
  assert.equal(await beside.count(), 0);
  await visitor.answer("What is 5 + 8?");
  assert.ok((await beside.count()) > 2);
  await page.locator("#new").click();
  assert.equal(await beside.count(), 0, "nothing is asked yet");
  await visitor.leaveClean();
});

test("cards credit the members that wrote, also after others continued", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const card = (name: string): Locator => page.locator(".member", { hasText: name });
  const takesPart = async (name: string, takes: boolean): Promise<void> =>
    card(name).locator(".takes-part input").setChecked(takes);
  for (const name of ["Juno", "Quill"]) await takesPart(name, false);
  await visitor.set("maxRounds", "1");
  await visitor.answer("Tell me a story about a fox.");
  for (const name of ["Juno", "Quill"]) await takesPart(name, true);
  await takesPart("Ada", false);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.locator(".facts", { hasText: "2 rounds" }).waitFor();
  await visitor.state("ready");
  const legend = (await page.locator(".legend").textContent()) ?? "";
  const own = (name: string): number => Number(new RegExp(`${name} (\\d+)`).exec(legend)?.[1] ?? 0);
  assert.equal(own("Ada"), 1, legend);
  assert.ok(own("Juno") + own("Quill") >= 1, legend);
  for (const name of ["Ada", "Juno", "Quill"]) {
    const left = name === "Ada" ? ", left after round 1" : "[^l]*";
    assert.match(
      (await card(name).locator(".won").textContent()) ?? "",
      new RegExp(`^wrote ${own(name)} of 2 segments .*%\\)${left}$`),
    );
  }
  assert.equal(await card("Ada").locator(".votes .figure").textContent(), "no vote");
  assert.doesNotMatch((await page.locator("#weights").textContent()) ?? "", /One member answers/);
  assert.match(
    (await page.locator("#weights .plot").getAttribute("aria-label")) ?? "",
    /^Weights after round 2: Ada has no vote, \w+ 0\.\d+, \w+ 0\.\d+$/,
  );
  // Its first round was one member's alone.
  await page.locator(".segment").first().click();
  assert.equal(await card("Ada").locator(".votes .figure").textContent(), "1.000");
  assert.equal(await card("Quill").locator(".votes .figure").textContent(), "no vote");
  await visitor.leaveClean();
});
