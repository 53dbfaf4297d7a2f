/**
 * Two published models, an instruction-tuned one and a base model without a chat template: picked
 * as files, then fetched from the hub on this machine, kept, and used offline. `cargo xtask test
 * --only real` fetches them and says where they are.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type * as library from "../../src/library/conclave.ts";
import { readableName } from "../../src/page/readable-name.ts";
import { dist, stage } from "../browser/stage.ts";
import { launchIn, Visitor } from "../browser/visitor.ts";
import { Hub } from "../hub.ts";

// A browser runs them some times faster on the CPU than on a software GPU.
const stand = stage("none");
const question = "What is the capital of France?";
const followUp = "And what is the capital of Italy?";
/** Hundreds of megabytes are read, verified and run. */
const minutes = 600_000;

const folder = process.env["CONCLAVE_PUBLISHED"] ?? "";
const models = [
  { key: "smollm2-135m", file: "SmolLM2-135M-Instruct.Q4_1.gguf", name: "SmolLM2 135M" },
  { key: "gemma-3-270m", file: "gemma-3-270m-q4_k_m.gguf", name: "Gemma 3 270M" },
];
const refOf = ({ key, file }: { key: string; file: string }): string =>
  `hf:makers/${key}-GGUF/${file}`;

before(() =>
  assert.notEqual(
    folder,
    "",
    "CONCLAVE_PUBLISHED names no folder: run `cargo xtask test --only real`",
  ),
);

/** Checks for plain words: no control token, no role of the next turn, no half character. */
function assertPlain(answer: string): void {
  assert.match(answer, /\p{L}{2}/u, "an answer has words");
  assert.doesNotMatch(
    answer,
    /<\|[^|>]*\|?>|<(start|end)_of_\w+>|<\/?s>|<(bos|eos|pad|unk|mask|unused\d+)>/i,
    "control text",
  );
  assert.doesNotMatch(answer, /^\s*(user|assistant|system|human|ai|model)\s*:/im, "a role marker");
  assert.doesNotMatch(answer, /\ufffd/, "half a character");
}

/** A question and a follow-up, each with its answer. */
async function converse(visitor: Visitor): Promise<string[]> {
  await visitor.set("seed", "1");
  await visitor.set("maxRounds", "5");
  const answers = [
    await visitor.answer(question, minutes),
    await visitor.answer(followUp, minutes),
  ];
  assert.equal(
    await visitor.page.locator(".exchange .notice.error, .exchange [role=alert]").count(),
    0,
  );
  for (const answer of answers) console.log(JSON.stringify(answer));
  answers.forEach(assertPlain);
  for (const legend of await visitor.page.locator(".legend").allTextContents())
    assert.match(legend, /^Written by .+ of \d segments?, /, "both have answered");
  return answers;
}

test("picked as files they answer a question and a follow-up in plain text", {
  timeout: minutes,
}, async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "?backend=cpu" });
  const { page } = visitor;
  await visitor.pick(models.map(({ file }) => join(folder, file)));
  for (const { file } of models) {
    const card = page.locator(".member", { hasText: readableName(file) });
    await card.and(page.locator('[data-state="ready"]')).waitFor({ timeout: minutes });
  }
  await visitor.state("ready");
  await converse(visitor);
  await visitor.leaveClean();
});

test("fetched and kept, they answer the same with the network off", {
  timeout: 2 * minutes,
}, async () => {
  const hub = await Hub.start();
  after(() => hub.stop());
  for (const model of models)
    await hub.put(refOf(model).slice("hf:".length), await readFile(join(folder, model.file)));
  // The page's own entries, with other file addresses.
  const known = JSON.parse(await readFile(`${dist}catalogue.json`, "utf8")) as {
    models: Record<string, object>;
  };
  const listed = models.map((model) => [
    model.key,
    { ...known.models[model.key], ref: refOf(model) },
  ]);
  const ensembles = [
    {
      name: "Published",
      description: "Two that people have.",
      members: models.map(({ key }) => key),
    },
  ];
  stand.site.rebuild(
    "catalogue.json",
    JSON.stringify({ models: Object.fromEntries(listed), ensembles }),
  );

  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    search: `?backend=cpu&debug&hub=${encodeURIComponent(hub.address)}`,
  });
  const { page } = visitor;
  const names = (): Promise<string[]> =>
    page.locator('.member[data-state="ready"] .name').allTextContents();
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

