/** The page in Firefox and in WebKit, on the CPU: its main uses, and by keyboard. */
import assert from "node:assert/strict";
import { putBeforeWorker } from "../browser/before-worker.ts";
import { dist } from "../browser/stage.ts";
import { keys } from "./driver.ts";
import { inEachBrowser } from "./stand.ts";

const inEach = inEachBrowser();
const sum = "What is 347 + 586?";

inEach("a first visit ends in an answer, with who wrote what and who voted how", async (visit) => {
  const { tab } = visit;
  await visit.arrive();
  assert.match(await tab.text("#engine"), /^CPU, \d threads? \(this browser offers no WebGPU\)$/);
  await tab.picture(`${visit.browser} first`);
  assert.match(await visit.answer(sum), /933/);
  assert.match(
    await tab.text(".facts"),
    /finished · \d+ rounds? · [\d.]+ tokens\/s · first segment after/,
  );
  assert.deepEqual(
    await tab.evaluate(() =>
      [
        ...new Set([...document.querySelectorAll(".legend .name")].map((name) => name.textContent)),
      ].sort(),
    ),
    ["Ada", "Juno", "Quill"],
  );
  await tab.click(".segment");
  await tab.shown(".inspector");
  assert.deepEqual(
    await tab.evaluate(() =>
      [".candidates li", ".candidates .taken", ".matrix tbody tr"].map(
        (selector) => document.querySelectorAll(selector).length,
      ),
    ),
    [3, 1, 3],
  );
  await tab.picture(`${visit.browser} answer`);
  await visit.offlineCopy();
  // A page just loaded is offered no newer version, and no request has left the host.
  await visit.clean();
});

inEach(
  "a member is known by its underline as well as by its colour; weights that differ are drawn",
  async (visit) => {
    await visit.arrive();
    // One member adds wrongly here, so that weights move and the chart is drawn.
    await visit.set("alpha", "20");
    await visit.set("temperature", "0");
    await visit.answer("What is 5 + 6?");
    await visit.tab.until(() => document.querySelectorAll("#weights canvas").length === 1);
    const lines = await visit.tab.evaluate(() =>
      [...document.querySelectorAll(".segment:first-child, .legend .name, .member .name")].map(
        (element) => {
          const { textDecorationLine, textDecorationStyle } = getComputedStyle(element);
          return `${textDecorationLine} ${textDecorationStyle}`;
        },
      ),
    );
    const three = ["underline solid", "underline dashed", "underline dotted"];
    assert.deepEqual([lines.slice(1, 4).sort(), lines.slice(-3)], [[...three].sort(), three]);
    assert.match(lines[0]!, /^underline (solid|dashed|dotted)$/);
  },
);

inEach("stop keeps the text so far; the next question goes on from it", async (visit) => {
  const { tab } = visit;
  await putBeforeWorker(visit.site, "paced-worker.ts");
  await visit.arrive();
  await visit.set("seed", "11");
  await visit.set("segmentTokens", "2");
  await visit.ask("Tell me a short story about a fox.");
  await tab.until(() => document.querySelector(".segment") !== null);
  await tab.press(keys.escape);
  await visit.state("ready");
  assert.match(await tab.text(".facts"), /stopped by you/);
  const kept = await visit.answered();
  assert.notEqual(kept, "");
  assert.notEqual(await visit.answer(sum), "");
  const texts = await tab.evaluate(() =>
    [...document.querySelectorAll(".exchange")].map((exchange) =>
      [...exchange.querySelectorAll(".segment")].map(({ textContent }) => textContent).join(""),
    ),
  );
  assert.equal(texts.length, 2);
  assert.equal(texts[0], kept);
});

inEach("a model that is picked as a file joins, and answers alone", async (visit) => {
  const { tab } = visit;
  await visit.arrive();
  await visit.models();
  await tab.picture(`${visit.browser} dialog`);
  await tab.pick(
    "#models-dialog .add-files input:not([webkitdirectory])",
    `${dist}members/quill.gguf`,
  );
  await tab.until(() => document.querySelector('.member[data-state="ready"]:only-child') !== null);
  assert.deepEqual(await visit.members(), ["quill"], "the toys have made room");
  assert.notEqual(await visit.answer(sum), "");
  assert.deepEqual(
    await tab.evaluate(() =>
      [...document.querySelectorAll(".legend .name")].map((name) => name.textContent),
    ),
    ["quill"],
  );
  if (visit.browser === "Firefox") {
    await visit.offered();
    await visit.press("Dismiss");
  }
  await visit.clean();
});

