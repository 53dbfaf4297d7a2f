/** Puts a script before the engine's worker, or before those of members; the page's own files stay as they are. */
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import type { Site } from "./site.ts";
import { dist } from "./stage.ts";

/** `source`: a file beside this one. `given`: what it finds as the worker's global `given`. */
export async function putBeforeWorker(site: Site, source: string, given: object = {}, worker: "worker" | "member-worker" = "worker"): Promise<void> {
  const entry = `${process.env["CONCLAVE_WEB"] ?? "./"}tests/browser/${source}`;
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: "esm", target: "es2022", write: false });
  site.overrides.set("given.js", `globalThis.given = ${JSON.stringify(given)};`);
  site.overrides.set(`before-${worker}.js`, outputFiles[0]!.text);
  site.overrides.set(`plain-${worker}.js`, readFileSync(`${dist}${worker}.js`, "utf8"));
  site.overrides.set(`${worker}.js`, `import "./given.js"; import "./before-${worker}.js"; import "./plain-${worker}.js";`);
}
