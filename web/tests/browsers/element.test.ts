/** The element in a foreign page, in Firefox and in WebKit. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before } from "node:test";
import { dist } from "../browser/stage.ts";
import { putBeforeWorker } from "../browser/before-worker.ts";
import { Hub } from "../hub.ts";
import { embedded } from "./element-page.ts";
import { inEachBrowser } from "./stand.ts";

const inEach = inEachBrowser();
let hub: Hub;
before(async () => {
  hub = await Hub.start();
  for (const file of ["ada", "quill"])
    await hub.put(
      `makers/${file}-GGUF/${file}.gguf`,
      await readFile(`${dist}members/${file}.gguf`),
    );
});
after(() => hub.stop());

inEach(
  "the element answers in a page of someone else's, goes on, and begins anew",
  async (visit) => {
    const element = await embedded(visit);
    assert.match(await element.answer("What is 3 + 4?"), /7/);
    const styles = await visit.tab.evaluate(() =>
      [
        ...document.querySelector("conclave-chat")!.shadowRoot!.querySelectorAll("[part=segment]"),
      ].map((segment) => {
        const { textDecorationLine, textDecorationStyle } = getComputedStyle(segment);
        return `${segment.className} ${textDecorationLine} ${textDecorationStyle}`;
      }),
    );
    assert.ok(styles.length > 0);
    for (const style of styles)
      assert.match(
        style,
        /^(s1 underline solid|s2 underline dashed|s3 underline dotted|s0 underline double)$/,
      );
    assert.notEqual(await element.answer("And 5 + 6?"), "");
    await element.press("reset");
    assert.deepEqual(
      [await element.part("status"), await element.part("reset")],
      [undefined, undefined],
    );
  },
);

inEach("every member has a line of its own in the element", async (visit) => {
  await embedded(visit);
  const styles = await visit.tab.evaluate(() => {
    const root = document.querySelector("conclave-chat")!.shadowRoot!;
    return ["s1", "s2", "s3", "s0"].map((name) => {
      const segment = document.createElement("span");
      segment.setAttribute("part", "segment");
      segment.className = name;
      root.append(segment);
      const { textDecorationLine, textDecorationStyle } = getComputedStyle(segment);
      return `${textDecorationLine} ${textDecorationStyle}`;
    });
  });
  assert.deepEqual(styles, [
    "underline solid",
    "underline dashed",
    "underline dotted",
    "underline double",
  ]);
});

inEach(
  "an answer of the element stops when asked to, and what there is of it stays",
  async (visit) => {
    await putBeforeWorker(visit.site, "paced-worker.ts");
    const element = await embedded(visit);
    await element.ask("Tell me a short story about a fox.");
    await visit.tab.until(
      () =>
        (document.querySelector("conclave-chat")?.shadowRoot?.querySelector("[part=answer]")
          ?.textContent ?? "") !== "",
    );
    await element.press("ask");
    await element.button("Ask");
    assert.notEqual(await element.part("answer"), "");
  },
);

inEach(
  "models are downloaded with consent, which says whether the browser keeps them",
  async (visit) => {
    const { tab } = visit;
    await hub.reset();
    const element = await embedded(
      visit,
      `hub="${hub.address}" members="hf:makers/ada-GGUF/ada.gguf hf:makers/quill-GGUF/quill.gguf"`,
    );
    await element.ask("What is 3 + 4?");
    await tab.until(() =>
      document.querySelector("conclave-chat")?.shadowRoot?.querySelector("[part=consent-download]"),
    );
    await tab.picture(`${visit.browser} element consent`);
    const keeps = await tab.evaluate(() => "storage" in navigator);
    assert.match(
      (await element.part("consent")) ?? "",
      keeps
        ? /2 models have to be downloaded from 127\.0\.0\.1:\d+, 3 MB\. This browser keeps them\./
        : /3 MB\. This browser can't keep them: they are fetched anew/,
    );
    assert.equal(await hub.sent(), 0, "nothing is downloaded before");
    await element.press("consent-download");
    await element.button("Ask");
    assert.notEqual(await element.part("answer"), "");
  },
);
