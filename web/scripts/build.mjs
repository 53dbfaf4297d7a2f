/**
 * Builds two static folders, with relative addresses so that any sub-path can serve them: the page
 * (web/dist, or the named folder), and the package for other pages (web/package). Both contain the
 * engine: for each core that was built, its worker as one self-contained file and its module beside
 * it, the engine's also with relaxed SIMD.
 */
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const web = fileURLToPath(new URL("..", import.meta.url));
const page = resolve(process.argv[2] ?? `${web}dist`);
/** The page as it grows; the former one may be served until it is whole. */
const dist = `${page}.new`;
const library = `${web}package`;

const settings = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  sourcemap: "linked",
  logLevel: "warning",
};

/**
 * The modules that have workers: `engine`, `engine-shared` for pages that may share memory,
 * `open-core`.
 */
const modules = [
  {
    name: "engine",
    glue: `${web}pkg/conclave`,
    entries: {
      engine: "worker/engine-worker",
      "bench-worker": "bench/worker",
      "check-worker": "bench/check-worker",
    },
  },
  {
    name: "engine-shared",
    glue: `${web}pkg-shared/conclave`,
    entries: {
      "engine-shared": "worker/engine-worker",
      "bench-worker-shared": "bench/worker",
      "check-worker-shared": "bench/check-worker",
    },
  },
  {
    name: "open-core",
    glue: `${web}pkg-burn/conclave_burn`,
    entries: { "open-core": "worker/open-core-worker" },
  },
];
const isThere = async (file) => (await stat(file).catch(() => undefined)) !== undefined;
const built = [];
for (const module of modules) {
  const files = {
    [`${module.name}.wasm`]: `${module.glue}_bg.wasm`,
    [`${module.name}-relaxed.wasm`]: `${module.glue}_relaxed_bg.wasm`,
  };
  for (const [name, file] of Object.entries(files)) if (!(await isThere(file))) delete files[name];
  if (Object.keys(files).length > 0) built.push({ ...module, files });
  else console.log(`without ${module.name}, which was not built`);
}
/** Modules fetched when they are needed, whose scripts are in every worker of the engine. */
const onDemand = [
  { name: "grammar", glue: `${web}pkg-grammar/conclave_grammar` },
  { name: "remote", glue: `${web}pkg-remote/conclave_remote` },
];
const made = [];
for (const module of onDemand)
  if (await isThere(`${module.glue}_bg.wasm`)) made.push(module);
  else console.log(`without ${module.name}, which was not built`);
/** Replaces a script that was not built. */
const unbuilt = {
  name: "unbuilt",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(grammar|remote)-glue$/ }, ({ path }) => {
      const module = made.find(({ name }) => path === `${name}-glue`);
      return module ? { path: `${module.glue}.js` } : { path, namespace: "unbuilt" };
    });
    onLoad({ filter: /./, namespace: "unbuilt" }, () => ({
      contents: "export default () => Promise.reject(new Error('it was not built'));",
    }));
  },
};
const openCore = built.find(({ name }) => name === "open-core");
const glueOf = ({ glue }) => `${glue}.js`;

for (const folder of [dist, library]) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
}

// The workers, each with its module's script.
for (const module of built) {
  // The bench compares both cores.
  const entries = Object.entries(module.entries).filter(
    ([name]) => openCore || !name.startsWith("check-worker"),
  );
  const alias = { "engine-glue": glueOf(module), "open-core-glue": glueOf(openCore ?? module) };
  const entryPoints = Object.fromEntries(
    entries.map(([name, entry]) => [name, `${web}src/${entry}.ts`]),
  );
  await build({ ...settings, entryPoints, outdir: dist, alias, plugins: [unbuilt] });
  for (const [name, file] of Object.entries(module.files)) await cp(file, `${dist}/${name}`);
}
for (const { name, glue } of made) await cp(`${glue}_bg.wasm`, `${dist}/${name}.wasm`);
await cp(`${web}members`, `${dist}/members`, { recursive: true });

