/**
 * Runs in a page of its own: times other engines on the bench's workloads, as someone would write them
 * with these, and counts what they ask of WebGPU.
 */
import { textOf } from "../../src/bench/words.ts";
import { GpuCounters, since, type GpuCounts } from "../../src/bench/gpu-counters.ts";

const counters = GpuCounters.install();

/** The part of transformers.js that is used. */
interface Tensor {
  dims: number[];
  data: Float32Array;
}
interface Model {
  (inputs: object): Promise<{ logits: Tensor }>;
  generate(options: object): Promise<unknown>;
  dispose(): Promise<unknown>;
}
interface Transformers {
  env: {
    localModelPath: string;
    allowLocalModels: boolean;
    allowRemoteModels: boolean;
    useBrowserCache: boolean;
    backends: { onnx: { wasm: { wasmPaths: string; numThreads: number } } };
  };
  AutoModelForCausalLM: { from_pretrained(name: string, options: object): Promise<Model> };
  BaseStreamer: new () => { put(ids: unknown): void; end(): void };
  Tensor: new (type: string, data: BigInt64Array, dims: number[]) => unknown;
}

/** The part of wllama, which is llama.cpp in wasm, that is used. */
interface LlamaCpp {
  loadModel(files: Blob[], options: object): Promise<void>;
  createCompletion(options: object): Promise<{ timings?: { prompt_n: number; prompt_ms: number; predicted_n: number; predicted_ms: number } }>;
  exit(): Promise<void>;
}

export interface PeerPlan {
  engine: "transformers.js" | "llama.cpp";
  model: string;
  dtype: "q4" | "q8";
  device: "webgpu" | "wasm";
  threads: number;
  members: number;
  prefixes: number[];
  segmentTokens: number;
  repeats: number;
}

export interface PeerSeries {
  prefix: number;
  prefillMs: number[];
  stepMs: number[];
  stepCounts: GpuCounts | null;
  /** Of an ensemble's round; empty where there is one member. */
  roundMs: number[];
  roundCounts: GpuCounts | null;
}

const scope = globalThis as unknown as { measurePeer(plan: PeerPlan): Promise<PeerSeries[]> };

scope.measurePeer = (plan) => (plan.engine === "llama.cpp" ? llamaCpp(plan) : transformers(plan));

/** Prompts and drafts of one member on the CPU: it has no scores of a given text, so there are no rounds. */
async function llamaCpp({ model, threads, prefixes, segmentTokens, repeats }: PeerPlan): Promise<PeerSeries[]> {
  const { Wllama } = (await import(new URL("./wllama/index.js", document.baseURI).href)) as { Wllama: new (paths: object, options: object) => LlamaCpp };
  const engine = new Wllama({ default: new URL("./wllama/wasm/wllama.wasm", document.baseURI).href }, { logger: { debug() {}, log() {}, warn() {}, error: console.error } });
  const file = await (await fetch(`./gguf/${model}-1.gguf`)).blob();
  await engine.loadModel([file], { n_ctx: Math.max(...prefixes) + 4 * segmentTokens, n_threads: threads, n_gpu_layers: 0 });
  const series = emptySeries(prefixes);
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const at of series) {
      // Another first word every time: nothing of the last prompt can be used again.
      const prompt = textOf(at.prefix + repeat + 1).split(" ").slice(-at.prefix).map((word) => ` ${word}`).join("");
      const { timings } = await engine.createCompletion({ prompt, max_tokens: segmentTokens, temperature: 0, ignore_eos: true, cache_prompt: false });
      if (repeat < 0 || !timings) continue;
      at.prefillMs.push(timings.prompt_ms * (at.prefix / timings.prompt_n));
      // The first token comes with the prompt.
      at.stepMs.push(timings.predicted_ms / (timings.predicted_n - 1));
    }
  }
  await engine.exit();
  return series;
}