/** Duration of one visit in ms, and for each member the tokens of its prompt and those run. */
interface Visit {
  loadMs: number;
  segmentMs: number;
  heapBytes: number;
  prefixes: { prefix: number; run: number }[];
  answer: string;
}

/** The two, and those that `CONCLAVE_AGAIN` names: `KEY=FILE`, separated by commas. */
const kept = [
  ...models,
  ...(process.env["CONCLAVE_AGAIN"] ?? "").split(",").flatMap((named) => {
    const [key, file] = named.split("=");
    return key && file ? { key, file } : [];
  }),
];

test("who comes again has the models sooner, and reads no more than was asked", {
  timeout: minutes,
}, async () => {
  const hub = await Hub.start();
  after(() => hub.stop());
  for (const model of kept)
    await hub.put(refOf(model).slice("hf:".length), await readFile(join(folder, model.file)));
  stand.site.overrides.set(
    "again.html",
    `<!doctype html><title>Again</title><link rel="icon" href="./mark.svg">`,
  );
  const profile = await mkdtemp(join(tmpdir(), "conclave-profile-"));
  const context = await launchIn(profile, "none");
  after(async () => {
    await context.close();
    await rm(profile, { recursive: true, force: true });
  });
  const page = await context.newPage();
  /** A page of its own that loads both, asks, and stays until the prompts are kept. */
  const visit = async (): Promise<Visit> => {
    await page.goto(`${stand.site.address}again.html`);
    const asked = {
      script: new URL("library/conclave.js", stand.site.address).href,
      refs: kept.map(refOf),
      hub: hub.address,
      question,
    };
    return page.evaluate(async ({ script, refs, hub, question }) => {
      const { Conclave } = (await import(script)) as typeof library;
      const began = performance.now();
      const members = refs.map((ref) => ({ name: ref.slice(ref.lastIndexOf("/") + 1), ref }));
      const conclave = await Conclave.load({ backend: "cpu", hub, members });
      const loadMs = performance.now() - began;
      let [segmentMs, answer, prefixes] = [0, "", [] as Visit["prefixes"]];
      for await (const event of conclave.ask([{ role: "user", content: question }], {
        sampling: { seed: 1 },
        maxTokens: 12,
      })) {
        if (event.type === "begin") prefixes = event.prefixes;
        if (event.type === "round") segmentMs ||= performance.now() - began;
        if (event.type === "end") answer = event.text;
      }
      while ((await conclave.models()).models.some(({ prompts }) => prompts === 0))
        await new Promise((resolve) => setTimeout(resolve, 100));
      const { heapBytes } = conclave;
      conclave.close();
      return { loadMs, segmentMs, heapBytes, prefixes, answer };
    }, asked);
  };
  const first = await visit();
  await hub.reset();
  for (let count = 0; count < 3; count++) {
    const again = await visit();
    console.log(
      `loaded after ${Math.round(again.loadMs)} ms, ` +
        `the first segment after ${Math.round(again.segmentMs)}; ` +
        `at the first visit ${Math.round(first.loadMs)} and ${Math.round(first.segmentMs)}; ` +
        `they hold ${Math.round(again.heapBytes / 1e6)} MB`,
    );
    assert.equal(again.answer, first.answer);
    // Gemma's template begins with more than a hundred tokens of its own.
    const [before, now] = [first.prefixes[1]!, again.prefixes[1]!];
    assert.equal(before.run, before.prefix);
    assert.ok(
      now.prefix === before.prefix && now.run < before.run - 100,
      JSON.stringify({ before, now }),
    );
  }
  assert.deepEqual(await hub.seen(), [], "nothing is fetched again");
});
