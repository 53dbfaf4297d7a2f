/**
 * Two published models as people have them, an instruction-tuned one and a base model without a chat
 * template: picked as files, then fetched from the hub on this machine, kept, and used with the
 * network off. `cargo xtask test --only real` fetches them and says where they are.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { dist, stage } from "../browser/stage.ts";
import { Visitor } from "../browser/visitor.ts";
import { Hub } from "../hub.ts";

// On the CPU a browser runs them some times faster than on a software GPU.
const stand = stage("none");
const question = "What is the capital of France?";
const followUp = "And what is the capital of Italy?";
/** Hundreds of megabytes are read, checked and run. */
const minutes = 600_000;

const folder = process.env["CONCLAVE_PUBLISHED"] ?? "";
const models = [
  { key: "smollm2-135m", file: "SmolLM2-135M-Instruct.Q4_1.gguf", name: "SmolLM2 135M" },
  { key: "gemma-3-270m", file: "gemma-3-270m-q4_k_m.gguf", name: "Gemma 3 270M" },
];
const refOf = ({ key, file }: { key: string; file: string }): string => `hf:makers/${key}-GGUF/${file}`;

before(() => assert.notEqual(folder, "", "CONCLAVE_PUBLISHED names no folder: run `cargo xtask test --only real`"));

/** Words, and nothing that belongs to a model's inside: no control token, no role of the next turn, no half character. */
function assertPlain(answer: string): void {
  assert.match(answer, /\p{L}{2}/u, "an answer has words");
  assert.doesNotMatch(answer, /<\|[^|>]*\|?>|<(start|end)_of_\w+>|<\/?s>|<(bos|eos|pad|unk|mask|unused\d+)>/i, "control text");
  assert.doesNotMatch(answer, /^\s*(user|assistant|system|human|ai|model)\s*:/im, "a role marker");
  assert.doesNotMatch(answer, /\ufffd/, "half a character");
}

/** A question and a follow-up, each with its answer. */
async function converse(visitor: Visitor): Promise<string[]> {
  await visitor.set("seed", "1");
  await visitor.set("maxRounds", "5");
  const answers = [await visitor.answer(question, minutes), await visitor.answer(followUp, minutes)];
  assert.equal(await visitor.page.locator(".exchange .notice.error, .exchange [role=alert]").count(), 0);
  for (const answer of answers) console.log(JSON.stringify(answer));
  answers.forEach(assertPlain);
  assert.equal(await visitor.page.locator(".legend li").count(), 2 * answers.length, "both have answered");
  return answers;
}

test("picked as files they answer a question and a follow-up in plain text", { timeout: minutes }, async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "?backend=cpu" });
  const { page } = visitor;
  const toys = page.locator(".takes-part input:checked");
  await toys.evaluateAll((boxes: HTMLInputElement[]) => boxes.forEach((box) => box.click()));
  await visitor.pick(models.map(({ file }) => join(folder, file)));
  for (const { file } of models) {
    const card = page.locator(".member", { hasText: file.replace(".gguf", "") });
    await card.and(page.locator('[data-state="ready"]')).waitFor({ timeout: minutes });
    await card.getByRole("checkbox").check();
  }
  await visitor.state("ready");
  await converse(visitor);
  visitor.clean();
  await visitor.leave();
});

test("fetched and kept, they answer the same with the network off", { timeout: 2 * minutes }, async () => {
  const hub = await Hub.start();
  after(() => hub.stop());
  for (const model of models) await hub.put(refOf(model).slice("hf:".length), await readFile(join(folder, model.file)));
  // The page's own entries, but for where the files lie.
  const known = JSON.parse(await readFile(`${dist}catalogue.json`, "utf8")) as { models: Record<string, object> };
  const listed = models.map((model) => [model.key, { ...known.models[model.key], ref: refOf(model) }]);
  const ensembles = [{ name: "Published", description: "Two that people have.", members: models.map(({ key }) => key) }];
  stand.site.rebuild("catalogue.json", JSON.stringify({ models: Object.fromEntries(listed), ensembles }));

  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: `?backend=cpu&debug&hub=${encodeURIComponent(hub.address)}` });
  const { page } = visitor;
  const names = (): Promise<string[]> => page.locator('.member[data-state="ready"] .name').allTextContents();
  await visitor.models();
  await page.locator('[data-ensemble="Published"] button').click();
  await page.locator("#ensemble", { hasText: "Published" }).waitFor();
  await visitor.state("ready", minutes);
  assert.deepEqual(
    await names(),
    models.map(({ name }) => name),
  );
  const online = await converse(visitor);
  await visitor.offlineCopy();

  await hub.reset();
  await page.context().setOffline(true);
  await page.reload();
  await visitor.state("ready", minutes);
  assert.deepEqual(
    await names(),
    models.map(({ name }) => name),
  );
  assert.deepEqual(await converse(visitor), online);
  assert.deepEqual(await hub.seen(), []);
  await visitor.leave();
});
