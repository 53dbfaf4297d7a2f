/**
 * Runs in a folder made by `cargo xtask bench --carry`, in Deno: each workload natively, then the
 * page's own module and bench worker on Deno's WebGPU, and the ratios of both.
 */
import { existsSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { ensembleOf } from "../../src/bench/figures.ts";
import { nameOf, planFrom } from "../../src/bench/plan.ts";
import type { BenchReply, Measured, Plan, WorkloadReport } from "../../src/bench/report.ts";
import { figure, type Table } from "../../src/bench/tables.ts";
import { Native } from "./native.ts";
import { printed, tell } from "./printed.ts";
import { writeModel } from "./random-file.ts";

const usage = `usage: ./run.sh [options]

Measures Conclave on this machine's GPU through Vulkan, natively and as the page's wasm module in Deno. Nothing is
fetched. Models are random weights of real shapes, made here (some 400 MB). The tables are printed, and report.json keeps them.

  --models LIST     default SmolLM2-135M:Q4_0,Llama-3.2-1B:Q4_0; tiny:Q4_0 for a software adapter
  --ensembles LIST  members at a time (1,3); more than one for shapes below a billion weights only
  --prefixes LIST   tokens of the conversation (128,1024)
  --repeats N       of each measurement (5)
  --seconds N       no repeat begins later than that in each measurement (20)
  --on gpu|cpu      gpu
  --help            this`;

const { values } = parseArgs({
  options: {
    models: { type: "string", default: "SmolLM2-135M:Q4_0,Llama-3.2-1B:Q4_0" },
    ensembles: { type: "string", default: "1,3" },
    prefixes: { type: "string", default: "128,1024" },
    repeats: { type: "string", default: "5" },
    seconds: { type: "string", default: "20" },
    on: { type: "string", default: "gpu" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}

/** Rounds of three of these would take more memory than a small GPU has. */
const large = /\dB:/i;

const folder = fileURLToPath(new URL(".", import.meta.url));
const plan = planFrom(
  new URLSearchParams({
    backend: values.on === "cpu" ? "cpu" : "webgpu",
    models: values.models,
    ensembles: values.ensembles,
    prefixes: values.prefixes,
    repeats: values.repeats,
    limitSeconds: values.seconds,
  }),
);
const native = new Native(`${folder}conclave`, `${folder}models`, folder);
const runs: { native: Measured; wasm: Measured }[] = [];
for (const models of plan.models) {
  const one: Plan = {
    ...plan,
    models: [models],
    ensembles: large.test(nameOf(models)) ? [1] : plan.ensembles,
  };
  if (models.kind === "random") {
    for (let seed = 1; seed <= Math.max(...one.ensembles); seed++) {
      const file = `${folder}models/${models.shape}-${models.format}-${seed}.gguf`;
      if (existsSync(file)) continue;
      console.error(`${nameOf(models)}: making weights, seed ${seed}`);
      await writeModel(models.shape, models.format, seed, file);
    }
  }
  const run = {
    native: await native.measure(one, (what) => console.error(what)),
    wasm: await inWasm(one),
  };
  for (const measured of Object.values(run)) tell(measured);
  console.log(printed(beside(nameOf(models), run.native.workloads[0], run.wasm.workloads[0])));
  runs.push(run);
  writeFileSync(`${folder}report.json`, JSON.stringify(runs, undefined, 1));
}
console.log(`All of it is in ${folder}report.json`);

/** The same in a worker of the bench page. */
function inWasm(plan: Plan): Promise<Measured> {
  const measured: Measured = {
    made: new Date().toISOString(),
    plan,
    surroundings: null,
    workloads: [],
  };
  const worker = new Worker(new URL("./bench-worker.js", import.meta.url), { type: "module" });
  return new Promise<Measured>((resolve, reject) => {
    worker.onerror = ({ message }) =>
      reject(new Error(message || "the bench's worker did not start"));
    worker.onmessage = ({ data: reply }: MessageEvent<BenchReply>) => {
      if (reply.type === "surroundings")
        measured.surroundings = { ...reply.surroundings, browser: "wasm in Deno" };
      else if (reply.type === "progress") console.error(`wasm, ${reply.what}`);
      else if (reply.type === "workload") measured.workloads.push(reply.workload);
      else if (reply.type === "failed") reject(new Error(`in wasm: ${reply.message}`));
      else if (reply.type === "end") resolve(measured);
    };
    worker.postMessage({ type: "run", plan });
  }).finally(() => worker.terminate());
}

/** Medians of both, and the ratio of the module's to the native one. */
function beside(
  name: string,
  native: WorkloadReport | undefined,
  wasm: WorkloadReport | undefined,
): Table {
  const rows: string[][] = [];
  const add = (
    what: string,
    prefix: number,
    own: number | undefined,
    module: number | undefined,
  ): void => {
    if (own !== undefined && module !== undefined)
      rows.push([what, figure(prefix), figure(own), figure(module), figure(module / own)]);
  };
  for (const [at, member] of (native?.members ?? []).entries()) {
    const other = wasm?.members[at];
    add(
      `${member.name}: prompt, ms`,
      member.prefix,
      member.prefill.ms?.median,
      other?.prefill.ms?.median,
    );
    add(
      `${member.name}: step, ms`,
      member.prefix,
      member.draftStep.ms?.median,
      other?.draftStep.ms?.median,
    );
    add(
      `${member.name}: verify, ms`,
      member.prefix,
      member.verify.ms?.median,
      other?.verify.ms?.median,
    );
  }
  for (const [at, round] of (native?.rounds ?? []).entries()) {
    const other = wasm?.rounds[at];
    add(`${ensembleOf(round)}: round, ms`, round.prefix, round.ms?.median, other?.ms?.median);
    add(
      `${round.members} members: first segment, ms`,
      round.prefix,
      round.firstSegmentMs?.median,
      other?.firstSegmentMs?.median,
    );
  }
  return {
    caption: `${name}: native beside wasm`,
    head: ["what", "prefix", "native", "wasm", "×"],
    rows,
  };
}
