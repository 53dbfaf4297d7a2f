/**
 * Bundles tests and runs them with Node's own runner: `unit` (beside the sources), or those of a
 * folder of web/tests against the build: `browser` (the page in Chromium), `packages` (the package
 * in the projects of examples/), `browsers` (the page in Firefox and WebKit), `remote` (members behind servers, with the module alone), `published` (with
 * models fetched by `cargo xtask models`), `serve` (OpenAI's client and requests of others against
 * `conclave serve`, which `cargo xtask test --only serve` starts), `clients` (other programs'
 * libraries against it) and `long` (the page in long use, and its kernels measured), both by
 * `--only long`. Further arguments go to the runner. `screenshot FILE [QUESTION [SEED [MODEL …]]]`
 * takes a picture of the built page, `moving FILE` the README's moving one; `bench QUERY …` runs the
 * built bench page, `write-model …` writes one of its random models.
 */
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const [kind = "unit", ...rest] = process.argv.slice(2);
const programs = ["screenshot", "moving", "bench", "write-model"];
const folder = kind === "unit" ? "src" : "tests";
const ofKind = (file) => kind === "unit" || file.startsWith(`${kind}/`);
const entryPoints = readdirSync(`${web}${folder}`, { recursive: true })
  .filter((file) =>
    programs.includes(kind)
      ? file === join("browser", `${kind}.ts`)
      : file.endsWith(".test.ts") && ofKind(file),
  )
  .map((file) => `${web}${folder}/${file}`);
// Inside web/, so that external packages are found.
const outdir = `${web}node_modules/.cache/conclave-${kind}`;
rmSync(outdir, { recursive: true, force: true });
mkdirSync(outdir, { recursive: true });
await build({
  entryPoints,
  outdir,
  outbase: `${web}${folder}`,
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  outExtension: { ".js": ".mjs" },
  sourcemap: "inline",
  logLevel: "warning",
});
const built = readdirSync(outdir, { recursive: true })
  .filter((file) => file.endsWith(".mjs"))
  .map((file) => `${outdir}/${file}`);
// A failing test may leave a server running, which would keep its process alive. The option exists
// since Node 20.14.
const [major, minor] = process.versions.node.split(".").map(Number);
const end = major > 21 || (major === 20 && minor >= 14) ? ["--test-force-exit"] : [];
// Each file of the browser tests has a Chromium and a host of its own, and waits half of its time.
// The others measure, or share a server.
const atOnce = ["browser", "browsers"].includes(kind) ? Math.min(availableParallelism(), 4) : 1;
// A file that hangs fails the run instead of stopping it; the soak alone takes longer.
const limitMs = 30 * 60_000;
const runner = [
  "--test",
  ...end,
  ...(kind === "long" ? [] : [`--test-timeout=${limitMs}`]),
  ...(kind === "unit" ? [] : [`--test-concurrency=${atOnce}`]),
  ...rest,
  ...built,
];
const args = ["--enable-source-maps", ...(programs.includes(kind) ? [...built, ...rest] : runner)];
const { status } = spawnSync(process.execPath, args, {
  stdio: "inherit",
  env: { ...process.env, CONCLAVE_WEB: web },
});
process.exit(status ?? 1);
