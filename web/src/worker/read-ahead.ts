/**
 * Reads a model's files in blocks: the engine asks for one tensor after the other, many of them of a few
 * kilobytes, and each range costs a way to another thread, or to the disk, and back.
 */
import type { ModelFiles } from "../protocol/model-files.ts";

/** Bytes of a block. Ranges that are longer are read as they are. */
export const blockBytes = 512 * 1024;
/** Blocks that are kept: tensors of a layer are not asked for in the order in which they lie. */
const most = 4;

export class ReadAhead implements ModelFiles {
  readonly files: ModelFiles["files"];
  readonly #from: ModelFiles;
  /** By file and number; the one that was asked for last comes last. */
  readonly #blocks = new Map<string, Promise<Uint8Array>>();

  constructor(from: ModelFiles) {
    this.files = from.files;
    this.#from = from;
  }

  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const end = offset + length;
    // What is no range of the file is refused by whoever has it.
    if (length > blockBytes || length < 1 || end > (this.files[file]?.bytes ?? 0)) return this.#from.read(file, offset, length);
    const first = Math.floor(offset / blockBytes);
    const last = Math.floor((end - 1) / blockBytes);
    const from = offset - first * blockBytes;
    const block = await this.#block(file, first);
    if (first === last) return block.subarray(from, from + length);
    const range = new Uint8Array(length);
    range.set(block.subarray(from));
    range.set((await this.#block(file, last)).subarray(0, end - last * blockBytes), block.length - from);
    return range;
  }

  close(): void {
    this.#blocks.clear();
    this.#from.close();
  }

  #block(file: number, number: number): Promise<Uint8Array> {
    const key = `${file} ${number}`;
    const offset = number * blockBytes;
    const block = this.#blocks.get(key) ?? this.#from.read(file, offset, Math.min(blockBytes, this.files[file]!.bytes - offset));
    this.#blocks.delete(key);
    this.#blocks.set(key, block);
    // One that could not be read may be asked for again.
    block.catch(() => this.#blocks.delete(key));
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > most && oldest !== undefined) this.#blocks.delete(oldest);
    return block;
  }
}
