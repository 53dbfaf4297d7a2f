/** Puts a script before one part of the engine's worker; the page's own files stay as they are. */
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Site } from "./site.ts";
import { dist } from "./stage.ts";

/**
 * What pages start, from the page's own folder and from the package; isolated ones the first, where
 * the browser lets threads wait for each other. Members on the open core live in the last.
 */
const workers = ["engine-shared.js", "engine.js", "open-core.js"];
const files = workers.flatMap((worker) => [worker, `library/${worker}`]);
/** Which part workers have, by their names. */
export type Part = "conclave" | "conclave member" | "conclave helper";

/** `source`: a file beside this one. `given`: what it finds as the worker's global `given`. */
export async function putBeforeWorker(
  site: Site,
  source: string,
  given: object = {},
  part: Part = "conclave",
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

/** The same of some lines. */
export function runBeforeWorker(site: Site, lines: string, part: Part = "conclave"): void {
  for (const file of files)
    site.overrides.set(
      file,
      `if (name === ${JSON.stringify(part)}) {\n${lines}\n}\n${readFileSync(dist + basename(file), "utf8")}`,
    );
}

/** The worker as it was built. */
export function putNothingBeforeWorker(site: Site): void {
  for (const file of files) site.overrides.delete(file);
}
