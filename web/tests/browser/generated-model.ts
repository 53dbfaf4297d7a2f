/**
 * A GGUF file of any size that loads as a llama model: real shapes and vocabulary, meaningless
 * weights. For what depends on size alone.
 */
import { open, type FileHandle } from "node:fs/promises";

export interface Shape {
  layers: number;
  hidden: number;
  heads: number;
  kvHeads: number;
  feedForward: number;
  vocabulary: number;
}

/** Values of GGUF metadata by their type; integers are uint32. */
type Value = number | string | { float: number } | { strings: string[] } | { int32: number[] };

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
};
const float = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const text = (value: string): Buffer =>
  Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);

function encode(value: Value): Buffer {
  if (typeof value === "number") return Buffer.concat([u32(4), u32(value)]);
  if (typeof value === "string") return Buffer.concat([u32(8), text(value)]);
  if ("float" in value) return Buffer.concat([u32(6), float(value.float)]);
  if ("strings" in value)
    return Buffer.concat([u32(9), u32(8), u64(value.strings.length), ...value.strings.map(text)]);
  return Buffer.concat([
    u32(9),
    u32(5),
    u64(value.int32.length),
    Buffer.from(new Int32Array(value.int32).buffer),
  ]);
}

/** The characters that byte-level BPE writes for the 256 bytes. */
function byteCharacters(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(printable(byte) ? byte : next++),
  );
}

/** Bytes, then each token so far followed by a byte, then an end token. */
function vocabulary(size: number): { tokens: string[]; types: number[]; merges: string[] } {
  const bytes = byteCharacters();
  const tokens = [...bytes];
  const merges: string[] = [];
  for (let index = 0; tokens.length < size - 1; index++) {
    const [left, right] = [tokens[Math.floor(index / 256)]!, bytes[index % 256]!];
    tokens.push(left + right);
    merges.push(`${left} ${right}`);
  }
  tokens.push("<|end|>");
  return { tokens, types: tokens.map((_, id) => (id === size - 1 ? 3 : 1)), merges };
}

const q8_0 = { type: 8, block: 32, bytes: 34 };
const f32 = { type: 0, block: 1, bytes: 4 };

/** Writes the file; returns its size in bytes. */
export async function writeModel(path: string, shape: Shape): Promise<number> {
  const { layers, hidden, heads, kvHeads, feedForward } = shape;
  const kv = (hidden / heads) * kvHeads;
  const { tokens, types, merges } = vocabulary(shape.vocabulary);
  const metadata: [string, Value][] = [
    ["general.architecture", "llama"],
    ["llama.context_length", 4096],
    ["llama.embedding_length", hidden],
    ["llama.block_count", layers],
    ["llama.feed_forward_length", feedForward],
    ["llama.attention.head_count", heads],
    ["llama.attention.head_count_kv", kvHeads],
    ["llama.attention.layer_norm_rms_epsilon", { float: 1e-5 }],
    ["llama.rope.freq_base", { float: 500_000 }],
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", "llama-bpe"],
    ["tokenizer.ggml.tokens", { strings: tokens }],
    ["tokenizer.ggml.token_type", { int32: types }],
    ["tokenizer.ggml.merges", { strings: merges }],
    ["tokenizer.ggml.eos_token_id", tokens.length - 1],
    [
      "tokenizer.chat_template",
      "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}",
    ],
  ];
  const block = (layer: number): [string, number[]][] => [
    [`blk.${layer}.attn_norm.weight`, [hidden]],
    [`blk.${layer}.attn_q.weight`, [hidden, hidden]],
    [`blk.${layer}.attn_k.weight`, [hidden, kv]],
    [`blk.${layer}.attn_v.weight`, [hidden, kv]],
    [`blk.${layer}.attn_output.weight`, [hidden, hidden]],
    [`blk.${layer}.ffn_norm.weight`, [hidden]],
    [`blk.${layer}.ffn_gate.weight`, [hidden, feedForward]],
    [`blk.${layer}.ffn_up.weight`, [hidden, feedForward]],
    [`blk.${layer}.ffn_down.weight`, [feedForward, hidden]],
  ];
  const tensors: [string, number[]][] = [
    ["token_embd.weight", [hidden, shape.vocabulary]],
    ...Array.from({ length: layers }, (_, layer) => block(layer)).flat(),
    ["output_norm.weight", [hidden]],
  ];
  let offset = 0;
  const placed = tensors.map(([name, sizes]) => {
    const format = sizes.length === 1 ? f32 : q8_0;
    const bytes =
      (sizes.reduce((product, size) => product * size, 1) / format.block) * format.bytes;
    const at = offset;
    offset += Math.ceil(bytes / 32) * 32;
    return {
      header: Buffer.concat([
        text(name),
        u32(sizes.length),
        ...sizes.map(u64),
        u32(format.type),
        u64(at),
      ]),
      format,
      at,
      bytes,
    };
  });
  const header = Buffer.concat([
    Buffer.from("GGUF"),
    u32(3),
    u64(placed.length),
    u64(metadata.length),
    ...metadata.map(([key, value]) => Buffer.concat([text(key), encode(value)])),
    ...placed.map((tensor) => tensor.header),
  ]);
  const start = Math.ceil(header.length / 32) * 32;
  const file = await open(path, "w");
  try {
    await file.write(header);
    for (const { format, at, bytes } of placed)
      await fill(file, start + at, bytes, format === f32 ? ones : blocks);
    // The last tensor's padding.
    await file.truncate(start + offset);
  } finally {
    await file.close();
  }
  return start + offset;
}

const ones = Buffer.from(new Float32Array(1024).fill(1).buffer);
/** Blocks of Q8_0: a scale of 2^-11, and 32 bytes that differ between blocks. */
const blocks = Buffer.alloc(34 * 32_768);
for (let at = 0, state = 1; at < blocks.length; at += 34) {
  blocks.writeUInt16LE(0x1000, at);
  for (let byte = 2; byte < 34; byte++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    blocks[at + byte] = state >>> 24;
  }
}

async function fill(
  file: FileHandle,
  position: number,
  bytes: number,
  pattern: Buffer,
): Promise<void> {
  for (let done = 0; done < bytes; done += pattern.length) {
    await file.write(pattern, 0, Math.min(pattern.length, bytes - done), position + done);
  }
}
