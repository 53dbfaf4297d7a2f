/** Runs a script before one of the engine's workers; the page's own files are unchanged. */
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Site } from "./site.ts";
import { dist } from "./stage.ts";

/**
 * Workers that pages start, from the page's folder and the package: isolated ones the first, if the
 * browser lets threads wait for each other. Members on the open core run in the last.
 */
const workers = ["engine-shared.js", "engine.js", "open-core.js"];
const files = workers.flatMap((worker) => [worker, `library/${worker}`]);
/** Parts of workers, by name. */
type WorkerPart = "conclave" | "conclave member" | "conclave helper";

/** `source`: a file beside this one. `given`: available to it as the worker's global `given`. */
export async function putBeforeWorker(
  site: Site,
  source: string,
  given: object = {},
  part: WorkerPart = "conclave",
): Promise<void> {
  const entry = `${process.env["CONCLAVE_WEB"] ?? "./"}tests/browser/${source}`;
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    format: "iife",
    target: "es2022",
    write: false,
  });
  runBeforeWorker(
    site,
    `globalThis.given = ${JSON.stringify(given)};\n${outputFiles[0]!.text}`,
    part,
  );
}

/** The same with lines of script. */
export function runBeforeWorker(site: Site, lines: string, part: WorkerPart = "conclave"): void {
  for (const file of files) {
    const built = readFileSync(dist + basename(file), "utf8");
    site.overrides.set(file, `if (name === ${JSON.stringify(part)}) {\n${lines}\n}\n${built}`);
  }
}

/** Restores the worker as it was built. */
export function putNothingBeforeWorker(site: Site): void {
  for (const file of files) site.overrides.delete(file);
}
