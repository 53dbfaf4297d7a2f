/**
 * What a model takes, computed from its shape: the bytes of its file, and memory while it runs.
 * Where the hub has been asked, its exact file sizes stand in for the computed ones.
 */
import type { CatalogueModel, FileFormat, ModelShape } from "./catalogue.ts";

/** Bytes of memory: weights as the GPU holds them, keys and values of the whole context, room for a pass. */
export interface Memory {
  weights: number;
  kv: number;
  scratch: number;
}

/** Rows a pass may add behind the context, and its most tokens: the engine's own number (crates/model, pass.rs). */
const passRows = 512;
/** Tokens that run at once; longer passes run in turns (crates/model, gpu_scratch.rs). */
const turnTokens = 256;
/** Hidden states that are kept: the prefix's last, a draft's, a pass's (crates/model, slots.rs). */
const slots = 1 + 64 + passRows;
/** Bytes that every device binds as one buffer: gate and up in one where they fit. */
const bindable = 128 * 2 ** 20;
/** A GGUF's own vocabulary: a token's text, score, type and its merge rule, measured over several families. */
const bytesPerToken = 40;

type Block = "F16" | "Q8_0" | "Q4_0" | "Q4_K" | "Q5_K" | "Q6_K";

/** Bytes a weight takes in blocks of each format. */
const perWeight: Record<Block, number> = { F16: 2, Q8_0: 34 / 32, Q4_0: 18 / 32, Q4_K: 144 / 256, Q5_K: 176 / 256, Q6_K: 210 / 256 };

/** What the engine holds in place of a block that it has no products for. */
const kept = (block: Block): Block => (block === "Q5_K" ? "Q8_0" : block);
/** On the CPU some blocks are unpacked halfway (crates/cpu, packed.rs). */
const onCpu: Partial<Record<Block, number>> = { Q4_K: 148 / 256, Q6_K: 274 / 256 };

interface Matrices {
  block: Block;
  weights: number;
}

/** Layers in which llama.cpp's mixtures keep `attn_v` and `ffn_down` finer: the first and the last eighth, and every third between. */
const finer = (layer: number, layers: number): boolean => {
  const eighth = Math.floor(layers / 8);
  return layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
};

function matrices(shape: ModelShape, format: FileFormat): Matrices[] {
  const { layers, hidden, heads, kvHeads, headDim, feedForward, vocabulary, tied, fused } = shape;
  const mixed = format === "Q4_K_M";
  const plain: Block = mixed ? "Q4_K" : format;
  const fine: Block = mixed ? "Q6_K" : format;
  const query = hidden * heads * headDim;
  const keys = hidden * kvHeads * headDim;
  const wide = hidden * feedForward;
  const all: Matrices[] = [{ block: tied ? fine : plain, weights: hidden * vocabulary }];
  if (!tied) all.push({ block: fine, weights: hidden * vocabulary });
  for (let layer = 0; layer < layers; layer++) {
    const better = finer(layer, layers) ? fine : plain;
    if (fused) all.push({ block: mixed ? "Q5_K" : format, weights: query + 2 * keys });
    else all.push({ block: plain, weights: query + keys }, { block: better, weights: keys });
    all.push({ block: plain, weights: query + 2 * wide }, { block: better, weights: wide });
  }
  return all;
}

/** Bytes of the model's file. */
export function fileBytes({ shape, format }: CatalogueModel): number {
  const blocks = matrices(shape, format).reduce((sum, { block, weights }) => sum + weights * perWeight[block], 0);
  return Math.round(blocks + shape.vocabulary * bytesPerToken);
}

/** The largest power of two up to a number, at least 1. */
const powerBelow = (most: number): number => 1 << (31 - Math.clz32(Math.max(1, most)));

/** Numbers for attention's partial results, where the keys of few queries are shared out (crates/kernels, attention.rs). */
function partials({ heads, kvHeads, headDim }: ModelShape, rows: number): number {
  let most = 4;
  for (let tokens = 1; tokens <= turnTokens; tokens++) {
    const groups = kvHeads * Math.ceil((tokens * heads) / kvHeads / 4);
    const wanted = Math.ceil(128 / groups);
    const alone = powerBelow(Math.min(wanted, headDim > 128 ? 4 : 8, Math.floor(rows / 64)));
    const chunks = Math.max(alone, Math.min(wanted, Math.floor(rows / 256)));
    if (chunks > 1) most = Math.max(most, tokens * heads * chunks * (headDim + 4));
  }
  return most;
}

/** Bytes that passes work in (crates/model, gpu_scratch.rs). */
function scratchBytes(shape: ModelShape, rows: number, gateBytes: number): number {
  const { hidden, heads, kvHeads, headDim, feedForward, vocabulary } = shape;
  const query = heads * headDim;
  const wide = gateBytes > bindable - 16 ? 3 * feedForward : feedForward;
  const perToken = 3 * hidden + (query + 2 * kvHeads * headDim) + 2 * query + wide + 1 + 4;
  const scored = 64 * Math.ceil(slots / 64);
  const scores = 5 * scored + 64 * (2 * (Math.ceil(vocabulary / 16) + scored / 64) + 1);
  const drawing = 3 * vocabulary + 2 * 64 + 2 + 4 * 4;
  return 4 * (turnTokens * perToken + partials(shape, rows) + slots * hidden + scores + drawing);
}

/**
 * Memory with room for `context` tokens: on the GPU as the engine allocates it (crates/model,
 * memory.rs), on the CPU about so. Keys and values have 16 bits where weights are rounded too.
 */
export function memoryOf({ shape, format }: CatalogueModel, context: number, backend: "webgpu" | "cpu"): Memory {
  const { layers, hidden, kvHeads, headDim, feedForward } = shape;
  const tokens = Math.min(context, shape.context);
  const rows = tokens + passRows;
  const held = (block: Block): number => (backend === "cpu" ? onCpu[kept(block)] : undefined) ?? perWeight[kept(block)];
  const weights = matrices(shape, format).reduce((sum, { block, weights }) => sum + weights * held(block), 0);
  // Two norms a layer and one at the end; the table of one rotary embedding.
  const vectors = 4 * hidden * (2 * layers + 1) + 4 * tokens * headDim;
  // A head of short numbers has its unit: on the GPU with a word that keeps rows even.
  const short = 2 * headDim + (backend === "cpu" ? 4 : 8);
  const plain = format === "Q4_K_M" ? "Q4_K" : format;
  return {
    weights: weights + vectors,
    kv: 2 * layers * rows * kvHeads * (format === "F16" ? 4 * headDim : short),
    scratch: scratchBytes(shape, rows, 2 * hidden * feedForward * perWeight[plain]),
  };
}

export const total = ({ weights, kv, scratch }: Memory): number => weights + kv + scratch;
