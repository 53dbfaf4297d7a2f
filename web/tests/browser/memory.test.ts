/**
 * Memory that runs out in a real browser, by a limit on the engine's modules or on the browser's
 * process: the model is named with its need and what there is, the others go on, and so does the
 * next visit.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { writeModel } from "./generated-model.ts";
import { atMost, dataOf, limit, pagesOf } from "./limited-memory.ts";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
const shape = { hidden: 1024, heads: 16, kvHeads: 4, feedForward: 4096, vocabulary: 24_576 };
let folder = "";
let large = "";
let small = "";
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "conclave-memory-"));
  [large, small] = [join(folder, "Large.gguf"), join(folder, "Small.gguf")];
  assert.ok((await writeModel(large, { layers: 12, ...shape })) > 200e6);
  await writeModel(small, { ...shape, layers: 2, hidden: 256, feedForward: 768 });
});
after(() => rm(folder, { recursive: true }));
afterEach(() => putNothingBeforeWorker(stand.site));

/** The engine's worker, which compiles the module, and those of members have these lines first. */
function runBeforeEngine(lines: string): void {
  // Each member has a thread.
  const cores = 'Object.defineProperty(navigator, "hardwareConcurrency", { value: 4 });';
  runBeforeWorker(stand.site, lines, "conclave member");
  for (const [file, script] of stand.site.overrides)
    stand.site.overrides.set(
      file,
      `if (name === "conclave") { ${cores} ${lines} }\n${String(script)}`,
    );
}

const lack = new RegExp(
  "There is no memory for Large: it needs 221 MB and more for a conversation, and the browser " +
    "gives no more than the (\\d+) MB that are taken\\. .*What it had taken is free again, " +
    "and the other members go on\\.",
);

const card = ({ page }: Visitor, name: string, state: string) =>
  page.locator(`.member[data-state="${state}"]`, { hasText: name });

/** Lets the visitor's window for picking give a real file that the browser keeps a handle of. */
async function keepPicked(visitor: Visitor, path: string): Promise<void> {
  await visitor.offer(path);
  await visitor.page.evaluate(async () => {
    const input = document.querySelector("#offered") as HTMLInputElement;
    const file = input.files![0]!;
    const root = await navigator.storage.getDirectory();
    const handle = await root.getFileHandle(file.name, { create: true });
    await file.stream().pipeTo(await handle.createWritable());
    input.remove();
    Object.defineProperty(globalThis, "showOpenFilePicker", { value: async () => [handle] });
  });
}

async function beyondMemory(): Promise<void> {
  runBeforeEngine(atMost(150e6));
  const visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  const { page } = visitor;
  await keepPicked(visitor, large);
  const taken = await page.locator("#memory").textContent();
  await page.locator("#question").fill("What is 3 + 4?");
  await visitor.models();
  await page.locator("#models-dialog .add-files input:not([webkitdirectory])").click();
  for (const visit of ["this", "the next"]) {
    await card(visitor, "Large", "failed").waitFor();
    await visitor.state("ready");
    const said = lack.exec((await card(visitor, "Large", "failed").textContent()) ?? "");
    assert.ok(said, `${visit}: ${await card(visitor, "Large", "failed").textContent()}`);
    assert.ok(Number(said[1]) > 80 && Number(said[1]) <= 150, said[1]);
    await page.locator('.member[data-state="ready"]').nth(2).waitFor();
    assert.equal(await page.locator("#memory").textContent(), taken, "all of it is free again");
    assert.equal(await page.locator("#question").inputValue(), "What is 3 + 4?");
    if (visit === "this") await page.reload();
  }
  await page.locator("#ask").click();
  await page.locator(".exchange .segment").first().waitFor();
  await visitor.state("ready");
  // With memory for it, it is there.
  putNothingBeforeWorker(stand.site);
  await page.reload();
  await card(visitor, "Large", "ready").waitFor();
  await visitor.leaveClean();
}

test("a model beyond shared memory is named; the others answer, also at the next visit", () =>
  beyondMemory());

test("a model beyond its own memory is named; the others answer, also at the next visit", () =>
  stand.site.withoutIsolation(beyondMemory));

test("a member that finds no memory to read leaves the answer to the others, and is told", async () => {
  runBeforeEngine(atMost(300e6, { type: "begin", name: "Small" }));
  const visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.ownToys(["ada"]);
  await visitor.pick([small]);
  await card(visitor, "Small", "ready").waitFor();
  await visitor.set("maxRounds", "3");
  const long = `${"What is 3 + 4? ".repeat(40)}And 347 + 586?`;
  for (const turn of [0, 1]) {
    assert.notEqual(await visitor.answer(long), "", "ada answers");
    const exchange = page.locator(".exchange").nth(turn);
    assert.match(
      (await exchange.locator(".leaving [data-kind=OutOfMemory]").first().textContent()) ?? "",
      /^Small left in round 1, the others go on: There is no memory left for Small to go on: .*300 MB/,
    );
    await exchange.getByRole("button", { name: "Remove Small" }).first().waitFor();
  }
  // It is there for the next question, as after any failure.
  putNothingBeforeWorker(stand.site);
  await visitor.answer("What is 3 + 4?");
  assert.equal(await page.locator(".exchange").last().locator(".leaving p").count(), 0);
  assert.equal(await page.locator(".exchange .answer").count(), 3);
  await visitor.leaveClean();
});

test("a process without memory for a model: it or the next visit says why, and answers", async () => {
  runBeforeEngine("");
  let visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  const address = visitor.page.url();
  await visitor.set("maxRounds", "2");
  const answer = await visitor.answer("What is 3 + 4?");
  const crashed = visitor.page.waitForEvent("crash").then(() => true);
  const processes = await pagesOf(stand.browser);
  const taken = await Promise.all(processes.map(dataOf));
  await limit(processes, 120e6);
  // The browser may let the engine have no memory, or end the tab for want of its own.
  const failed = card(visitor, "Large", "failed");
  const picked = visitor.pick([large]).then(() => failed.waitFor());
  const dead = await Promise.race([crashed, picked.then(() => false)]).catch(() => crashed);
  if (dead) {
    // The visitor's next page may be in one of the other processes.
    await limit(await pagesOf(stand.browser), 4e9);
    const context = visitor.page.context();
    const next = { newContext: async () => context };
    await visitor.page.close();
    visitor = await Visitor.arrive(next, { address });
    assert.match(
      (await visitor.page.locator(".notice.warning").first().textContent()) ?? "",
      /^A tab with this page ended while Large was being loaded\. This visit starts without it\./,
    );
  } else {
    assert.match(
      (await failed.textContent()) ?? "",
      /There is no memory for Large: it needs 221 MB|no memory left to read Large\.gguf/,
    );
    for (const [index, process] of processes.entries()) {
      const more = (await dataOf(process)) - taken[index]!;
      assert.ok(more < 60e6, `${more} bytes more than before`);
    }
    await limit(processes, 4e9);
  }
  await visitor.state("ready");
  assert.equal(await visitor.page.locator(".exchange .answer").textContent(), answer);
  assert.notEqual(await visitor.answer("What is 5 + 8?"), "");
  await visitor.leave();
});
