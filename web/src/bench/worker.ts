/** The bench's worker: runs a plan on engines of its own and reports the results. */
import * as glue from "engine-glue";
import { places } from "../library/places.ts";
import type { EngineModule, Loader, Member, Sampling } from "../protocol/engine.ts";
import { defaultSampling } from "../protocol/generated-settings.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { compileModule, startModule } from "../worker/engine-module.ts";
import { MemberThreads } from "../worker/member-threads.ts";
import { readManifest, readSource, sourceOf } from "../store/load.ts";
import type { ModelFiles } from "../protocol/model-files.ts";
import { GpuCounters } from "./gpu-counters.ts";
import { figuresOf } from "./figures.ts";
import { exact, fitted, measureMember, measureRounds, type Bench } from "./measure.ts";
import { nameOf } from "./plan.ts";
import { RandomModel } from "./random-model.ts";
import type { BenchReply, BenchRequest, Models, Plan, WorkloadReport } from "./report.ts";
import { shapes } from "./shapes.ts";
import { surroundings } from "./surroundings.ts";

const counters = GpuCounters.install();
const scope = globalThis as unknown as {
  postMessage(data: BenchReply): void;
  onmessage: ((event: MessageEvent<BenchRequest>) => void) | null;
};

/** Rows of a cache beyond the context, for candidates in line: crates/model/src/pass.rs. */
const rowsInLine = 512;

/** Room after the longest prefix, for drafts, candidates in line and consecutive rounds. */
const roomBehindPrefix = 256;

scope.onmessage = ({ data: { plan } }) => {
  run(plan).then(
    () => scope.postMessage({ type: "end" }),
    (error: unknown) =>
      scope.postMessage({
        type: "failed",
        message: error instanceof Error ? `${error.name}: ${error.message}` : String(error),
      }),
  );
};

async function run(plan: Plan): Promise<void> {
  const place = places().engine;
  const { module, compiled } = await startModule(
    glue as EngineModule,
    await compileModule("fused", place.wasm),
  );
  const engine = await module.Engine.create(plan.backend);
  // As in the page, members on the CPU have workers of their own where there are cores.
  const threads =
    plan.backend === "cpu" && plan.threads > 1
      ? new MemberThreads(
          (address) => startWorker(address, "conclave member"),
          place.worker,
          plan.threads,
        )
      : undefined;
  threads?.start({ compiled, backend: plan.backend });
  const environment = await surroundings(plan.backend, engine.adapter());
  scope.postMessage({ type: "surroundings", surroundings: environment });
  const most = Math.max(...plan.ensembles);
  // Each member alone at every prefix, then every ensemble; each once more than counted.
  const rounds = plan.drafting.length * plan.ensembles.filter((size) => size > 1).length;
  const steps = plan.models.length * (plan.repeats + 1) * plan.prefixes.length * (most + rounds);
  let done = 0;
  for (const models of plan.models) {
    const greedy = models.kind === "random";
    // Random weights make all words almost equally probable: only greedy sampling has a realistic
    // cost.
    const sampling: Sampling = {
      ...defaultSampling,
      ...(greedy ? { temperature: 0, topP: 1 } : {}),
      seed: 1,
    };
    const report = (what: string) =>
      scope.postMessage({
        type: "progress",
        what: `${titleOf(models)}: ${what}`,
        done: ++done,
        total: steps,
      });
    const { segmentTokens, repeats, limitSeconds } = plan;
    const measured = await measure(
      {
        module,
        counters: plan.backend === "webgpu" ? counters : undefined,
        sampling,
        segmentTokens,
        repeats,
        limitSeconds,
        tell: report,
      },
      threads ?? engine,
      models,
      plan,
      most,
    );
    const workload = {
      ...measured,
      figures: figuresOf(measured, segmentTokens, environment.copyBytesPerSecond),
    };
    scope.postMessage({ type: "workload", workload });
  }
  threads?.close();
  engine.free();
}

function titleOf(models: Models): string {
  switch (models.kind) {
    case "bundled":
      return "bundled members";
    case "random":
      return `${models.shape} ${models.format}`;
    case "files":
      return models.names.join(" and ");
  }
}

async function measure(
  bench: Bench,
  loader: Loader,
  models: Models,
  plan: Plan,
  count: number,
): Promise<Omit<WorkloadReport, "figures">> {
  const members: Member[] = [];
  const started = performance.now();
  try {
    for (let number = 0; number < count; number++) {
      const { name, files } = await filesOf(models, number);
      const contextTokens = Math.max(...plan.prefixes) + roomBehindPrefix;
      members.push(await loader.load(name, files, { contextTokens }, () => undefined));
      files.close();
      const loaded = {
        type: "progress",
        what: `${titleOf(models)}: ${name} is loaded`,
        done: 0,
        total: 0,
      } as const;
      scope.postMessage(loaded);
    }
    const loadMs = performance.now() - started;
    const conversation = models.kind === "random" ? exact() : fitted(bench.sampling);
    const about = members.map((member) => member.about());
    const context = Math.min(...about.map((each) => each.context));
    const fits = (prefix: number): boolean => prefix + roomBehindPrefix <= context;
    const prefixes = plan.prefixes.filter(fits);
    const alone = [];
    for (const member of members)
      alone.push(await measureMember(bench, member, prefixes, conversation));
    const rounds = [];
    for (const size of plan.ensembles.filter((each) => each > 1)) {
      for (const drafting of plan.drafting)
        rounds.push(
          ...(await measureRounds(bench, members.slice(0, size), drafting, prefixes, conversation)),
        );
    }
    const { seed: _, ...sampling } = bench.sampling;
    return {
      models: models.kind === "random" ? models.shape : nameOf(models),
      format: [...new Set(about.map(({ quantisation }) => quantisation))].join(", "),
      sampling,
      loaded: about.map(({ layers, bytes, context, memory }, index) => ({
        name: members[index]!.name,
        layers,
        bytes,
        ...memory,
        kvRow: memory.kv / (context + rowsInLine),
      })),
      leftOut: plan.prefixes.filter((prefix) => !fits(prefix)),
      // Keys and values are allocated once all have run.
      gpuBytes: bench.counters?.liveBytes ?? null,
      loadMs,
      members: alone.flat(),
      rounds,
    };
  } finally {
    for (const member of members) member.free();
  }
}

/**
 * Member number `number` of a workload: the bundled ones or the files in turn, or random weights of
 * that seed.
 */
async function filesOf(
  models: Models,
  number: number,
): Promise<{ name: string; files: ModelFiles }> {
  if (models.kind === "bundled") {
    const list = new URL("./members/members.json", import.meta.url);
    const entries = await readManifest(list);
    const entry = entries[number % entries.length]!;
    const name =
      number < entries.length
        ? entry.name
        : `${entry.name} ${Math.floor(number / entries.length) + 1}`;
    return { name, files: await readSource(sourceOf(entry, list), {}) };
  }
  if (models.kind === "files") {
    const file = models.names[number % models.names.length]!;
    return {
      name: `${file} ${number + 1}`,
      files: await readSource(
        { name: file, url: new URL(`./files/${file}`, import.meta.url).href },
        {},
      ),
    };
  }
  const shape = shapes.find(({ name }) => name === models.shape);
  if (!shape) throw new Error(`There is no shape called ${models.shape}. Choose one of the list.`);
  return {
    name: `${shape.name} ${number + 1}`,
    files: new RandomModel(shape, models.format, number + 1),
  };
}
