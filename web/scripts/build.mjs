/**
 * Builds the static folder web/dist: the page, the library, its worker, the engine (pkg/, and pkg-shared/
 * for pages that may share memory), the open core where it was built (pkg-burn/) and the bundled members (members/), all with relative addresses, so that any sub-path serves it.
 */
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const web = fileURLToPath(new URL("..", import.meta.url));
const dist = process.argv[2] ?? `${web}dist`;

/** Bytes of the open core as gzip, for the page to tell. */
const openCore = await Promise.all(["conclave_burn.js", "conclave_burn_bg.wasm"].map(async (name) => gzipSync(await readFile(`${web}pkg-burn/${name}`), { level: 9 }).length)).catch(() => []);

await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
await build({
  entryPoints: {
    conclave: `${web}src/library/conclave.ts`,
    worker: `${web}src/worker/worker.ts`,
    "member-worker": `${web}src/worker/member-worker.ts`,
    "helper-worker": `${web}src/worker/helper-worker.ts`,
    element: `${web}src/library/element.ts`,
    openai: `${web}src/library/openai.ts`,
    page: `${web}src/page/main.ts`,
    style: `${web}style.css`,
    bench: `${web}src/bench/page.ts`,
    "bench-worker": `${web}src/bench/worker.ts`,
    "check-worker": `${web}src/bench/check-worker.ts`,
  },
  outdir: dist,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  minify: true,
  sourcemap: "linked",
  loader: { ".woff2": "file" },
  assetNames: "[name]",
  chunkNames: "chunk-[hash]",
  define: { OPEN_CORE_BYTES: openCore.length > 0 ? String(openCore[0] + openCore[1]) : "undefined" },
  logLevel: "warning",
});
// The library's types, for those who embed it.
execFileSync(process.execPath, [`${web}node_modules/typescript/bin/tsc`, "-p", `${web}tsconfig.library.json`, "--outDir", join(dist, "types")], { stdio: "inherit" });
for (const name of ["conclave", "element", "openai"]) await writeFile(join(dist, `${name}.d.ts`), `export * from "./types/library/${name}.js";\n`);
for (const file of ["index.html", "bench.html", "bench.css", "mark.svg", "catalogue.json"]) await cp(`${web}${file}`, `${dist}/${file}`);
// The font's licence asks to travel with it.
await cp(`${web}node_modules/@fontsource-variable/newsreader/LICENSE`, `${dist}/newsreader-LICENSE.txt`);
for (const folder of ["pkg", "pkg-shared", "pkg-burn", "members"]) {
  const there = await stat(`${web}${folder}`).catch(() => undefined);
  if (there) await cp(`${web}${folder}`, `${dist}/${folder}`, { recursive: true });
  else if (folder === "pkg-burn") console.log("without the open core: web/pkg-burn was not built");
  else console.warn(`web/${folder} is not there yet: the page will say so when it looks for it`);
}

// Last: the service worker knows every file that the page needs by its content. Entries are in order,
// so that the same files make the same worker.
const needed = (await readdir(dist, { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && !/\.(map|d\.ts|txt)$/.test(entry.name) && !["element.js", "openai.js"].includes(entry.name))
  .map((entry) => relative(dist, join(entry.parentPath, entry.name)).split(sep).join("/"))
  .sort();
const files = {};
/** Files that the worker keeps once they were used. */
const onceUsed = {};
for (const file of needed)
  (file.startsWith("pkg-burn/") ? onceUsed : files)[file] = createHash("sha256")
    .update(await readFile(join(dist, file)))
    .digest("hex");
await build({
  entryPoints: { offline: `${web}src/page/offline.ts` },
  outdir: dist,
  bundle: true,
  format: "iife",
  target: "es2022",
  minify: true,
  define: { OFFLINE_FILES: JSON.stringify(files), OFFLINE_ONCE_USED: JSON.stringify(onceUsed) },
  logLevel: "warning",
});
