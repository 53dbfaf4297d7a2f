/**
 * Runs the built bench page in a headless Chromium and prints its tables:
 *
 *     node scripts/test.mjs bench "models=bundled,SmolLM2-135M:Q4_0&prefixes=128" [--report FILE.json]
 *         [--peer FOLDER] [--turns N] [--threads N] [--graphics hardware]
 *
 * With a folder that holds transformers.js, wllama and the same models for them, the same workloads
 * run there too, in the same browser, turn about; the tables then end with the ratios.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { Browser } from "playwright-core";
import { nameOf, planFrom } from "../../src/bench/plan.ts";
import type { Plan, Report } from "../../src/bench/report.ts";
import { figure, tablesOf, type Table } from "../../src/bench/tables.ts";
import { compared, type Turn } from "./comparison.ts";
import { Peer } from "./peer.ts";
import type { PeerSeries } from "./peer-page.ts";
import { Site } from "./site.ts";
import { dist } from "./stage.ts";
import { launch } from "./visitor.ts";

/** Columns that line up in a terminal and in Markdown. */
function printed({ caption, head, rows }: Table): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]!.length)));
  const line = (cells: string[]): string => `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  return [caption, "", line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rows.map(line), ""].join("\n");
}

/** One run of the page; throws what the page says went wrong. */
async function runPage(browser: Browser, site: Site, query: string): Promise<Report> {
  const context = await browser.newContext({ serviceWorkers: "block" });
  try {
    const page = await context.newPage();
    page.on("console", (message) => message.type() === "error" && console.error(message.text()));
    await page.goto(`${site.address}bench.html?${query}&start`);
    let told = "";
    const watching = setInterval(() => {
      void page.locator("#status").textContent().then((now) => {
        if (now && now !== told) console.error((told = now));
      }, () => undefined);
    }, 1000);
    await page.locator('body[data-state="done"], body[data-state="failed"], #failure:not([hidden])').first().waitFor({ timeout: 0 }).finally(() => clearInterval(watching));
    const failure = page.locator("#failure");
    if (await failure.isVisible()) throw new Error((await failure.textContent()) ?? "it failed");
    return JSON.parse((await page.locator("#report").textContent()) ?? "") as Report;
  } finally {
    await context.close();
  }
}

/**
 * The same workloads with the others; their members of an ensemble are the same model several times.
 * llama.cpp runs on the CPU alone.
 */
async function runPeers(peer: Peer, { backend, models, ensembles, prefixes, segmentTokens, repeats }: Plan, threads: number): Promise<Turn["theirs"]> {
  const theirs: Turn["theirs"] = {};
  for (const engine of backend === "cpu" ? (["transformers.js", "llama.cpp"] as const) : (["transformers.js"] as const)) {
    const measured = (theirs[engine] = [] as PeerSeries[][]);
    for (const each of models) {
      if (each.kind === "bundled") continue;
      const dtype = each.format === "Q4_0" ? "q4" : "q8";
      const device = backend === "webgpu" ? "webgpu" : "wasm";
      const model = `${each.shape}-${each.format}`;
      console.error(`${engine}: ${model} on ${device}`);
      const run = () => peer.measure({ engine, model, dtype, device, threads, members: Math.max(...ensembles), prefixes, segmentTokens, repeats });
      // On a busy machine llama.cpp's worker now and then loses its thread: once more, then it is left out.
      measured.push(await run().catch(run).catch((error: unknown) => (console.error(`${engine} failed: ${String(error)}`), [])));
    }
  }
  return theirs;
}

/** Where it ran, and all tables. */
function tell({ surroundings, workloads }: Report): void {
  if (surroundings) {
    const { adapter, browser: name, cores, copyBytesPerSecond } = surroundings;
    const copy = copyBytesPerSecond === null ? "" : `, copies ${figure(copyBytesPerSecond / 1e9)} GB/s`;
    console.log(`${adapter.name}${adapter.software ? " (software: the counts hold, the times do not)" : ""}, ${cores} cores, ${name}${copy}\n`);
  }
  for (const workload of workloads) for (const table of tablesOf(workload)) console.log(printed(table));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { report: { type: "string" }, peer: { type: "string" }, turns: { type: "string", default: "1" }, threads: { type: "string", default: "1" }, graphics: { type: "string", default: "swiftshader" } },
});
const query = positionals[0] ?? "";
const plan = planFrom(new URLSearchParams(query));
const site = new Site(dist);
// The headers of a published page: clocks are exact only in a page that is alone in its process.
Object.assign(site.headers, { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp", "cross-origin-resource-policy": "same-origin" });
await site.open();
const browser = await launch(values.graphics === "hardware" ? "hardware" : "swiftshader");
const peer = values.peer === undefined ? undefined : await Peer.open(browser, values.peer);
try {
  const turns: Turn[] = [];
  for (let turn = 0; turn < Number(values.turns); turn++) {
    const ours = await runPage(browser, site, query);
    tell(ours);
    const done: Turn = { ours, theirs: {} };
    turns.push(done);
    const keep = (): void => void (values.report !== undefined && writeFileSync(values.report, JSON.stringify(turns, undefined, 1)));
    keep();
    if (peer) done.theirs = await runPeers(peer, plan, Number(values.threads));
    keep();
  }
  if (peer) {
    const random = plan.models.filter(({ kind }) => kind === "random");
    for (const engine of Object.keys(turns[0]!.theirs)) {
      for (const [index, models] of random.entries()) console.log(printed(compared(nameOf(models), engine, plan, turns, index)));
    }
  }
} finally {
  await browser.close();
  peer?.close();
  site.close();
}
