/**
 * Runs in its own page: times other engines on the bench's workloads, with code as their users
 * would write it, and counts their WebGPU calls.
 */
import { GpuCounters, since, type GpuCounts } from "../../src/bench/gpu-counters.ts";
import { emptySeries, type PeerNews } from "../../src/bench/peers.ts";
import { Repeats } from "../../src/bench/repeats.ts";
import type { PeerSeries } from "../../src/bench/report.ts";
import { textOf } from "../../src/bench/words.ts";

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
  InterruptableStoppingCriteria: new () => { interrupt(): void };
  Tensor: new (type: string, data: BigInt64Array, dims: number[]) => unknown;
}

/** The part of wllama, which is llama.cpp in wasm, that is used. */
interface LlamaCpp {
  loadModel(files: Blob[], options: object): Promise<void>;
  createCompletion(options: object): Promise<{
    timings?: { prompt_n: number; prompt_ms: number; predicted_n: number; predicted_ms: number };
  }>;
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
  limitSeconds: number;
}

const scope = globalThis as unknown as {
  measurePeer(plan: PeerPlan): Promise<PeerSeries[]>;
  tellPeer(news: PeerNews): Promise<void>;
};

scope.measurePeer = (plan) => (plan.engine === "llama.cpp" ? llamaCpp(plan) : transformers(plan));

/**
 * Prompts and drafts of one member on the CPU: it can't score a given text, so there are no rounds.
 */
async function llamaCpp({
  model,
  threads,
  prefixes,
  segmentTokens,
  repeats: count,
  limitSeconds,
}: PeerPlan): Promise<PeerSeries[]> {
  const { Wllama } = (await import(new URL("./wllama/index.js", document.baseURI).href)) as {
    Wllama: new (paths: object, options: object) => LlamaCpp;
  };
  const engine = new Wllama(
    { default: new URL("./wllama/wasm/wllama.wasm", document.baseURI).href },
    { logger: { debug() {}, log() {}, warn() {}, error: console.error } },
  );
  const file = await (
    await fetch(model.startsWith("files/") ? `./${model}` : `./gguf/${model}-1.gguf`)
  ).blob();
  await engine.loadModel([file], {
    n_ctx: Math.max(...prefixes) + 4 * segmentTokens,
    n_threads: threads,
    n_gpu_layers: 0,
  });
  const series = prefixes.map(emptySeries);
  // A token each in the bench's own vocabularies, and more in others.
  const some = 32;
  const counted =
    (await engine.createCompletion({ prompt: textOf(some), max_tokens: 1 })).timings?.prompt_n ??
    some;
  for (const at of series) {
    const repeats = new Repeats(count, limitSeconds);
    const words = Math.round((at.prefix * some) / counted);
    for (let repeat = 0; repeats.due; repeat++) {
      // Another first word every time, so that nothing of the last prompt is reused.
      const prompt = textOf(words + repeat)
        .split(" ")
        .slice(-words)
        .map((word) => ` ${word}`)
        .join("");
      await scope.tellPeer({ series, doing: { prefix: at.prefix, what: "prefill" } });
      const started = performance.now();
      const { timings } = await engine.createCompletion({
        prompt,
        max_tokens: segmentTokens,
        temperature: 0,
        ignore_eos: true,
        cache_prompt: false,
      });
      if (!repeats.counts(performance.now() - started) || !timings) continue;
      at.cold = repeats.cold;
      at.prefillMs.push(timings.prompt_ms * (at.prefix / timings.prompt_n));
      // The first token comes with the prompt.
      at.stepMs.push(timings.predicted_ms / (timings.predicted_n - 1));
    }
  }
  await engine.exit();
  return series;
}

/** A draft or a round that exceeded the limit. */
class CutOff extends Error {}

