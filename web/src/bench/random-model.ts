/**
 * A virtual GGUF file of random weights: any range is computed when it is read. The same shape,
 * format and seed give the same bytes on every machine.
 */
import type { ModelFiles } from "../protocol/model-files.ts";
import {
  blockBytes,
  tensorBytes,
  tensorsOf,
  type BlockFormat,
  type Shape,
  type ShapedTensor,
} from "./shapes.ts";
import { words } from "./words.ts";

/** GGUF's numbers of value and tensor types. */
const valueType = { u32: 4, f32: 6, flag: 7, text: 8, list: 9 } as const;
const tensorType = { F32: 0, Q4_0: 2, Q8_0: 8 } as const;
const alignment = 32;

/** Longest context that the file claims. */
const contextTokens = 8192;

/**
 * Standard deviation of a block's integers if all are equally likely, by which weights are scaled.
 */
const spread: Readonly<Record<BlockFormat, number>> = { Q4_0: 4.61, Q8_0: 73.9 };

interface Placed extends ShapedTensor {
  /** Offset from the beginning of the file. */
  start: number;
  bytes: number;
  seed: number;
  /** The f16 bits of a block's scale, before the lowest six are drawn. */
  scale: number;
}

export class RandomModel implements ModelFiles {
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly #head: Uint8Array;
  readonly #tensors: Placed[] = [];

  constructor(shape: Shape, format: BlockFormat, seed: number) {
    const tensors = tensorsOf(shape, format);
    this.#head = head(shape, tensors);
    let start = this.#head.length;
    for (const [index, tensor] of tensors.entries()) {
      const bytes = tensorBytes(tensor);
      const scale =
        tensor.format === "F32"
          ? 0
          : halfBits(1 / Math.sqrt(tensor.columns) / spread[tensor.format]) & ~0x3f;
      this.#tensors.push({ ...tensor, start, bytes, scale, seed: mix(seed * 4099 + index) });
      start = aligned(start + bytes);
    }
    this.files = [{ name: `${shape.name}-random-${format}.gguf`, bytes: start }];
  }

