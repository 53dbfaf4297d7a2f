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
/** Tokens that run at once; longer passes run in turns (crates/model, gpu_room.rs). */
const turnTokens = 256;
/** Logits are kept for as many tokens of a pass as fit into this, at least for one. */
const logitsBytes = 16 * 2 ** 20;
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

/**
 * Memory with room for `context` tokens: on the GPU as the engine allocates it (crates/model,
 * memory.rs), on the CPU about so, with keys and values in 16 bits where weights are rounded too.
 */
export function memoryOf({ shape, format }: CatalogueModel, context: number, backend: "webgpu" | "cpu"): Memory {
  const { layers, hidden, heads, kvHeads, headDim, feedForward, vocabulary, normed = false } = shape;
  const query = heads * headDim;
  const keys = kvHeads * headDim;
  const tokens = Math.min(context, shape.context);
  // Rows of logits that the head makes at once, and in how many turns it makes all; a turn's place begins at a multiple of 256 bytes.
  const rows = Math.min(Math.max(Math.floor(logitsBytes / (4 * vocabulary)), 1), passRows);
  const turns = Math.ceil(passRows / rows);
  const inTurns = (bytes: number): number => turns * 256 * Math.ceil((rows * bytes) / 256);
  const held = (block: Block): number => (backend === "cpu" ? onCpu[kept(block)] : undefined) ?? perWeight[kept(block)];
  const weights = matrices(shape, format).reduce((sum, { block, weights }) => sum + weights * held(block), 0);
  // Two norms a layer and one at the end; the table of one rotary embedding.
  const vectors = 4 * hidden * (2 * layers + 1) + 4 * tokens * headDim;
  const activations = 3 * hidden + (normed ? 3 : 2) * (query + keys) + 3 * feedForward;
  // Each token with its place, its last hidden state; what the head picks, reads and makes, and the scores.
  const tokenRoom = passRows * (4 + 16 + 4 * hidden);
  const headRoom = 4 * rows * (hidden + vocabulary) + 2 * inTurns(4) + inTurns(8);
  return {
    weights: weights + vectors,
    kv: 2 * layers * (tokens + passRows) * (backend === "cpu" && format !== "F16" ? 2 * keys + 4 * kvHeads : 4 * keys),
    scratch: turnTokens * 4 * activations + tokenRoom + headRoom,
  };
}

export const total = ({ weights, kv, scratch }: Memory): number => weights + kv + scratch;