const emptySeries = (prefixes: number[]): PeerSeries[] =>
  prefixes.map((prefix) => ({ prefix, prefillMs: [], stepMs: [], stepCounts: null, roundMs: [], roundCounts: null }));

async function transformers({ model: name, dtype, device, threads, members, prefixes, segmentTokens, repeats }: PeerPlan): Promise<PeerSeries[]> {
  const address = new URL("./transformers.min.js", document.baseURI).href;
  const { env, AutoModelForCausalLM, BaseStreamer, Tensor } = (await import(address)) as Transformers;
  env.localModelPath = new URL("./models/", document.baseURI).href;
  Object.assign(env, { allowLocalModels: true, allowRemoteModels: false, useBrowserCache: false });
  Object.assign(env.backends.onnx.wasm, { wasmPaths: new URL("./ort/", document.baseURI).href, numThreads: threads });
  const models: Model[] = [];
  for (let member = 0; member < members; member++) models.push(await AutoModelForCausalLM.from_pretrained(name, { dtype, device }));

  class Clock extends BaseStreamer {
    readonly at: number[] = [];
    readonly counts: (GpuCounts | undefined)[] = [];
    override put(): void {
      this.at.push(performance.now());
      this.counts.push(counters?.read());
    }
    override end(): void {}
  }
  const inputs = (ids: bigint[]): object => ({
    input_ids: new Tensor("int64", BigInt64Array.from(ids), [1, ids.length]),
    attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), [1, ids.length]),
  });
  const prompt = (tokens: number): bigint[] => Array.from({ length: tokens }, (_, index) => BigInt(300 + ((index * 7) % 600)));
  const draft = (model: Model, ids: bigint[], clock = new Clock()): Promise<unknown> =>
    model.generate({ ...inputs(ids), max_new_tokens: segmentTokens, min_new_tokens: segmentTokens, do_sample: false, streamer: clock });

  /** Drafts by `generate`, then one forward pass for each member and candidate, and the mean raw logit of its tokens. */
  const round = async (ids: bigint[]): Promise<number[][]> => {
    const drafts: bigint[][] = [];
    for (const model of models) {
      const written: bigint[] = [];
      const keep = new (class extends Clock {
        override put(more?: bigint[][]): void {
          written.push(...(more?.[0] ?? []));
        }
      })();
      await draft(model, ids, keep);
      drafts.push(written.slice(ids.length));
    }
    const scores: number[][] = [];
    for (const model of models) {
      const row: number[] = [];
      for (const candidate of drafts) {
        const { logits } = await model(inputs([...ids, ...candidate]));
        const vocabulary = logits.dims[2]!;
        const sum = candidate.reduce((total, id, index) => total + logits.data[(ids.length + index - 1) * vocabulary + Number(id)]!, 0);
        row.push(sum / candidate.length);
      }
      scores.push(row);
    }
    return scores;
  };

  const series = emptySeries(prefixes);
  // The first time around compiles shaders, and is not counted.
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const at of series) {
      const ids = prompt(at.prefix);
      const clock = new Clock();
      const started = performance.now();
      await draft(models[0]!, ids, clock);
      if (repeat >= 0) {
        // The first call of the streamer brings the prompt, at once.
        const steps = clock.at.slice(1);
        at.prefillMs.push(steps[0]! - started);
        for (let step = 1; step < steps.length; step++) at.stepMs.push(steps[step]! - steps[step - 1]!);
        const [before, after] = clock.counts.slice(-2);
        if (before && after) at.stepCounts = since(before, after);
      }
      if (members === 1) continue;
      const before = counters?.read();
      const begun = performance.now();
      const scores = await round(ids);
      if (scores.flat().some((score) => !Number.isFinite(score))) throw new Error("a score is no number");
      if (repeat < 0) continue;
      at.roundMs.push(performance.now() - begun);
      const after = counters?.read();
      if (before && after) at.roundCounts = since(before, after);
    }
  }
  for (const model of models) await model.dispose();
  return series;
}
