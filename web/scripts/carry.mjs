/**
 * `node scripts/carry.mjs FOLDER TOOL`: makes a folder that benchmarks Conclave on a bare Linux
 * machine with Vulkan and no network: the native tool, the page's bench worker with its module, and
 * Deno, which runs it on WebGPU.
 */
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { chmod, copyFile, cp, mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** Has WebGPU by the same wgpu as Firefox, in one file. */
const deno = "@deno/linux-x64-glibc@2.9.6";
/** Size limit of the folder. */
const mostBytes = 60e6;

const run = `#!/bin/sh
# Measures Conclave on this machine's GPU; --help says what can be asked for.
set -e
cd "$(dirname "$0")"
[ -x deno/package/deno ] || { mkdir -p deno && tar -xzf deno.tgz -C deno; }
[ -x conclave ] || { gzip -dk conclave.gz && chmod +x conclave; }
[ -f engine-relaxed.wasm ] || gzip -dk engine-relaxed.wasm.gz
DENO_NO_UPDATE_CHECK=1 exec deno/package/deno run --quiet --no-remote --allow-all --unstable-webgpu carried.js "$@"
`;

const web = fileURLToPath(new URL("..", import.meta.url));
const [folder, tool] = process.argv.slice(2);
await rm(folder, { recursive: true, force: true });
await mkdir(folder, { recursive: true });
const settings = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  logLevel: "warning",
};
await build({
  ...settings,
  entryPoints: { carried: `${web}tests/browser/carried.ts` },
  outdir: folder,
  platform: "node",
});
await build({
  ...settings,
  entryPoints: { "bench-worker": `${web}src/bench/worker.ts` },
  outdir: folder,
  alias: { "engine-glue": `${web}pkg/conclave.js` },
});
// Deno supports relaxed SIMD.
await copyFile(`${web}pkg/conclave_relaxed_bg.wasm`, `${folder}/engine-relaxed.wasm`);
await cp(`${web}members`, `${folder}/members`, { recursive: true });
await copyFile(tool, `${folder}/conclave`);
execFileSync("strip", [`${folder}/conclave`]);
for (const large of ["conclave", "engine-relaxed.wasm"])
  execFileSync("gzip", ["-9", `${folder}/${large}`]);
execFileSync("npm", ["pack", "--silent", "--pack-destination", folder, deno]);
const [packed] = (await readdir(folder)).filter(
  (file) => file.startsWith("deno-") && file.endsWith(".tgz"),
);
await rename(`${folder}/${packed}`, `${folder}/deno.tgz`);
await writeFile(`${folder}/run.sh`, run);
await chmod(`${folder}/run.sh`, 0o755);
let bytes = 0;
for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
  if (entry.isFile()) bytes += (await stat(`${entry.parentPath}/${entry.name}`)).size;
console.log(`${folder}: ${(bytes / 1e6).toFixed(1)} MB; copy it, and call run.sh there`);
if (bytes > mostBytes) throw new Error(`it may be ${mostBytes / 1e6} MB`);
