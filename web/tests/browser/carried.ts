/**
 * Runs in a folder made by `cargo xtask bench --carry`, in Deno: each workload natively, then the
 * page's own module and bench worker on Deno's WebGPU, and both side by side. The figures that
 * others publish for their engines come first: a run may be cut off.
 */
import { existsSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { beside } from "../../src/bench/beside.ts";
import { nameOf, planFrom } from "../../src/bench/plan.ts";
import type { BenchReply, Measured, Plan } from "../../src/bench/report.ts";
import { Native } from "./native.ts";
import { printed, tell } from "./printed.ts";
import { writeModel } from "./random-file.ts";

/** Prompts of 52 and 1,213 tokens are those of WebLLM's published figures. */
const usual = {
  models: "Llama-3.2-1B:Q4_0,SmolLM2-135M:Q4_0,Qwen2.5-1.5B:Q4_0",
  ensembles: "1,3",
  prefixes: "52,1213",
  repeats: "5",
  seconds: "20",
};

const usage = `usage: ./run.sh [options]

Measures Conclave on this machine's GPU through Vulkan, natively and as the page's wasm module \
in Deno. Nothing is
fetched. Models are random weights of real shapes, made here (some 2 GB). The tables are \
printed, and report.json keeps them.

  --models LIST     in this order (${usual.models}); tiny:Q4_0 for a software adapter
  --ensembles LIST  members at a time (${usual.ensembles}); \
more than one for shapes below a billion weights only
  --prefixes LIST   tokens of the conversation (${usual.prefixes})
  --repeats N       of each measurement (${usual.repeats})
  --seconds N       no repeat begins later than that in each measurement (${usual.seconds})
  --on gpu|cpu      gpu
  --help            this`;

const { values } = parseArgs({
  options: {
    models: { type: "string", default: usual.models },
    ensembles: { type: "string", default: usual.ensembles },
    prefixes: { type: "string", default: usual.prefixes },
    repeats: { type: "string", default: usual.repeats },
    seconds: { type: "string", default: usual.seconds },
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
const tool = new Native(`${folder}conclave`, `${folder}models`, folder);
const runs: { native: Measured | null; wasm: Measured | null }[] = [];
for (const models of plan.models) {
  const one: Plan = {
    ...plan,
    models: [models],
    ensembles: large.test(nameOf(models)) ? [1] : plan.ensembles,
  };
  const run: (typeof runs)[number] = { native: null, wasm: null };
  runs.push(run);
  const attempts = { native: () => natively(one), wasm: () => inWasm(one) };
  for (const place of ["native", "wasm"] as const) {
    // A failure natively or in wasm leaves the other, and the next model, to be measured.
    try {
      run[place] = await attempts[place]();
      tell(run[place]);
    } catch (error) {
      console.error(`${nameOf(models)}, ${place}: ${String(error)}`);
      process.exitCode = 1;
    }
    writeFileSync(`${folder}report.json`, JSON.stringify(runs, undefined, 1));
  }
  const [native, wasm] = [run.native, run.wasm].map((measured) => measured?.workloads[0]);
  console.log(printed(beside(nameOf(models), native, wasm)));
}
console.log(`All of it is in ${folder}report.json`);

/** By the tool; makes the random weights that are not there yet. */
async function natively(one: Plan): Promise<Measured> {
  const [models] = one.models;
  if (models?.kind === "random") {
    for (let seed = 1; seed <= Math.max(...one.ensembles); seed++) {
      const file = `${folder}models/${models.shape}-${models.format}-${seed}.gguf`;
      if (existsSync(file)) continue;
      console.error(`${nameOf(models)}: making weights, seed ${seed}`);
      await writeModel(models.shape, models.format, seed, file);
    }
  }
  return tool.measure(one, (what) => console.error(what));
}

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