inEach(
  "WebGPU asked for where there is none: told, and one press leads to the CPU",
  async (visit) => {
    const { tab } = visit;
    await visit.arrive({ search: "?backend=webgpu", loaded: false });
    await tab.says(".notice.error", "no WebGPU");
    await tab.picture(`${visit.browser} notice`);
    await tab.until(() => {
      const reload = [...document.querySelectorAll<HTMLElement>(".notice button")].find(
        ({ textContent }) => textContent === "Reload on the CPU",
      );
      reload?.click();
      return reload !== undefined;
    });
    await visit.state("ready");
    await visit.clean();
  },
);

inEach(
  "the question box grows with the question, and is small again when it is asked",
  async (visit) => {
    const { tab } = visit;
    await visit.arrive();
    await visit.set("maxRounds", "1");
    const height = (): number => document.querySelector("#question")!.clientHeight;
    const empty = await tab.evaluate(height);
    await tab.click("#question");
    await tab.press(..."What is");
    for (let line = 0; line < 2; line++) {
      await tab.pressShifted(keys.enter);
      await tab.press(..."1 + 2?");
    }
    assert.ok(
      (await tab.evaluate(height)) > empty + 30,
      `${await tab.evaluate(height)} pixels, empty it has ${empty}`,
    );
    assert.equal(
      await tab.evaluate(
        () =>
          document.querySelector("#question")!.scrollHeight -
          document.querySelector("#question")!.clientHeight,
      ),
      0,
      "all of it is in view",
    );
    await tab.press(keys.enter);
    await tab.shown(".exchange");
    await visit.state("ready");
    assert.equal(await tab.evaluate(height), empty);
  },
);

inEach("everything goes by keyboard alone", async (visit) => {
  const { tab } = visit;
  await visit.arrive();
  const focused = (): string =>
    document.activeElement?.id ||
    document.activeElement?.className ||
    document.activeElement?.getAttribute("aria-label") ||
    "";
  const tabTo = async (
    wanted: string,
    press: (key: string) => Promise<void> = (key) => tab.press(key),
  ): Promise<void> => {
    for (let presses = 0; presses < 40; presses++) {
      await press(keys.tab);
      if ((await tab.evaluate(focused)).includes(wanted)) return;
    }
    assert.fail(`Tab never reaches ${wanted}`);
  };
  await tabTo("chip");
  await tabTo("question");
  await tab.press(...sum, keys.enter);
  await tab.shown(".exchange");
  await visit.state("ready");
  await tabTo("segment", (key) => tab.pressShifted(key));
  await tab.press(keys.enter);
  assert.equal(await tab.text(".inspector h3"), "Round 1");
  // Without a window manager WebKit's window has no focus, and draws none.
  assert.ok(
    await tab.evaluate(
      () => document.activeElement?.matches(":focus-visible") || !document.hasFocus(),
    ),
    "the focus is seen",
  );
  await tab.press(keys.right);
  assert.match(await tab.text(".inspector h3"), /^Round [2-9]/);
  await tab.press(keys.home);
  await tabTo("Round after");
  await tab.press(keys.enter);
  assert.equal(await tab.text(".inspector h3"), "Round 2");
  assert.ok(
    await tab.evaluate(() =>
      document.querySelector(".inspector")?.contains(document.activeElement),
    ),
    "the focus stays in the panel",
  );
  await tabTo("models");
  await tab.press(keys.enter);
  await tab.shown("#models-dialog[open]");
  await tab.press(keys.escape);
  await tab.until(() => document.querySelector("#models-dialog[open]") === null);
  assert.equal(await tab.evaluate(focused), "models", "the focus is back where it was");
  await visit.clean();
});

inEach("where a visitor lets pages store nothing the page answers all the same", async (visit) => {
  const before = `
    const refuse = (name) => () => { throw new DOMException(name, "SecurityError"); };
    for (const name of ["caches", "localStorage"])
      Object.defineProperty(globalThis, name, { get: refuse(name) });
    Object.defineProperty(Navigator.prototype, "serviceWorker", { get: refuse("serviceWorker") });`;
  await visit.arrive({ before });
  assert.notEqual(await visit.answer(sum), "");
  await visit.clean();
});
