/** The bench page, on the CPU: a complete run, a cancelled one, and invalid addresses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Report } from "../../src/bench/report.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const patience = 240_000;

async function visit(query: string): Promise<Visitor> {
  return stand.arrive({
    search: `bench.html?${query}`,
    loaded: false,
  });
}

async function reportOf({ page }: Visitor, state: "done" | "failed"): Promise<Report> {
  await page.locator(`body[data-state="${state}"]`).waitFor({ timeout: patience });
  return JSON.parse((await page.locator("#report").textContent()) ?? "") as Report;
}

test("a run on random weights ends in tables and a report", { timeout: patience }, async () => {
  const visitor = await visit(
    "models=tiny:Q4_0&backend=cpu&ensembles=1,2&drafting=all,leader" +
      "&prefixes=64&segmentTokens=6&repeats=2&start",
  );
  const { surroundings, workloads, failure } = await reportOf(visitor, "done");
  assert.equal(failure, undefined);
  assert.deepEqual(
    [surroundings?.backend, surroundings?.adapter.software, workloads.length],
    ["cpu", false, 1],
  );
  const [workload] = workloads;
  assert.equal(workload!.members.length, 2);
  assert.deepEqual(workload!.leftOut, []);
  for (const { prefix, prefill, firstTokenMs, draftStep, verify } of workload!.members) {
    assert.deepEqual(
      [prefix, prefill.tokens, verify.tokens],
      [64, 64, 20],
      "text of the bench is a token a word",
    );
    const spreads = [prefill.ms, firstTokenMs, draftStep.ms, verify.ms];
    assert.deepEqual(
      spreads.map((spread) => spread?.count),
      [2, 2, 2, 2],
    );
    assert.ok(firstTokenMs!.median > prefill.ms!.median, "the first token follows the prompt");
    assert.equal(draftStep.counts?.dispatches ?? 0, 0, "the CPU asks nothing of WebGPU");
  }
  const [round, led] = workload!.rounds;
  assert.deepEqual([round!.members, round!.drafting, round!.prefix], [2, "all", 64]);
  assert.ok(
    round!.ms!.median > 0 && round!.firstSegmentMs!.median > round!.ms!.median,
    "the first segment waits for the prompt",
  );
  // Both draft 6 tokens; each runs 5 of its own, and those of the other's that were left after
  // cutting to whole words.
  assert.ok(round!.tokensDue > 5 && round!.tokensDue <= 5 + 6, String(round!.tokensDue));
  assert.ok(
    round!.tokensRun >= 5 && round!.tokensRun <= round!.tokensDue + 1,
    String(round!.tokensRun),
  );
  // One drafts, and the other only reads that.
  assert.equal(led!.drafting, "leader");
  assert.ok(
    led!.tokensDue > 2.5 &&
      led!.tokensDue <= (5 + 6) / 2 &&
      led!.tokensDue < 0.75 * round!.tokensDue,
    String(led!.tokensDue),
  );
  assert.ok(led!.tokensRun >= 2.5 && led!.tokensRun <= led!.tokensDue + 1, String(led!.tokensRun));
  const told = workload!.figures.map(({ what, of }) => `${of}: ${what}`);
  assert.ok(
    told.some((line) => /1: verify pass of 20 tokens/.test(line)) &&
      told.some((line) => /^2 members: round \/ /.test(line)),
    told.join("\n"),
  );
  assert.equal(await visitor.page.locator("#results table").count(), 3);
  const saved = visitor.page.waitForEvent("download");
  await visitor.page.locator("#download").click();
  assert.match((await saved).suggestedFilename(), /^conclave-bench-.*\.json$/);
  await visitor.leaveClean();
});

test("one sentence tells the speed to anyone, and is copied by one press", {
  timeout: patience,
}, async () => {
  const visitor = await visit(
    "models=tiny:Q4_0&backend=cpu&ensembles=1&drafting=all" +
      "&prefixes=64&segmentTokens=6&repeats=3&start",
  );
  const { page } = visitor;
  const { workloads } = await reportOf(visitor, "done");
  const { low, median, high } = workloads[0]!.members[0]!.draftStep.ms!;
  const told = (await page.locator("#headline-text").textContent()) ?? "";
  const [, words] = /^tiny: ([\d.,]+) words a second on this machine's CPU$/.exec(told) ?? [];
  const rate = Number(words?.replaceAll(",", ""));
  assert.ok(
    Math.abs((rate * median) / 750 - 1) < 0.06,
    `${told}: three words are four steps of ${median} ms (${low}–${high})`,
  );
  assert.match(
    (await page.locator("#headline-note").textContent()) ?? "",
    /^Measured: [\d.,]+ tokens a second \([\d.,]+–[\d.,]+\) after 64 tokens, in Q4_0\./,
  );
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("button", { name: "Copy the sentence" }).press("Enter");
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), told);
  await visitor.faultless();
  await visitor.leaveClean();
});

test("one press measures what this machine has, and ends in a sentence", {
  timeout: patience,
}, async () => {
  const visitor = await visit("");
  const { page } = visitor;
  const start = page.getByRole("button", { name: "Measure" });
  assert.match((await page.locator("main > p").first().textContent()) ?? "", /^One press measures/);
  await page.locator("#size", { hasText: "Measured on the CPU: SmolLM2 135M Q4_0." }).waitFor();
  assert.equal(await page.locator("#plan").isVisible(), false, "choices are folded");
  await visitor.faultless();
  await page.getByText("Choose what is measured").click();
  assert.equal(await page.getByLabel("GPU: none here").isDisabled(), true);
  assert.equal(await page.getByLabel("CPU", { exact: true }).isChecked(), true);
  await visitor.faultless();
  const colour = (selector: string): Promise<string> =>
    page.locator(selector).evaluate((element) => getComputedStyle(element).color);
  assert.equal(await colour(".tagline a"), await colour(".tagline"));
  await start.click();
  const { plan, failure } = await reportOf(visitor, "done");
  assert.deepEqual([plan?.backend, failure], ["cpu", undefined]);
  assert.match(
    (await page.locator("#headline-text").textContent()) ?? "",
    /^SmolLM2 135M: [\d.,]+ words? a second on this machine's CPU$/,
  );
  await visitor.leaveClean();
});

test("prefixes that no context has room for are left out, and that is told", {
  timeout: patience,
}, async () => {
  const visitor = await visit(
    "models=bundled&backend=cpu&ensembles=1&prefixes=64,7900&repeats=1&limitSeconds=0&start",
  );
  const { workloads } = await reportOf(visitor, "done");
  assert.deepEqual(workloads[0]!.leftOut, [7900]);
  assert.equal(workloads[0]!.members.length, 1);
  await visitor.page
    .locator("#results p", { hasText: "Prefixes of 7,900 tokens were left out" })
    .waitFor();
  assert.equal(workloads[0]!.gpuBytes, null, "the CPU has nothing in a GPU's buffers");
  await visitor.leaveClean();
});

test("a cancelled run says so and can be started again", { timeout: patience }, async () => {
  const visitor = await visit("models=bundled&backend=cpu&repeats=1000&start");
  const { page } = visitor;
  await page.locator("#status", { hasText: "prefix" }).waitFor({ timeout: patience });
  await page.locator("#cancel").click();
  const report = await reportOf(visitor, "failed");
  assert.match(report.failure ?? "", /cancelled/);
  assert.equal(await page.locator("#start").isEnabled(), true);
  await visitor.leave();
});

test("an address that asks for what there is not is told", async () => {
  const visitor = await visit("models=tiny:Q9&start");
  await visitor.page.locator("#failure", { hasText: "There is no model tiny:Q9" }).waitFor();
  await visitor.leave();
  const without = await visit("models=tiny:Q4_0&backend=webgpu&start");
  const { failure } = await reportOf(without, "failed");
  assert.match(failure ?? "", /NoGpu/);
  await without.leave();
});
