/** Shapes of small published models for random weights: real sizes, meaningless words. */

/** A decoder's sizes, and what its family adds. Numbers are those of the makers' `config.json`. */
export interface Shape {
  name: string;
  /** GGUF's name of the family. */
  architecture: "llama" | "qwen2" | "qwen3";
  layers: number;
  hidden: number;
  heads: number;
  kvHeads: number;
  headDim: number;
  feedForward: number;
  vocabulary: number;
  ropeBase: number;
}

/** The GGUF formats of random weights. */
export type BlockFormat = "Q4_0" | "Q8_0";

/**
 * `tiny` is for trying the bench itself. Llama 3.2's RoPE frequency scaling is left out: it costs
 * nothing.
 */
export const shapes: readonly Shape[] = [
  {
    name: "tiny",
    architecture: "llama",
    layers: 4,
    hidden: 128,
    heads: 4,
    kvHeads: 2,
    headDim: 32,
    feedForward: 384,
    vocabulary: 2048,
    ropeBase: 10_000,
  },
  {
    name: "SmolLM2-135M",
    architecture: "llama",
    layers: 30,
    hidden: 576,
    heads: 9,
    kvHeads: 3,
    headDim: 64,
    feedForward: 1536,
    vocabulary: 49_152,
    ropeBase: 100_000,
  },
  {
    name: "SmolLM2-360M",
    architecture: "llama",
    layers: 32,
    hidden: 960,
    heads: 15,
    kvHeads: 5,
    headDim: 64,
    feedForward: 2560,
    vocabulary: 49_152,
    ropeBase: 100_000,
  },
  {
    name: "Qwen2.5-0.5B",
    architecture: "qwen2",
    layers: 24,
    hidden: 896,
    heads: 14,
    kvHeads: 2,
    headDim: 64,
    feedForward: 4864,
    vocabulary: 151_936,
    ropeBase: 1_000_000,
  },
  {
    name: "Qwen3-0.6B",
    architecture: "qwen3",
    layers: 28,
    hidden: 1024,
    heads: 16,
    kvHeads: 8,
    headDim: 128,
    feedForward: 3072,
    vocabulary: 151_936,
    ropeBase: 1_000_000,
  },
  {
    name: "Llama-3.2-1B",
    architecture: "llama",
    layers: 16,
    hidden: 2048,
    heads: 32,
    kvHeads: 8,
    headDim: 64,
    feedForward: 8192,
    vocabulary: 128_256,
    ropeBase: 500_000,
  },
  {
    name: "Qwen2.5-1.5B",
    architecture: "qwen2",
    layers: 28,
    hidden: 1536,
    heads: 12,
    kvHeads: 2,
    headDim: 128,
    feedForward: 8960,
    vocabulary: 151_936,
    ropeBase: 1_000_000,
  },
];

/** A tensor of a GGUF file. A product sums over `columns`; vectors have one row. */
export interface ShapedTensor {
  name: string;
  columns: number;
  rows: number;
  format: BlockFormat | "F32";
}

/** All tensors of a model of this shape with a tied head, in the order of the file. */
export function tensorsOf(shape: Shape, format: BlockFormat): ShapedTensor[] {
  const { hidden, heads, kvHeads, headDim, feedForward, vocabulary } = shape;
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  const tensors: ShapedTensor[] = [];
  const matrix = (name: string, columns: number, rows: number) =>
    tensors.push({ name: `${name}.weight`, columns, rows, format });
  const vector = (name: string, columns: number) =>
    tensors.push({ name, columns, rows: 1, format: "F32" });
  matrix("token_embd", hidden, vocabulary);
  for (let layer = 0; layer < shape.layers; layer++) {
    const block = `blk.${layer}`;
    vector(`${block}.attn_norm.weight`, hidden);
    for (const [name, rows] of [
      ["q", queries],
      ["k", keys],
      ["v", keys],
    ] as const) {
      matrix(`${block}.attn_${name}`, hidden, rows);
      if (shape.architecture === "qwen2") vector(`${block}.attn_${name}.bias`, rows);
      if (shape.architecture === "qwen3" && name !== "v")
        vector(`${block}.attn_${name}_norm.weight`, headDim);
    }
    matrix(`${block}.attn_output`, queries, hidden);
    vector(`${block}.ffn_norm.weight`, hidden);
    matrix(`${block}.ffn_gate`, hidden, feedForward);
    matrix(`${block}.ffn_up`, hidden, feedForward);
    matrix(`${block}.ffn_down`, feedForward, hidden);
  }
  vector("output_norm.weight", hidden);
  return tensors;
}

/** Bytes of a block of 32 weights: a scale in f16, then the weights. */
export const blockBytes: Readonly<Record<BlockFormat, number>> = { Q4_0: 18, Q8_0: 34 };

/** Bytes of a tensor in the file. */
export function tensorBytes({ columns, rows, format }: ShapedTensor): number {
  return format === "F32" ? columns * rows * 4 : (columns / 32) * rows * blockBytes[format];
}

/** Bytes of all weights of a model of this shape. */
export function weightBytes(shape: Shape, format: BlockFormat): number {
  return tensorsOf(shape, format).reduce((sum, tensor) => sum + tensorBytes(tensor), 0);
}