async function transformers({
  model: name,
  dtype,
  device,
  threads,
  members,
  prefixes,
  segmentTokens,
  repeats: count,
  limitSeconds,
}: PeerPlan): Promise<PeerSeries[]> {
  const address = new URL("./transformers.min.js", document.baseURI).href;
  const { env, AutoModelForCausalLM, BaseStreamer, InterruptableStoppingCriteria, Tensor } =
    (await import(address)) as Transformers;
  env.localModelPath = new URL("./models/", document.baseURI).href;
  Object.assign(env, { allowLocalModels: true, allowRemoteModels: false, useBrowserCache: false });
  Object.assign(env.backends.onnx.wasm, {
    wasmPaths: new URL("./ort/", document.baseURI).href,
    numThreads: threads,
  });
  const models: Model[] = [];
  for (let member = 0; member < members; member++)
    models.push(await AutoModelForCausalLM.from_pretrained(name, { dtype, device }));
  const series = prefixes.map(emptySeries);

  /** Records the time of each token, and ends a draft at its first step after `until`. */
  class Clock extends BaseStreamer {
    readonly at: number[] = [];
    readonly counts: (GpuCounts | undefined)[] = [];
    readonly ids: bigint[] = [];
    readonly stop = new InterruptableStoppingCriteria();
    readonly #doing: PeerNews["doing"];
    readonly #until: number;
    constructor(doing: PeerNews["doing"], until: number) {
      super();
      this.#doing = doing;
      this.#until = until;
    }
    override put(ids?: bigint[][]): void {
      this.at.push(performance.now());
      this.counts.push(counters?.read());
      this.ids.push(...(ids?.[0] ?? []));
      // The first call brings the prompt, at once; the second the first token, which ends the
      // prefill.
      const { prefix, what } = this.#doing;
      void scope.tellPeer({
        series,
        doing: { prefix, what: what === "prefill" && this.at.length > 1 ? "step" : what },
      });
      if (this.at.length > 2 && performance.now() > this.#until) this.stop.interrupt();
    }
    override end(): void {}
  }
  const inputs = (ids: bigint[]): object => ({
    input_ids: new Tensor("int64", BigInt64Array.from(ids), [1, ids.length]),
    attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), [1, ids.length]),
  });
  const prompt = (tokens: number): bigint[] =>
    Array.from({ length: tokens }, (_, index) => BigInt(300 + ((index * 7) % 600)));
  const draft = (model: Model, ids: bigint[], clock: Clock): Promise<unknown> =>
    model.generate({
      ...inputs(ids),
      max_new_tokens: segmentTokens,
      min_new_tokens: segmentTokens,
      do_sample: false,
      streamer: clock,
      stopping_criteria: clock.stop,
    });

  /**
   * Drafts by `generate`, then one forward pass for each member and candidate, and the mean raw
   * logit of its tokens.
   */
  const round = async (ids: bigint[], doing: PeerNews["doing"]): Promise<number[][]> => {
    const until = performance.now() + 1000 * limitSeconds;
    const goOn = async (): Promise<void> => {
      await scope.tellPeer({ series, doing });
      if (performance.now() > until) throw new CutOff();
    };
    const drafts: bigint[][] = [];
    for (const model of models) {
      const clock = new Clock(doing, until);
      await draft(model, ids, clock);
      drafts.push(clock.ids.slice(ids.length));
      await goOn();
    }
    const scores: number[][] = [];
    for (const model of models) {
      const row: number[] = [];
      for (const candidate of drafts) {
        const { logits } = await model(inputs([...ids, ...candidate]));
        const vocabulary = logits.dims[2]!;
        const sum = candidate.reduce(
          (total, id, index) =>
            total + logits.data[(ids.length + index - 1) * vocabulary + Number(id)]!,
          0,
        );
        row.push(sum / candidate.length);
        if (scores.length + 1 < models.length || row.length < drafts.length) await goOn();
      }
      scores.push(row);
    }
    return scores;
  };

  for (const at of series) {
    const ids = prompt(at.prefix);
    const alone = new Repeats(count, limitSeconds);
    while (alone.due) {
      const doing = { prefix: at.prefix, what: "prefill" } as const;
      await scope.tellPeer({ series, doing });
      const started = performance.now();
      const clock = new Clock(doing, started + 1000 * limitSeconds);
      await draft(models[0]!, ids, clock);
      if (!alone.counts(performance.now() - started)) continue;
      at.cold = alone.cold;
      const steps = clock.at.slice(1);
      at.prefillMs.push(steps[0]! - started);
      for (let step = 1; step < steps.length; step++)
        at.stepMs.push(steps[step]! - steps[step - 1]!);
      const [before, after] = clock.counts.slice(-2);
      if (before && after) at.stepCounts = since(before, after);
    }
    if (members === 1) continue;
    const together = new Repeats(count, limitSeconds);
    while (together.due) {
      const before = counters?.read();
      const begun = performance.now();
      try {
        const scores = await round(ids, { prefix: at.prefix, what: "round" });
        if (scores.flat().some((score) => !Number.isFinite(score)))
          throw new Error("a score is no number");
      } catch (error) {
        if (!(error instanceof CutOff)) throw error;
        // After a complete round, that one is reported.
        if (at.roundMs.length === 0)
          at.atLeastMs = { ...at.atLeastMs, round: performance.now() - begun };
        break;
      }
      const ms = performance.now() - begun;
      if (!together.counts(ms)) continue;
      at.roundMs.push(ms);
      const after = counters?.read();
      if (before && after) at.roundCounts = since(before, after);
    }
  }
  for (const model of models) await model.dispose();
  return series;
}