// The package: its entry points, and their types.
const entries = ["conclave", "element", "openai", "ai-sdk", "language-model", "react"];
/** Peer dependencies of the entry points, with their supported versions. */
const peers = { "@ai-sdk/provider": "^4.0.0", react: ">=18" };
const [first, ...others] = entries.map((name) => `${web}src/library/${name}.ts`);
const typesetter = `${web}src/library/markdown/typeset.ts`;
/**
 * The other entry points import the published first one, and the errors that it exports, so that
 * each declaration exists once. The typesetter of formulas is a file of its own, for bundlers to
 * fetch when it is needed.
 */
const once = {
  name: "once",
  setup({ onResolve }) {
    onResolve({ filter: /\/(conclave|errors)\.ts$/ }, () => ({
      path: "./conclave.js",
      external: true,
    }));
    onResolve({ filter: /\/typeset\.ts$/ }, ({ kind }) =>
      kind === "dynamic-import" ? { path: "./typeset.js", external: true } : undefined,
    );
  },
};
await build({ ...settings, entryPoints: [first], outdir: library });
await build({
  ...settings,
  entryPoints: others,
  outdir: library,
  plugins: [once],
  external: Object.keys(peers),
});
await build({ ...settings, entryPoints: [typesetter], outdir: library });
for (const { name, files } of built) {
  // Bundlers only copy a worker's script: it names no source map, which would be missing.
  const script = await readFile(`${dist}/${name}.js`, "utf8");
  await writeFile(`${library}/${name}.js`, script.replace(/\/\/# sourceMappingURL=\S+\s*$/, ""));
  for (const name of Object.keys(files)) await cp(`${dist}/${name}`, `${library}/${name}`);
}
for (const { name } of made) await cp(`${dist}/${name}.wasm`, `${library}/${name}.wasm`);
await mkdir(`${library}/members`);
for (const file of (await readdir(`${web}members`)).filter((file) => file.endsWith(".gguf")))
  await cp(`${web}members/${file}`, `${library}/members/${file}`);
const types = `${library}/types`;
execFileSync(
  process.execPath,
  [`${web}node_modules/typescript/bin/tsc`, "-p", `${web}tsconfig.library.json`, "--outDir", types],
  { stdio: "inherit" },
);
for (const file of (await readdir(types, { recursive: true })).filter((file) =>
  file.endsWith(".d.ts"),
)) {
  // Resolve names as importers do: sources end in `.ts`.
  const text = await readFile(join(types, file), "utf8");
  await writeFile(join(types, file), text.replace(/((?:from|import\() ?"\.[^"]+)\.ts"/g, '$1.js"'));
}
for (const file of ["LICENSE-APACHE", "LICENSE-MIT"])
  await cp(`${web}../${file}`, `${library}/${file}`);
await cp(`${web}src/library/README.md`, `${library}/README.md`);
const { name, version, description, keywords, license, author, homepage, bugs, repository } =
  JSON.parse(await readFile(`${web}package.json`, "utf8"));
const exported = entries.map((entry) => [
  entry === "conclave" ? "." : `./${entry}`,
  { types: `./types/library/${entry}.d.ts`, default: `./${entry}.js` },
]);
const manifest = {
  name,
  version,
  description,
  keywords,
  license,
  author,
  homepage,
  bugs,
  repository,
  publishConfig: { access: "public", provenance: true },
  type: "module",
  peerDependencies: peers,
  peerDependenciesMeta: Object.fromEntries(
    Object.keys(peers).map((name) => [name, { optional: true }]),
  ),
  sideEffects: ["./element.js"],
  exports: { ...Object.fromEntries(exported), "./package.json": "./package.json", "./*": "./*" },
};
await writeFile(`${library}/package.json`, `${JSON.stringify(manifest, undefined, 2)}\n`);

// The page.
/** Gzipped bytes of the open core, for display on the page. */
const openCoreBytes =
  openCore &&
  (
    await Promise.all(
      ["js", "wasm"].map(
        async (ending) =>
          gzipSync(await readFile(`${dist}/open-core.${ending}`), { level: 9 }).length,
      ),
    )
  ).reduce((sum, bytes) => sum + bytes);
/** Distinguishes messages of different builds: a hash of all that affects them. */
const pageVersion = createHash("sha256");
for (const folder of [dist, `${web}src`])
  for (const file of (await readdir(folder, { recursive: true }))
    .filter((file) => /(?<!\.test)\.(ts|js|wasm)$/.test(file))
    .sort())
    pageVersion.update(await readFile(join(folder, file)));
await build({
  ...settings,
  entryPoints: {
    page: `${web}src/page/main.ts`,
    appearance: `${web}src/page/appearance-start.ts`,
    style: `${web}style.css`,
    bench: `${web}src/bench/page.ts`,
    // Fetched when a PDF is attached.
    "pdf-text": `${web}src/page/pdf-text.ts`,
    // Fetched when an answer has a formula.
    typeset: typesetter,
  },
  outdir: dist,
  splitting: true,
  loader: { ".woff2": "file" },
  assetNames: "[name]",
  chunkNames: "chunk-[hash]",
  define: {
    OPEN_CORE_BYTES: String(openCoreBytes),
    PAGE_VERSION: JSON.stringify(pageVersion.digest("hex").slice(0, 16)),
  },
});
await cp(`${web}node_modules/pdfjs-dist/legacy/build/pdf.worker.min.mjs`, `${dist}/pdf-worker.js`);
/** Maps of characters: the size of an index, the index, and all of them one after the other. */
const maps = `${web}node_modules/pdfjs-dist/cmaps`;
const places = {};
const packed = [];
for (const file of (await readdir(maps)).filter((file) => file.endsWith(".bcmap")).sort()) {
  const from = packed.reduce((sum, { length }) => sum + length, 0);
  packed.push(await readFile(join(maps, file)));
  places[file] = [from, from + packed.at(-1).length];
}
const placed = Buffer.from(JSON.stringify(places));
const size = Buffer.alloc(4);
size.writeUInt32LE(placed.length);
await writeFile(`${dist}/pdf-cmaps.bin`, Buffer.concat([size, placed, ...packed]));
for (const file of [
  ...["index.html", "bench.html", "bench.css", "mark.svg", "icon-192.png", "icon-512.png"],
  ...["manifest.json", "catalogue.json", "recorded.json"],
])
  await cp(`${web}${file}`, `${dist}/${file}`);
// Previews of links have absolute addresses.
const index = await readFile(`${web}index.html`, "utf8");
await writeFile(`${dist}/index.html`, index.replaceAll("{homepage}", homepage));
await cp(`${web}page.png`, `${dist}/preview.png`);
// The font's licence must be distributed with it.
await cp(
  `${web}node_modules/@fontsource-variable/newsreader/LICENSE`,
  `${dist}/newsreader-LICENSE.txt`,
);

// Last: the service worker has the digest of every file that the page needs. Entries are sorted, so
// that the same files make the same worker.
const needed = (await readdir(dist, { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && !/\.(map|txt)$|^preview\./.test(entry.name))
  .map((entry) => relative(dist, join(entry.parentPath, entry.name)).split(sep).join("/"))
  .sort();
const files = {};
/** Files that the worker keeps after their first use. */
const onceUsed = {};
for (const file of needed)
  (/^(open-core\.|grammar\.|remote\.|pdf-)/.test(file) ? onceUsed : files)[file] = createHash(
    "sha256",
  )
    .update(await readFile(join(dist, file)))
    .digest("hex");
await build({
  ...settings,
  entryPoints: { offline: `${web}src/page/offline.ts` },
  outdir: dist,
  format: "iife",
  sourcemap: false,
  define: { OFFLINE_FILES: JSON.stringify(files), OFFLINE_ONCE_USED: JSON.stringify(onceUsed) },
});
// The former page makes room by its name alone: to remove its files takes so long that a visit would
// meet some of them.
const former = `${page}.old`;
await rm(former, { recursive: true, force: true });
await rename(page, former).catch((error) => {
  if (error.code !== "ENOENT") throw error;
});
await rename(dist, page);
await rm(former, { recursive: true, force: true });
