/** axe-core's findings on the page and the element, in every state that a visitor meets. */
import assert from "node:assert/strict";
import { faults } from "../axe.ts";
import { embedded } from "./element-page.ts";
import { inEachBrowser, type Options } from "./stand.ts";
import type { Visit } from "./visit.ts";

const script = "./axe/axe.min.js";
const sum = "What is 347 + 586?";

async function withoutFaults(visit: Visit, state: string): Promise<void> {
  assert.deepEqual(await visit.tab.evaluate(faults, script), [], state);
}

for (const options of [{}, { dark: true }] satisfies Options[]) {
  const inEach = inEachBrowser(options);
  const scheme = "dark" in options ? "dark" : "light";
  inEach(`axe finds nothing wrong with the page, ${scheme}`, async (visit) => {
    const { tab } = visit;
    await visit.arrive();
    await withoutFaults(visit, "on arrival");
    await visit.answer(sum);
    await tab.click(".segment");
    await tab.shown(".inspector");
    await tab.evaluate(
      () => void (document.querySelector<HTMLDetailsElement>("details.settings")!.open = true),
    );
    await tab.picture(`${visit.browser} ${scheme} settings`);
    await withoutFaults(visit, "after an answer, with a round laid open and the settings");
    await tab.click("#models");
    await tab.shown("#models-dialog[open] .ensemble");
    await tab.picture(`${visit.browser} ${scheme} dialog`);
    await withoutFaults(visit, "with the dialog open");
  });

  inEach(`axe finds nothing wrong with the element, ${scheme}`, async (visit) => {
    const { tab } = visit;
    const element = await embedded(visit);
    await withoutFaults(visit, "before a question");
    await element.answer("What is 3 + 4?");
    await tab.picture(`${visit.browser} ${scheme} element`);
    await withoutFaults(visit, "after an answer");
  });
}
