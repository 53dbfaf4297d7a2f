/** A trap in the engine's module, which all members on the GPU share: the page starts another. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";

const stand = stage("swiftshader");

/** A real trap in place of the fourth load in a worker. */
const trapping = `
  // A module whose one function, "t", is (unreachable).
  const trap = new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.of(
    0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0,
    7, 5, 1, 1, 116, 0, 0, 10, 5, 1, 3, 0, 0, 11))).exports.t;
  let loads = 0;
  const replaced = ({ exports }) => ({
    exports: exports.engine_load
      ? { ...exports, engine_load: (...given) => (++loads === 4 ? trap() : exports.engine_load(...given)) }
      : exports,
  });
  for (const name of ["instantiate", "instantiateStreaming"]) {
    const original = WebAssembly[name];
    WebAssembly[name] = async (...given) => {
      const made = await original(...given);
      return made instanceof WebAssembly.Instance
        ? { instance: replaced(made), module: given[0] }
        : { ...made, instance: replaced(made.instance) };
    };
  }`;

test("a trap while a member loads leaves it out, and the engine starts again by itself", {
  timeout: 300_000,
}, async () => {
  runBeforeWorker(stand.site, trapping);
  const visitor = await stand.arrive({ search: "?backend=webgpu", serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  const answer = await visitor.answer("What is 347 + 586?");
  await visitor.keepToys();
  await page.locator("#question").fill("And what is half of it?");
  putNothingBeforeWorker(stand.site); // The next engine is the page's own.
  await visitor.pick([`${dist}members/ada.gguf`]);
  const notice = page.locator(".notice.warning", { hasText: "was started again" });
  await notice.waitFor();
  assert.match(
    (await notice.textContent()) ?? "",
    /^The engine stopped while it loaded \w+, and was started again with the other members\./,
  );
  await visitor.state("ready");
  const failed = page.locator('.member[data-state="failed"]');
  assert.equal(await failed.count(), 1);
  assert.match((await failed.textContent()) ?? "", /stopped while it loaded/);
  assert.equal(await page.locator('.member[data-state="ready"]').count(), 3);
  assert.equal(await visitor.text(), answer, "the conversation stays");
  assert.equal(await page.locator("#question").inputValue(), "And what is half of it?");
  assert.notEqual(await visitor.answer("What is 3 + 4?"), "");
  await page.getByRole("button", { name: /^Try again with/ }).click();
  await page.locator('.member[data-state="ready"]').nth(3).waitFor();
  await visitor.leaveClean();
});
