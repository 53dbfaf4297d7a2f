/**
 * Runs the built bench page in a headless Chromium and prints its tables:
 * `node scripts/test.mjs bench "models=bundled,SmolLM2-135M:Q4_0&prefixes=128" [REPORT.json]`.
 */
import { writeFileSync } from "node:fs";
import { tablesOf, type Table } from "../../src/bench/tables.ts";
import type { Report } from "../../src/bench/report.ts";
import { Site } from "./site.ts";
import { dist } from "./stage.ts";
import { launch } from "./visitor.ts";

/** Columns that line up in a terminal and in Markdown. */
function printed({ caption, head, rows }: Table): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]!.length)));
  const line = (cells: string[]): string => `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  return [caption, "", line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rows.map(line), ""].join("\n");
}

const [query = "", file] = process.argv.slice(2);
const site = new Site(dist);
// The headers of a published page: clocks are exact only in a page that is alone in its process.
Object.assign(site.headers, { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp", "cross-origin-resource-policy": "same-origin" });
await site.open();
const browser = await launch("swiftshader");
try {
  const page = await (await browser.newContext({ serviceWorkers: "block" })).newPage();
  page.on("console", (message) => message.type() === "error" && console.error(message.text()));
  await page.goto(`${site.address}bench.html?${query}&start`);
  const over = page.locator('body[data-state="done"], body[data-state="failed"]').waitFor({ timeout: 0 });
  let told = "";
  const watching = setInterval(() => {
    void page.locator("#status").textContent().then((now) => {
      if (now && now !== told) console.error((told = now));
    }, () => undefined);
  }, 1000);
  await over.finally(() => clearInterval(watching));
  const failure = page.locator("#failure");
  if (await failure.isVisible()) {
    console.error(await failure.textContent());
    process.exitCode = 1;
  }
  const text = (await page.locator("#report").textContent()) ?? "";
  if (text !== "") {
    const report = JSON.parse(text) as Report;
    const { adapter, browser: name, cores, copyBytesPerSecond } = report.surroundings ?? {};
    console.log(`${adapter?.name}${adapter?.software ? " (software: the counts hold, the times do not)" : ""}, ${cores} cores, ${name}, copy ${((copyBytesPerSecond ?? 0) / 1e9).toFixed(1)} GB/s\n`);
    for (const workload of report.workloads) for (const table of tablesOf(workload)) console.log(printed(table));
    if (file !== undefined) writeFileSync(file, text);
  }
} finally {
  await browser.close();
  site.close();
}
