/**
 * A trap in the engine's module, which all members on the GPU share, and each has its own of on the
 * CPU: the page starts another.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";

const stand = stage("swiftshader");

/** A real trap in place of a worker's call of this number of one of the module's functions. */
const trapping = (name: string, call: number): string => `
  // A module whose one function, "t", is (unreachable).
  const trap = new WebAssembly.Instance(new WebAssembly.Module(Uint8Array.of(
    0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0,
    7, 5, 1, 1, 116, 0, 0, 10, 5, 1, 3, 0, 0, 11))).exports.t;
  let calls = 0;
  const replaced = ({ exports }) => ({
    exports: exports.${name}
      ? {
          ...exports,
          ${name}: (...given) => (++calls === ${call} ? trap() : exports.${name}(...given)),
        }
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
  runBeforeWorker(stand.site, trapping("engine_load", 4));
  const visitor = await stand.arrive({ search: "?backend=webgpu", serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  const answer = await visitor.answer("What is 347 + 586?");
  // Ticked, so that they stay beside a model of the visitor's own.
  for (const box of await page.locator(".member .takes-part input").all()) {
    await box.uncheck();
    await box.check();
  }
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

test("an engine that traps in an answer restarts and goes on; after another trap by a press", {
  timeout: 400_000,
}, async () => {
  runBeforeWorker(stand.site, trapping("member_draft", 4));
  const visitor = await stand.arrive({ search: "?backend=webgpu", serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "3");
  await visitor.set("maxRounds", "1");
  const earlier = await visitor.answer("What is 347 + 586?");
  await visitor.set("maxRounds", "4");
  await visitor.ask("Tell me a short story about a fox.");

  // The first trap: another engine goes on with the answer.
  const notice = page.locator(".notice.warning", { hasText: "The engine failed" });
  await notice.waitFor();
  assert.match(
    (await notice.textContent()) ?? "",
    /was reopened.*the answer goes on from where it was/,
  );
  // That one traps as well: why is told, and nothing is lost.
  const exchange = page.locator(".exchange").last();
  const alert = exchange.locator(".failure [role=alert]");
  await alert.waitFor();
  await visitor.state("ready");
  assert.match((await alert.textContent()) ?? "", /: The engine stopped by a fault of its own/);
  const partial = await visitor.text();
  assert.notEqual(partial, "");
  await page.locator("#question").fill("And then?");

  // The page works as it is: the answer goes on, and so does the conversation.
  putNothingBeforeWorker(stand.site);
  await exchange.getByRole("button", { name: "Continue", exact: true }).click();
  await visitor.state("answering");
  await visitor.state("ready");
  assert.equal(await alert.count(), 0);
  const whole = await visitor.text();
  assert.ok(whole.startsWith(partial) && whole.length > partial.length, `${partial} | ${whole}`);
  assert.equal(await page.locator("#question").inputValue(), "And then?");
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer("What is 3 + 4?"), "");
  await page.reload();
  await visitor.state("ready");
  const answers = page.locator(".exchange .answer");
  assert.equal(await answers.count(), 3, "all of it is kept");
  assert.equal(await answers.first().textContent(), earlier);
  assert.equal(await answers.nth(1).textContent(), whole);
  await visitor.leaveClean();
});

test("a member whose thread traps leaves the answer to others, and is there for the next", {
  timeout: 200_000,
}, async () => {
  runBeforeWorker(stand.site, trapping("member_draft", 3), "conclave member");
  const visitor = await stand.arrive({ search: "?backend=cpu", serviceWorkers: "block" });
  const { page } = visitor;
  putNothingBeforeWorker(stand.site); // Its next thread is the page's own.
  await visitor.set("seed", "11");
  await visitor.set("segmentTokens", "3");
  await visitor.set("maxRounds", "8");
  const first = await visitor.answer("Tell me a short story about a fox.");
  assert.notEqual(first, "");
  const left = page.locator(".leaving [data-kind=Engine]").first();
  assert.match(
    (await left.textContent()) ?? "",
    /^(Ada|Quill|Juno) left in round \d, the others go on: A fault of the engine ended its thread/,
  );
  // The engine starts again by itself, with all members.
  assert.notEqual(await visitor.answer("What is 3 + 4?"), "");
  await page
    .locator(".notice.warning", { hasText: "The engine failed and was reopened" })
    .waitFor();
  assert.equal(await page.locator(".exchange").last().locator(".leaving p").count(), 0);
  assert.equal(await page.locator(".member.left").count(), 0);
  assert.equal(await page.locator(".exchange .answer").first().textContent(), first);
  await visitor.leaveClean();
});
