/**
 * A Hugging Face folder that answers any question with one text: its embedding identifies the
 * token, its head the one that follows, its blocks add nothing. A wrong token, weight or template
 * gives another answer.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const layers = 2;
const hidden = 288;
const heads = 2;
const feedForward = 64;
const end = 256;
const [think, thought] = [257, 258];

/** The characters that byte-level BPE writes for the 256 bytes. */
function byteCharacters(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(printable(byte) ? byte : next++),
  );
}

/** The upper half of the number's f32. */
const bfloat16 = (value: number): number =>
  new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16;

export interface Recital {
  /** The last norm holds NaN. */
  broken?: boolean;
  /** Repeats the text until there is no room left. */
  endless?: boolean;
  /** Its context size in tokens. */
  context?: number;
  /** Its thought before the text, unless its template disables thinking. */
  thinks?: string;
  /** Dimension of a head. */
  headDim?: number;
  /** Replaces its chat template. */
  template?: string;
}

/** Writes the folder; no byte may occur twice in the text and the thought. */
export async function writeRecitingFolder(
  folder: string,
  text: string,
  {
    broken = false,
    endless = false,
    context = 512,
    thinks = "",
    headDim = 32,
    template,
  }: Recital = {},
): Promise<void> {
  const bytes = [...Buffer.from(text)];
  const thinking = [...Buffer.from(thinks)];
  const all = [...bytes, ...thinking];
  if (new Set(all).size < all.length)
    throw new Error(`a byte of ${JSON.stringify(text + thinks)} has two that follow`);
  const vocabulary = thinks === "" ? end + 1 : thought + 1;
  const follower = Array.from({ length: vocabulary }, () => bytes[0]!);
  bytes.forEach(
    (byte, index) => (follower[byte] = bytes[index + 1] ?? (endless ? bytes[0]! : end)),
  );
  if (thinks !== "") {
    follower[end] = think;
    [think, ...thinking].forEach((token, index) => (follower[token] = thinking[index] ?? thought));
  }

  const tensors: [string, number[], (row: number, column: number) => number][] = [
    [
      "model.embed_tokens.weight",
      [vocabulary, hidden],
      (token, column) => (token === column ? 1 : 0),
    ],
    ["model.norm.weight", [hidden], () => (broken ? NaN : 1)],
    [
      "lm_head.weight",
      [vocabulary, hidden],
      (token, column) => (follower[column] === token ? 1 : 0),
    ],
  ];
  for (let layer = 0; layer < layers; layer++) {
    const block = (name: string, sizes: number[], value = 0): void =>
      void tensors.push([`model.layers.${layer}.${name}.weight`, sizes, () => value]);
    block("input_layernorm", [hidden], 1);
    block("self_attn.q_proj", [heads * headDim, hidden]);
    block("self_attn.k_proj", [headDim, hidden]);
    block("self_attn.v_proj", [headDim, hidden]);
    block("self_attn.o_proj", [hidden, heads * headDim]);
    block("post_attention_layernorm", [hidden], 1);
    block("mlp.gate_proj", [feedForward, hidden]);
    block("mlp.up_proj", [feedForward, hidden]);
    block("mlp.down_proj", [hidden, feedForward]);
  }

  const header: Record<string, { dtype: "BF16"; shape: number[]; data_offsets: [number, number] }> =
    {};
  const parts: Buffer[] = [];
  let offset = 0;
  for (const [name, shape, value] of tensors) {
    const [rows, columns] = shape.length === 1 ? [1, shape[0]!] : [shape[0]!, shape[1]!];
    const data = new Uint16Array(rows * columns);
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++)
        data[row * columns + column] = bfloat16(value(row, column));
    parts.push(Buffer.from(data.buffer));
    header[name] = { dtype: "BF16", shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));

  const added = (id: number, content: string, special: boolean) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special,
  });
  const marks =
    thinks === "" ? [] : [added(think, "<think>", false), added(thought, "</think>", false)];
  const opening =
    thinks === ""
      ? ""
      : "{% if enable_thinking is defined and not enable_thinking %}<think></think>\n{% endif %}";
  const files: Record<string, Buffer | string> = {
    "model.safetensors": Buffer.concat([length, json, ...parts]),
    "config.json": JSON.stringify({
      architectures: ["LlamaForCausalLM"],
      model_type: "llama",
      hidden_size: hidden,
      intermediate_size: feedForward,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      num_key_value_heads: 1,
      head_dim: headDim,
      vocab_size: vocabulary,
      max_position_embeddings: context,
      rms_norm_eps: 1e-5,
      rope_theta: 10000,
      hidden_act: "silu",
      tie_word_embeddings: false,
      eos_token_id: end,
      torch_dtype: "bfloat16",
    }),
    "generation_config.json": JSON.stringify({ eos_token_id: end }),
    "tokenizer.json": JSON.stringify({
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: [added(end, "<|end|>", true), ...marks],
      normalizer: null,
      pre_tokenizer: {
        type: "ByteLevel",
        add_prefix_space: false,
        trim_offsets: true,
        use_regex: true,
      },
      post_processor: null,
      decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
      model: {
        type: "BPE",
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        vocab: Object.fromEntries(byteCharacters().map((text, id) => [text, id])),
        merges: [],
      },
    }),
    "tokenizer_config.json": JSON.stringify({
      tokenizer_class: "PreTrainedTokenizerFast",
      eos_token: "<|end|>",
      chat_template:
        template ??
        `{% for message in messages %}{{ message.content }}<|end|>{% endfor %}${opening}`,
    }),
    "README.md": "Not part of the model.",
  };
  await mkdir(folder, { recursive: true });
  for (const [name, contents] of Object.entries(files))
    await writeFile(join(folder, name), contents);
}
