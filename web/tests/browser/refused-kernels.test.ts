/**
 * An adapter whose driver refuses one of our kernels: its safe twin replaces it; without one, that
 * is reported and the CPU offered.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { putBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";
import type { Watch, Watched } from "./watched-worker.ts";

const stand = stage("swiftshader");
const sum = "What is 3 + 4?";
const patience = 400_000;

async function arrive(watch: Watch, loaded = true): Promise<Visitor> {
  await putBeforeWorker(stand.site, "watched-worker.ts", watch);
  const visitor = await stand.arrive({
    search: "?backend=webgpu",
    serviceWorkers: "block",
    loaded,
  });
  await visitor.set("segmentTokens", "3");
  await visitor.set("maxRounds", "1");
  await visitor.set("temperature", "0");
  return visitor;
}

/** The answer when no kernel is refused. */
let answer: string | undefined;
async function usual(): Promise<string> {
  if (answer === undefined) {
    const visitor = await arrive({});
    answer = await visitor.answer(sum, patience);
    const { launched, refused } = await watched(visitor);
    assert.deepEqual(refused, []);
    for (const kernel of ["product_block_serial_q8_0", "attention_serial"])
      assert.ok((launched[kernel] ?? 0) > 0, `${kernel} is launched as a rule`);
    await visitor.leave();
  }
  assert.notEqual(answer, "");
  return answer;
}

const watched = (visitor: Visitor): Promise<Watched> =>
  visitor.page
    .workers()[0]!
    .evaluate(() => (globalThis as unknown as { watched: Watched }).watched);

for (const { refuse, instead } of [
  {
    refuse: ["product_block_serial_q8_0"],
    instead: ["product_block_q8_0", "product_vector_q8_0", "attention"],
  },
  { refuse: ["product_block_serial_q8_0", "product_block_q8_0"], instead: ["product_vector_q8_0"] },
  { refuse: ["attention_serial"], instead: ["attention", "attention_combine"] },
  { refuse: ["attention_serial", "attention_combine"], instead: ["attention"] },
]) {
  test(`without ${refuse.join(" and ")} there is the same answer`, {
    timeout: patience,
  }, async () => {
    const visitor = await arrive({ refuse });
    assert.equal(await visitor.answer(sum, patience), await usual());
    const { launched, refused } = await watched(visitor);
    assert.deepEqual(new Set(refused), new Set(refuse));
    for (const kernel of refuse) assert.equal(launched[kernel], undefined, kernel);
    for (const kernel of instead)
      assert.ok(
        (launched[kernel] ?? 0) > 0,
        `${kernel} is not among ${Object.keys(launched).join(", ")}`,
      );
    await visitor.leaveClean();
  });
}

test("a kernel without a twin is named with the adapter, and the CPU answers", {
  timeout: patience,
}, async () => {
  const visitor = await arrive({ refuse: ["embed_q8_0"] }, false);
  const { page } = visitor;
  const notice = page.locator('.notice.error[data-key="engine"]');
  await notice.waitFor({ timeout: patience });
  assert.match(
    (await notice.locator("p").first().textContent()) ?? "",
    /^the GPU "[^"]*swiftshader[^"]*" does not run a kernel as it should \(embed_q8_0: .*The compiler gave up.*; run on the CPU backend/i,
  );
  await page.locator('.member .failure [data-kind="NoGpu"]').nth(2).waitFor();
  assert.equal(await page.locator('.member[data-state="ready"]').count(), 0);
  await notice.getByRole("button", { name: "Reload on the CPU" }).click();
  await visitor.state("ready");
  await visitor.set("temperature", "0");
  assert.notEqual(await visitor.answer(sum), "");
  await visitor.leaveClean();
});
