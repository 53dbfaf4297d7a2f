/** Storage in these browsers: models of the hub, and the page itself for offline visits. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, beforeEach } from "node:test";
import { runBeforeWorker } from "../browser/before-worker.ts";
import { dist } from "../browser/stage.ts";
import { Hub } from "../hub.ts";
import { eventually, type Visit } from "./visit.ts";
import { inEachBrowser } from "./stand.ts";

const inEach = inEachBrowser();
const sum = "What is 347 + 586?";
const reference = "hf:makers/ada-GGUF/ada.gguf";
let hub: Hub;
let bytes = 0;
before(async () => {
  hub = await Hub.start();
  const data = await readFile(`${dist}members/ada.gguf`);
  bytes = data.length;
  await hub.put("makers/ada-GGUF/ada.gguf", data);
});
after(() => hub.stop());
beforeEach(() => hub.reset());

const search = (): string => `?debug&hub=${encodeURIComponent(hub.address)}`;

/** Leaves the model of the hub as the only member. */
async function choose(visit: Visit): Promise<void> {
  await visit.enter(reference);
  await visit.alone();
}

const told = (visit: Visit): Promise<string> => visit.tab.text("#models-dialog .description");

inEach(
  "a model of the hub is stored, and there after a reload, whatever the visitor answers",
  async (visit) => {
    const { tab } = visit;
    // Firefox asks the visitor whether to persist storage, and here never gets an answer.
    const before = `
      globalThis.asked = 0;
      StorageManager.prototype.persist = () => (asked++, new Promise(() => {}));`;
    await visit.arrive({ search: search(), before });
    await choose(visit);
    assert.equal(await tab.evaluate(() => (globalThis as unknown as { asked: number }).asked), 1);
    assert.match(await told(visit), /they are checked and kept in this browser/);
    assert.equal(await hub.sent(), bytes, "every byte once");
    const answer = await visit.answer(sum);
    assert.notEqual(answer, "");

    await hub.reset();
    visit.prepare(
      "StorageManager.prototype.persisted = async () => true; " +
        "StorageManager.prototype.persist = () => Promise.reject(globalThis.asked = true);",
    );
    await tab.open(visit.site.address + search());
    await visit.state("ready");
    assert.deepEqual(await visit.members(), ["ada"]);
    assert.notEqual(await visit.answer(sum), "");
    assert.deepEqual(await hub.seen(), [], "nothing is asked of the hub");
    assert.equal(
      await tab.evaluate(() => "asked" in globalThis),
      false,
      "and nothing of a visitor who has agreed",
    );
  },
  "Firefox",
);

inEach(
  "a picked file is copied when that is asked for, and there after a reload",
  async (visit) => {
    const { tab } = visit;
    await visit.arrive();
    await visit.models();
    const input = "#models-dialog .add-files input:not([webkitdirectory])";
    await tab.pick(input, `${dist}members/quill.gguf`);
    await visit.alone();
    await visit.offered();
    await tab.picture(`${visit.browser} copy offered`);
    await visit.press("Keep a copy");
    await tab.says(".notice", "quill is kept in this browser");
    await tab.reload();
    await visit.state("ready");
    assert.deepEqual(await visit.members(), ["quill"]);
    assert.notEqual(await visit.answer(sum), "");
    await visit.clean();
  },
  "Firefox",
);

inEach(
  "where the browser gives the page no place, a model stays in memory, and that is said",
  async (visit) => {
    const { tab } = visit;
    // WebKitGTK has no private files; in other windows they exist, but can't be opened for writing.
    runBeforeWorker(
      visit.site,
      "if (globalThis.FileSystemFileHandle) " +
        "FileSystemFileHandle.prototype.createSyncAccessHandle = async () => " +
        '{ throw new DOMException("not here", "NotSupportedError"); };',
    );
    await visit.arrive({ search: search() });
    await choose(visit);
    assert.notEqual(await visit.answer(sum), "");
    await visit.models();
    assert.match(await told(visit), /held in memory as long as the page is open/);
    assert.match(
      await tab.text("#stored-summary"),
      /no place to keep models: they are fetched anew at each visit/,
    );
    // The next visit has the toys, and fetches nothing unasked.
    await hub.reset();
    await tab.reload();
    await visit.state("ready");
    assert.deepEqual(await visit.members(), ["Ada", "Quill", "Juno"]);
    assert.match(await tab.text("#notices"), /one model is missing/);
    assert.deepEqual(await hub.seen(), []);
  },
);

inEach(
  "what the browser gives no room for is told in a sentence, with a way on, and nothing waits",
  async (visit) => {
    const { tab } = visit;
    runBeforeWorker(
      visit.site,
      "FileSystemSyncAccessHandle.prototype.write = () => " +
        '{ throw new DOMException("full", "QuotaExceededError"); };',
    );
    await visit.arrive({ search: search() });
    await visit.enter(reference);
    await tab.says(
      '.member .failure [role="alert"]',
      "Delete stored models or free disk space, then try again.",
    );
    await tab.picture(`${visit.browser} no room`);
    assert.notEqual(await visit.answer(sum), "", "the others answer");
  },
  "Firefox",
);

inEach("after one visit the page opens and answers with the network off", async (visit) => {
  const { tab } = visit;
  await visit.arrive();
  await visit.offlineCopy();
  visit.site.close();
  await eventually("the host is gone", () =>
    fetch(visit.site.address).then(
      () => false,
      () => true,
    ),
  );
  await tab.reload();
  await visit.state("ready");
  assert.match(await visit.answer(sum), /933/);
});
