/**
 * The page on WebGPU, on SwiftShader: correct and slow, so answers have few short segments.
 * Chromium's own compiler compiles every shader of the engine.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import type { HeldPipelines } from "./held-worker.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("swiftshader");
const sum = "What is 3 + 4?";
const patience = 400_000;

async function short(visitor: Visitor, rounds: number): Promise<void> {
  await visitor.set("segmentTokens", "3");
  await visitor.set("maxRounds", String(rounds));
}

test("on a software adapter the CPU is taken by itself, and the page says why", async () => {
  const visitor = await stand.arrive();
  assert.match(
    (await visitor.page.locator("#engine").textContent()) ?? "",
    /^CPU.*software adapter/,
  );
  await visitor.leaveClean();
});

test("a first visit on WebGPU ends in an answer, under a plain warning of the software adapter", {
  timeout: 2 * patience,
}, async () => {
  const visitor = await stand.arrive({ search: "?backend=webgpu" });
  const { page } = visitor;
  assert.match((await page.locator("#engine").textContent()) ?? "", /^GPU: .*swiftshader/i);
  assert.match((await page.locator(".notice.warning").textContent()) ?? "", /software adapter/);
  await short(visitor, 2);
  assert.notEqual(await visitor.answer(sum, patience), "");
  await page.locator(".segment").first().click();
  assert.equal(
    await page.locator(".matrix tbody tr").count(),
    await page.locator(".member").count(),
  );
  await visitor.answer("What is 5 + 2?", patience);
  assert.equal(await page.locator(".exchange").count(), 2);
  await visitor.leaveClean();
});

test("a member whose load is stopped while its kernels are built stays out until asked again", {
  timeout: patience,
}, async (t) => {
  t.after(() => putNothingBeforeWorker(stand.site));
  await putBeforeWorker(stand.site, "held-worker.ts");
  const visitor = await stand.arrive({
    search: "?backend=webgpu",
    loaded: false,
    serviceWorkers: "block",
  });
  const { page } = visitor;
  const states = (): Promise<(string | undefined)[]> =>
    page
      .locator(".member")
      .evaluateAll((cards) => cards.map((card) => (card as HTMLElement).dataset["state"]));
  const first = page.locator(".member").first();
  await first.getByRole("button", { name: /^Stop/ }).waitFor({ timeout: patience });
  // The card may appear before the worker starts.
  const worker = page.workers()[0] ?? (await page.waitForEvent("worker"));
  await worker.evaluate(() => (globalThis as unknown as { held: HeldPipelines }).held.asked);
  assert.equal((await states())[0], "loading");
  await first.getByRole("button", { name: /^Stop/ }).click();
  await page.locator('.member[data-state="stopped"]').waitFor(); // No kernel has been built yet.
  await worker.evaluate(() => (globalThis as unknown as { held: HeldPipelines }).held.release());
  await page.locator('.member[data-state="ready"]').nth(1).waitFor({ timeout: patience });
  assert.deepEqual(await states(), ["stopped", "ready", "ready"]);
  await first.getByRole("button", { name: /^Go on/ }).click();
  await page.locator('.member[data-state="ready"]').nth(2).waitFor({ timeout: patience });
  await short(visitor, 1);
  assert.notEqual(await visitor.answer(sum, patience), "");
  await visitor.leaveClean();
});

test("a device lost in mid-answer is opened anew; lost again, the text stays, the CPU goes on", {
  timeout: 3 * patience,
}, async () => {
  const visitor = await stand.arrive({
    search: "?backend=webgpu&debug",
  });
  const { page } = visitor;
  await short(visitor, 40);
  await visitor.set("seed", "1");
  await visitor.when(
    () => document.querySelector(".segment") !== null,
    () =>
      void (
        window as unknown as { conclave: { loseDevice(): Promise<void> } }
      ).conclave.loseDevice(),
  );
  await visitor.ask("Tell me a short story about a fox.");
  await page
    .locator(".notice.warning", { hasText: "The engine failed and was reopened" })
    .waitFor({ timeout: patience });
  const before = await visitor.text();
  await page.waitForFunction(
    (before) =>
      [...document.querySelectorAll(".segment")].map((segment) => segment.textContent).join("")
        .length > before.length,
    before,
    { timeout: patience },
  );
  assert.ok(
    (await visitor.text()).startsWith(before),
    "the answer continues after the text so far",
  );
  await page.evaluate(
    () =>
      void (
        window as unknown as { conclave: { loseDevice(): Promise<void> } }
      ).conclave.loseDevice(),
  );
  const failure = page.locator(".exchange .failure");
  await failure.locator('[data-kind="DeviceLost"]').waitFor({ timeout: patience });
  const kept = await visitor.text();
  assert.notEqual(kept, "");
  await failure.getByText("Reload on the CPU").click();
  await visitor.state("ready");
  assert.match((await page.locator("#engine").textContent()) ?? "", /^CPU/);
  assert.equal(await visitor.text(), kept);
  await short(visitor, 2);
  assert.notEqual(await visitor.answer(sum), "");
  await visitor.leave();
});

test("every shader compiles in Chromium without a complaint", { timeout: patience }, async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu" });
  const { compiled, complaints } = await visitor.page.evaluate(async () => {
    interface Shaders {
      default(input: { module_or_path: URL }): Promise<unknown>;
      shaders(): [string, string][];
    }
    interface Device {
      createShaderModule(descriptor: { code: string }): {
        getCompilationInfo(): Promise<{
          messages: Iterable<{ type: string; message: string; lineNum: number }>;
        }>;
      };
    }
    interface WebGpu {
      requestAdapter(): Promise<{ requestDevice(): Promise<Device> } | null>;
    }
    const address = new URL("./pkg/conclave.js", document.baseURI);
    const engine = (await import(address.href)) as Shaders;
    await engine.default({ module_or_path: new URL("./conclave_bg.wasm", address) });
    const adapter = await (navigator as unknown as { gpu: WebGpu }).gpu.requestAdapter();
    // With default limits, which every device has.
    const device = await adapter!.requestDevice();
    const complaints: string[] = [];
    const names: string[] = [];
    for (const [name, code] of engine.shaders()) {
      names.push(name);
      const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
      for (const { type, message, lineNum } of messages)
        complaints.push(`${name}:${lineNum} ${type}: ${message}`);
    }
    return { compiled: names, complaints };
  });
  assert.ok(compiled.length >= 5, `only ${compiled.length} shaders`);
  assert.deepEqual(complaints, []);
  await visitor.leave();
});
