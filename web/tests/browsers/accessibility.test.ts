/** axe-core's findings on the page and the element, in every state that a visitor meets. */
import assert from "node:assert/strict";
import { faults } from "../axe.ts";
import { madePdf } from "../browser/pdf-file.ts";
import { embedded } from "./element-page.ts";
import { inEachBrowser, type Options } from "./stand.ts";
import type { Visit } from "./visit.ts";

const sum = "What is 347 + 586?";

async function withoutFaults(visit: Visit, state: string): Promise<void> {
  assert.deepEqual(await visit.tab.evaluate(faults), [], state);
}

/** Chooses a file in a file input, which may be hidden: visitors press a button for it. */
function choose({ tab }: Visit, input: string, name: string, file: Buffer): Promise<void> {
  const put = (input: string, name: string, base64: string): void => {
    const chosen = new DataTransfer();
    chosen.items.add(
      new File([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))], name),
    );
    const element = document.querySelector<HTMLInputElement>(input)!;
    element.files = chosen.files;
    element.dispatchEvent(new Event("change", { bubbles: true }));
  };
  return tab.evaluate(put, input, name, file.toString("base64"));
}

/** Presses the button with this label. */
const press = ({ tab }: Visit, label: string): Promise<void> =>
  tab.evaluate((label) => {
    const within = document.querySelector("dialog[open]") ?? document;
    const all = [...within.querySelectorAll<HTMLElement>("button")];
    const named = (one: HTMLElement): string => one.getAttribute("aria-label") ?? one.innerText;
    const found = all.find((one) => one.offsetParent !== null && named(one).startsWith(label));
    if (!found) throw new Error(`no button is called ${label}`);
    found.click();
  }, label);

/** A conversation of a file, with formulas in its answer. */
const solved = JSON.stringify({
  format: "conclave conversation 1",
  title: "Roots",
  created: 1,
  turns: [
    {
      ...{ id: "roots", at: 1, question: "Solve it!", members: [], cores: [], voices: [] },
      backend: "cpu",
      adapter: { name: "", vendor: "", architecture: "", backend: "", software: false },
      answer: "Then $a^2$ costs $5, and\n\n\\[x = \\frac{-b}{2a}\\]",
      events: [],
    },
  ],
});

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
    await visit.models();
    await tab.picture(`${visit.browser} ${scheme} dialog`);
    await withoutFaults(visit, "with the dialog open");
  });

  inEach(`axe finds nothing wrong with what a visitor does, ${scheme}`, async (visit) => {
    const { tab } = visit;
    await visit.arrive();
    await visit.set("maxRounds", "1");
    await visit.answer(sum);
    await withoutFaults(visit, "with the actions below an answer");
    await press(visit, "Side by side");
    await tab.until(() => document.querySelectorAll(".alone, .side-by-side li").length > 0);
    await visit.state("ready");
    await withoutFaults(visit, "with each member's own answer");

    await choose(visit, "#attach-file", "scan.pdf", madePdf({ pages: [""] }));
    await tab.says(".notice.error", "no text");
    await withoutFaults(visit, "with a file that can't be read");
    await choose(visit, "#attach-file", "report.pdf", madePdf({ pages: ["one", "", "three"] }));
    await tab.says("#attached", "all 3 pages");
    await tab.size(400, 800);
    await tab.picture(`${visit.browser} ${scheme} attached`);
    await withoutFaults(visit, "with a PDF attached, on a narrow screen");
    await tab.size(1280, 1000);

    await visit.models();
    await tab.fill("#models-dialog input[type=search]", "smollm2");
    await withoutFaults(visit, "with models found by name");
    await tab.fill("#models-dialog input[type=search]", "nonesuch");
    await withoutFaults(visit, "with no model found");
    await press(visit, "Close");

    await tab.click("#conversations");
    await tab.shown(".conversations li");
    await withoutFaults(visit, "with the conversations");
    await press(visit, "Rename");
    await withoutFaults(visit, "with a title being changed");
    await press(visit, "Cancel");
    await choose(
      visit,
      "#conversations-dialog input[type=file]",
      "roots.json",
      Buffer.from(solved),
    );
    await tab.until(() => document.querySelectorAll(".conversations li").length === 2);
    await press(visit, "Delete: What");
    await tab.says("#conversations-dialog", "Undo");
    await withoutFaults(visit, "after a deletion");
    await press(visit, "Roots");
    await tab.until(() => document.querySelectorAll(".answer math").length === 2);
    await tab.evaluate(() => document.querySelector(".answer")?.scrollIntoView());
    await tab.picture(`${visit.browser} ${scheme} formulas`);
    const heights = await tab.evaluate(() =>
      [...document.querySelectorAll(".answer :is(mfrac, mi)")].map(
        (part) => part.getBoundingClientRect().height,
      ),
    );
    assert.ok(Math.max(...heights) > 1.5 * Math.min(...heights), `drawn: ${heights.join(", ")}`);
    await withoutFaults(visit, "with formulas in an answer");
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