  async read(_file: number, offset: number, length: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(length);
    if (offset < this.#head.length) bytes.set(this.#head.subarray(offset, offset + length));
    for (const tensor of this.#tensors) {
      const [from, to] = [
        Math.max(offset, tensor.start),
        Math.min(offset + length, tensor.start + tensor.bytes),
      ];
      if (from < to) fill(bytes.subarray(from - offset, to - offset), tensor, from - tensor.start);
    }
    return bytes;
  }

  close(): void {}
}

/** Fills in a tensor's content from its byte `from` on. */
function fill(bytes: Uint8Array, { name, format, seed, scale }: Placed, from: number): void {
  if (format === "F32") {
    // Norms of 1 and biases of 0 change nothing, at the same cost.
    const value = new Uint8Array(new Float32Array([name.endsWith(".bias") ? 0 : 1]).buffer);
    for (let i = 0; i < bytes.length; i++) bytes[i] = value[(from + i) % 4]!;
    return;
  }
  // Every 32-bit word of the tensor has its own counter, so that any range can be computed alone.
  const first = Math.floor(from / 4);
  const drawn = new Uint32Array(Math.ceil((from + bytes.length) / 4) - first);
  for (let i = 0; i < drawn.length; i++) drawn[i] = mix(seed + first + i);
  bytes.set(new Uint8Array(drawn.buffer, from - first * 4, bytes.length));
  const size = blockBytes[format];
  for (let block = Math.floor(from / size); block * size < from + bytes.length; block++) {
    const bits = scale | (mix(seed ^ block) & 0x3f);
    const at = block * size - from;
    if (at >= 0) bytes[at] = bits & 0xff;
    if (at + 1 >= 0 && at + 1 < bytes.length) bytes[at + 1] = bits >> 8;
  }
}

/** A pseudo-random 32-bit number (the finaliser of MurmurHash3). */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** The bits of a normal f16 from 2^-14 to 1, rounded down. */
export function halfBits(value: number): number {
  const exponent = Math.floor(Math.log2(value));
  return ((exponent + 15) << 10) | Math.floor((value / 2 ** exponent - 1) * 1024);
}

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** The file up to its weights: settings, tokenizer, chat template, and the tensors' offsets. */
function head(shape: Shape, tensors: readonly ShapedTensor[]): Uint8Array {
  const { tokens, merges } = words(shape.vocabulary);
  const out = new Writer();
  const { architecture } = shape;
  const settings: [string, () => void][] = [];
  const text = (key: string, value: string) =>
    settings.push([key, () => (out.u32(valueType.text), out.text(value))]);
  const whole = (key: string, value: number) =>
    settings.push([key, () => (out.u32(valueType.u32), out.u32(value))]);
  const float = (key: string, value: number) =>
    settings.push([key, () => (out.u32(valueType.f32), out.f32(value))]);
  const list = <T>(key: string, type: number, items: readonly T[], write: (item: T) => void) =>
    settings.push([
      key,
      () => (out.u32(valueType.list), out.u32(type), out.u64(items.length), items.forEach(write)),
    ]);

  text("general.architecture", architecture);
  text("general.name", `${shape.name}, random weights`);
  whole(`${architecture}.context_length`, contextTokens);
  whole(`${architecture}.embedding_length`, shape.hidden);
  whole(`${architecture}.block_count`, shape.layers);
  whole(`${architecture}.feed_forward_length`, shape.feedForward);
  whole(`${architecture}.attention.head_count`, shape.heads);
  whole(`${architecture}.attention.head_count_kv`, shape.kvHeads);
  whole(`${architecture}.attention.key_length`, shape.headDim);
  whole(`${architecture}.attention.value_length`, shape.headDim);
  float(`${architecture}.attention.layer_norm_rms_epsilon`, 1e-5);
  float(`${architecture}.rope.freq_base`, shape.ropeBase);
  text("tokenizer.ggml.model", "gpt2");
  text("tokenizer.ggml.pre", "gpt-2");
  list("tokenizer.ggml.tokens", valueType.text, tokens, (token) => out.text(token));
  list("tokenizer.ggml.token_type", valueType.u32 + 1, tokens, (token) =>
    out.u32(token === tokens.at(-1) ? 3 : 1),
  );
  list("tokenizer.ggml.merges", valueType.text, merges, (merge) => out.text(merge));
  whole("tokenizer.ggml.eos_token_id", tokens.length - 1);
  settings.push(["tokenizer.ggml.add_bos_token", () => (out.u32(valueType.flag), out.bytes([0]))]);
  text(
    "tokenizer.chat_template",
    "{% for message in messages %}{{ message['content'] }}{% endfor %}",
  );

  out.bytes([0x47, 0x47, 0x55, 0x46]); // GGUF
  out.u32(3);
  out.u64(tensors.length);
  out.u64(settings.length);
  for (const [key, write] of settings) {
    out.text(key);
    write();
  }
  let offset = 0;
  for (const tensor of tensors) {
    const sizes = tensor.rows === 1 ? [tensor.columns] : [tensor.columns, tensor.rows];
    out.text(tensor.name);
    out.u32(sizes.length);
    for (const size of sizes) out.u64(size);
    out.u32(tensorType[tensor.format]);
    out.u64(offset);
    offset = aligned(offset + tensorBytes(tensor));
  }
  return out.padded(alignment);
}

/** A growing buffer; numbers are little-endian. */
class Writer {
  #bytes = new Uint8Array(1 << 16);
  #length = 0;
  readonly #encoder = new TextEncoder();

  #room(count: number): DataView {
    if (this.#length + count > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    const view = new DataView(this.#bytes.buffer, this.#length, count);
    this.#length += count;
    return view;
  }

  bytes(bytes: ArrayLike<number>): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length - bytes.length);
  }
  u32(value: number): void {
    this.#room(4).setUint32(0, value, true);
  }
  u64(value: number): void {
    this.#room(8).setBigUint64(0, BigInt(value), true);
  }
  f32(value: number): void {
    this.#room(4).setFloat32(0, value, true);
  }
  text(value: string): void {
    const bytes = this.#encoder.encode(value);
    this.u64(bytes.length);
    this.bytes(bytes);
  }
  padded(alignment: number): Uint8Array {
    this.#room(Math.ceil(this.#length / alignment) * alignment - this.#length);
    return this.#bytes.slice(0, this.#length);
  }
}
