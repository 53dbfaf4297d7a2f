/**
 * The open core in a real Chromium, on SwiftShader: the same numbers as the fused kernels and as
 * burn on the CPU, members of both cores in one answer, and no request for its module unless
 * needed.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Report } from "../../src/bench/report.ts";
import { putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { writeRecitingFolder } from "./reciting-folder.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("swiftshader");
const patience = 600_000;

/** Addresses requested so far, without the site's. */
function asked(visitor: Visitor): string[] {
  const paths: string[] = [];
  visitor.page
    .context()
    .on("request", (request) => void paths.push(new URL(request.url()).pathname));
  return paths;
}

test("the fused kernels, burn on this GPU and burn on the CPU agree to a thousandth", {
  timeout: patience,
}, async () => {
  const visitor = await stand.arrive({
    search: "bench.html?check",
    loaded: false,
    serviceWorkers: "block",
  });
  await visitor.page
    .locator('body[data-state="done"], body[data-state="failed"]')
    .waitFor({ timeout: patience });
  const report = JSON.parse((await visitor.page.locator("#report").textContent()) ?? "") as Report;
  assert.equal(report.failure, undefined);
  assert.equal(report.check!.members.length, 3);
  for (const { name, tokens, largest, likeliest, fused, burn } of report.check!.members) {
    assert.ok(tokens > 10 && largest > 1, `${name}: ${tokens} tokens, ${largest}`);
    assert.ok(
      fused !== null && fused <= 1e-3 && burn !== null && burn <= 1e-3,
      `${name}: ${fused} and ${burn}`,
    );
    assert.ok(fused > 0 && burn > 0, `${name}: not the same numbers thrice`);
    assert.deepEqual([likeliest.fused, likeliest.burn], [likeliest.cpu, likeliest.cpu], name);
  }
  assert.match((await visitor.page.locator("#results").textContent()) ?? "", /computes correctly/);
  await visitor.leaveClean();
});

test("an ordinary visit asks for nothing of the open core; ?core=burn answers by it", {
  timeout: patience,
}, async () => {
  const plain = await stand.arrive({
    search: "?backend=cpu",
    loaded: false,
  });
  const paths = asked(plain);
  await plain.state("ready");
  await plain.offlineCopy();
  await plain.answer("What is 3 + 4?", patience);
  assert.ok(
    paths.some((path) => path.endsWith("/members/members.json")),
    "requests are seen",
  );
  assert.deepEqual(
    paths.filter((path) => path.includes("open-core")),
    [],
  );
  await plain.leave();

  const visitor = await stand.arrive({
    search: "?backend=webgpu&core=burn",
    loaded: false,
  });
  await visitor.state("ready", patience);
  assert.match(
    (await visitor.page.locator(".member .about").first().textContent()) ?? "",
    /runs on the open core$/,
    "what it adds to a download is told until it is here",
  );
  await visitor.set("segmentTokens", "3");
  await visitor.set("maxRounds", "2");
  assert.notEqual(await visitor.answer("What is 3 + 4?", patience), "");
  await visitor.leaveClean();
});

test("members of both cores draft, verify and keep in one answer", {
  timeout: patience,
}, async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu&debug" });
  const told = await visitor.page.evaluate(async () => {
    const { Conclave, readManifest, sourceOf } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as typeof import("../../src/library/conclave.ts");
    const list = new URL("./members/members.json", document.baseURI);
    const [first, second] = (await readManifest(list)).map((entry) => sourceOf(entry, list));
    const conclave = await Conclave.load({
      backend: "webgpu",
      members: [first!, { ...second!, core: "burn" }],
    });
    const cores = conclave.members.map(({ core }) => core);
    const scores: number[][] = [];
    let text = "";
    const settings = { segmentTokens: 4, maxRounds: 2 };
    for await (const event of conclave.ask([{ role: "user", content: "What is 3 + 4?" }], {
      settings,
      sampling: { temperature: 0, seed: 1 },
    })) {
      if (event.type === "round") {
        text += event.text;
        scores.push(...event.scores.map((row) => row.map(({ meanLogprob }) => meanLogprob ?? NaN)));
      }
    }
    conclave.close();
    return { cores, scores, text };
  });
  assert.deepEqual(told.cores, ["fused", "burn"]);
  assert.notEqual(told.text, "");
  // Every member scored every candidate.
  assert.ok(
    told.scores.length >= 2 &&
      told.scores.flat().every((score) => Number.isFinite(score) && score <= 0),
    JSON.stringify(told.scores),
  );
  await visitor.leave();
});

test("a panic of the open core that nobody waits for is told, and no answer goes on for ever", {
  timeout: patience,
}, async () => {
  // Rejects as the module's own promise queue does, seen by the worker alone; the request is never
  // answered.
  const panic =
    'if (data.type === "draft") { event.stopImmediatePropagation(); ' +
    'Promise.reject(new Error("unreachable")); }';
  runBeforeWorker(
    stand.site,
    `addEventListener("message", (event) => { const { data } = event; ${panic} });`,
    "conclave member",
  );
  const visitor = await stand.arrive({
    search: "?backend=cpu&core=burn",
    loaded: false,
    serviceWorkers: "block",
  });
  try {
    await visitor.state("ready", patience);
    await visitor.ask("What is 3 + 4?");
    const alert = visitor.page.locator(".failure [role=alert]");
    await alert.waitFor();
    assert.match((await alert.textContent()) ?? "", /unreachable/);
    assert.match(
      (await visitor.page.locator(".member .about").first().textContent()) ?? "",
      /open core/,
    );
  } finally {
    putNothingBeforeWorker(stand.site);
    await visitor.leave();
  }
});

test("a model whose heads no kernel reads goes to the open core, and answers beside the toys", {
  timeout: patience,
}, async () => {
  const folder = await mkdtemp(join(tmpdir(), "conclave-core-"));
  try {
    const path = join(folder, "Reciter");
    await writeRecitingFolder(path, "It works.", { headDim: 6 });
    const visitor = await stand.arrive({ search: "?backend=webgpu" });
    const { page } = visitor;
    await visitor.ownToys();
    await visitor.pickFolder(path);
    const card = page.locator(".member", { has: page.getByText("Reciter", { exact: true }) });
    await card.and(page.locator('[data-state="ready"]')).waitFor({ timeout: patience });
    assert.match((await card.locator(".about").textContent()) ?? "", /open core/);
    assert.doesNotMatch(
      (await page.locator(".member .about").first().textContent()) ?? "",
      /open core/,
      "the toys stay where they are",
    );
    await visitor.only(card);
    assert.equal(await visitor.answer("What do you say?", patience), "It works.");
    await visitor.leaveClean();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
