/**
 * A hidden tab that has the engine for others: Chromium throttles its timers to one a second, and
 * nothing may depend on them.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { HiddenTabs, type HiddenTab } from "./hidden-tabs.ts";
import { stage } from "./stage.ts";

const made = stage("none");
const tabs = new HiddenTabs();
after(() => tabs.close());

const ready = (): boolean => document.body?.dataset["state"] === "ready";
const median = (times: number[]): number => times.sort((a, b) => a - b)[times.length >> 1]!;

/** Asks five sums in turn, and returns the milliseconds of each by the tab's own clock. */
async function sums(tab: HiddenTab): Promise<number[]> {
  const times: number[] = [];
  for (let first = 211; first < 216; first++) {
    const [took, text] = await tab.evaluate(async (first) => {
      const state = (): string | undefined => document.body.dataset["state"];
      document.querySelector<HTMLTextAreaElement>("#question")!.value = `What is ${first} + 586?`;
      const began = performance.now();
      document.querySelector<HTMLButtonElement>("#ask")!.click();
      const over = new Promise<void>((resolve) => {
        const watching = new MutationObserver(() => {
          if (state() !== "ready") return;
          watching.disconnect();
          resolve();
        });
        watching.observe(document.body, { attributeFilter: ["data-state"] });
      });
      await over;
      return [
        performance.now() - began,
        document.querySelector("#transcript")?.lastElementChild?.textContent ?? "",
      ] as const;
    }, first);
    assert.match(text, new RegExp(`What is ${first} .*finished`, "s"));
    times.push(took);
  }
  return times;
}

test("a tab out of sight answers others as fast as it answers itself in view", async (context) => {
  const first = await tabs.open(made.site.address);
  await first.until(ready);
  await sums(first); // The first question waits for more.
  assert.equal(await first.evaluate(() => document.visibilityState), "visible");
  const inView = await sums(first);
  const second = await tabs.open(made.site.address);
  await second.until(ready);
  assert.equal(await first.evaluate(() => document.visibilityState), "hidden");
  assert.match(
    await second.evaluate(() => document.querySelector("#engine")?.textContent ?? ""),
    /, in another tab$/,
  );
  const outOfSight = await sums(second);
  const milliseconds = (times: number[]): string => times.map(Math.round).join(", ");
  context.diagnostic(
    `in view ${milliseconds(inView)} ms, out of sight ${milliseconds(outOfSight)} ms`,
  );
  assert.ok(
    median(outOfSight) < 2 * median(inView) + 200,
    `${milliseconds(outOfSight)} ms in place of ${milliseconds(inView)}`,
  );
});
