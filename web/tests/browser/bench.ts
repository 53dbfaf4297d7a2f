/**
 * Measures the workloads of a plan, one after the other, and prints tables:
 *
 * node scripts/test.mjs bench "models=bundled,SmolLM2-135M:Q4_0&prefixes=128" [--report FILE.json]
 * [--turns N] [--peer FOLDER] [--graphics hardware] [--native TOOL --gguf FOLDER [--python PATH
 * --llama-cpp SCRIPT]] [--files FOLDER]
 *
 * Runs in the built bench page in a headless Chromium, or with a built `conclave` natively. With a
 * folder of transformers.js, wllama and the same models for them, each workload also runs there, in
 * the same browser, alternately; natively llama.cpp by its Python package does. Models called
 * `files:…` are GGUF files of that folder. The tables then end with the ratios. Results already
 * in the report's file (same plan, place and turn) are not measured again.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { Browser } from "playwright-core";
import { compared } from "../../src/bench/comparison.ts";
import { nameOf, planFrom, queryOf } from "../../src/bench/plan.ts";
import type { PeerSeries, Plan, Measured, Run } from "../../src/bench/report.ts";
import { Native } from "./native.ts";
import { Peer } from "./peer.ts";
import { printed, tell } from "./printed.ts";
import { Site } from "./site.ts";
import { dist } from "./stage.ts";
import { launch } from "./visitor.ts";

/** One run of the page; throws the page's error message. */
async function runPage(browser: Browser, site: Site, plan: Plan): Promise<Measured> {
  const context = await browser.newContext({ serviceWorkers: "block" });
  try {
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && console.error(message.text()));
    await page.goto(`${site.address}bench.html?${queryOf(plan)}&start`);
    let told = "";
    const watching = setInterval(() => {
      void page
        .locator("#status")
        .textContent()
        .then(
          (now) => {
            if (now && now !== told) console.error((told = now));
          },
          () => undefined,
        );
    }, 1000);
    await page
      .locator('body[data-state="done"], body[data-state="failed"], #failure:not([hidden])')
      .first()
      .waitFor({ timeout: 0 })
      .finally(() => clearInterval(watching));
    const failure = page.locator("#failure");
    if (await failure.isVisible()) throw new Error((await failure.textContent()) ?? "it failed");
    return JSON.parse((await page.locator("#report").textContent()) ?? "") as Measured;
  } finally {
    await context.close();
  }
}

/**
 * The same workload on the other engines; their ensembles repeat the same model. llama.cpp runs on
 * the CPU only.
 */
async function runPeers(
  peer: Peer,
  { backend, models, ensembles, prefixes, segmentTokens, repeats, limitSeconds, threads }: Plan,
): Promise<Run["theirs"]> {
  const theirs: Run["theirs"] = {};
  const [each] = models;
  if (!each || each.kind === "bundled") return theirs;
  // transformers.js needs a folder, so it has no `files:` models.
  const [model, dtype, engines] =
    each.kind === "files"
      ? ([`files/${each.names[0]}`, "q4", ["llama.cpp"]] as const)
      : ([
          `${each.shape}-${each.format}`,
          each.format === "Q4_0" ? "q4" : "q8",
          ["transformers.js", "llama.cpp"],
        ] as const);
  const device = backend === "webgpu" ? "webgpu" : "wasm";
  for (const engine of engines.filter((one) => backend === "cpu" || one !== "llama.cpp")) {
    console.error(`${engine}: ${model} on ${device}`);
    const run = () =>
      peer.measure({
        engine,
        model,
        dtype,
        device,
        threads,
        members: Math.max(...ensembles),
        prefixes,
        segmentTokens,
        repeats,
        limitSeconds,
      });
    // On a busy machine llama.cpp's worker sometimes loses its thread: retried once, then left out.
    theirs[engine] = await run()
      .catch(run)
      .catch(
        (error: unknown): PeerSeries[] => (console.error(`${engine} failed: ${String(error)}`), []),
      );
    for (const { prefix, failure } of theirs[engine])
      if (failure !== undefined) console.error(`${engine}, prefix ${prefix}: ${failure}`);
  }
  return theirs;
}

/** Results of earlier runs. Throws if the file is something else. */
function keptIn(file: string | undefined): Run[] {
  if (file === undefined || !existsSync(file)) return [];
  const kept = JSON.parse(readFileSync(file, "utf8")) as Run[];
  if (
    !Array.isArray(kept) ||
    !kept.every((run) => typeof run?.turn === "number" && run.ours?.plan)
  ) {
    throw new Error(`${file} is not a report of this bench. Name another file, or remove it.`);
  }
  return kept;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    report: { type: "string" },
    turns: { type: "string", default: "1" },
    peer: { type: "string" },
    graphics: { type: "string", default: "swiftshader" },
    native: { type: "string" },
    gguf: { type: "string" },
    files: { type: "string", default: "." },
    python: { type: "string" },
    "llama-cpp": { type: "string" },
  },
});
const plan = planFrom(new URLSearchParams(positionals[0] ?? ""));
const place = values.native === undefined ? "page" : "native";
const { python, "llama-cpp": script } = values;
const native =
  values.native === undefined
    ? undefined
    : new Native(
        values.native,
        values.gguf ?? ".",
        values.files,
        python !== undefined && script !== undefined ? { python, script } : undefined,
      );
const kept = keptIn(values.report);
const site = new Site(dist, undefined, { files: values.files });
const browser = native
  ? undefined
  : await launch(values.graphics === "hardware" ? "hardware" : "swiftshader");
if (browser) await site.open();
const peer =
  browser && values.peer !== undefined
    ? await Peer.open(browser, values.peer, values.files)
    : undefined;
try {
  const runs: Run[] = [];
  const keep = (): void => {
    if (values.report === undefined) return;
    // Written atomically, in case it is interrupted.
    writeFileSync(
      `${values.report}.part`,
      JSON.stringify(
        [...kept.filter((run) => !runs.some((now) => same(now, run))), ...runs],
        undefined,
        1,
      ),
    );
    renameSync(`${values.report}.part`, values.report);
  };
  const same = (a: Run, b: Run): boolean =>
    a.turn === b.turn &&
    a.place === b.place &&
    JSON.stringify(a.ours.plan) === JSON.stringify(b.ours.plan);
  for (let turn = 0; turn < Number(values.turns); turn++) {
    for (const models of plan.models) {
      const one: Plan = { ...plan, models: [models] };
      const wanted: Run = {
        turn,
        place,
        ours: { made: "", plan: one, surroundings: null, workloads: [] },
        theirs: {},
      };
      const run = kept.find((earlier) => same(earlier, wanted)) ?? wanted;
      runs.push(run);
      if (run === wanted) {
        run.ours = native
          ? await native.measure(one, (what) => console.error(what))
          : await runPage(browser!, site, one);
        keep();
      } else console.error(`${nameOf(models)}, turn ${turn + 1}: kept in ${values.report}`);
      tell(run.ours);
      // Failed runs are repeated.
      if (Object.values(run.theirs).some((series) => series.length > 0)) continue;
      if (peer) run.theirs = await runPeers(peer, one);
      if (native) run.theirs = await native.measurePeer(one);
      keep();
    }
  }
  for (const models of plan.models) {
    const own = runs.filter((run) => nameOf(run.ours.plan.models[0]!) === nameOf(models));
    const engines = new Set(own.flatMap((run) => Object.keys(run.theirs)));
    for (const engine of engines) console.log(printed(compared(nameOf(models), engine, own)));
  }
} finally {
  await browser?.close();
  peer?.close();
  if (browser) site.close();
}
