/**
 * Reads a model's files in blocks: the engine asks for one tensor after the other, many of them of
 * a few kilobytes, and each range costs a way to another thread, or to the disk, and back. Of a
 * tensor that is asked for in pieces the next one is read while the last is packed.
 */
import type { ModelFiles } from "../protocol/model-files.ts";

/** Bytes of a block. Ranges that are longer are pieces of large tensors, and read as they are. */
export const blockBytes = 512 * 1024;
/** Blocks that are kept: tensors of a layer are not asked for in the order in which they lie. */
const most = 4;

/** A range of a file. */
interface Range {
  file: number;
  offset: number;
  length: number;
}

export class ReadAhead implements ModelFiles {
  readonly files: ModelFiles["files"];
  readonly #from: ModelFiles;
  /** By file and number; the one that was asked for last comes last. */
  readonly #blocks = new Map<string, Promise<Uint8Array>>();
  /** The last piece. */
  #last: Range | undefined;
  /** What is read already of what lies behind it. */
  #next: (Range & { data: Promise<Uint8Array> }) | undefined;

  constructor(from: ModelFiles) {
    this.files = from.files;
    this.#from = from;
  }

  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const end = offset + length;
    // What is no range of the file is refused by whoever has it.
    if (length < 1 || end > (this.files[file]?.bytes ?? 0))
      return this.#from.read(file, offset, length);
    if (length > blockBytes) return this.#piece({ file, offset, length });
    const first = Math.floor(offset / blockBytes);
    const last = Math.floor((end - 1) / blockBytes);
    const from = offset - first * blockBytes;
    const block = await this.#block(file, first);
    if (first === last) return block.subarray(from, from + length);
    const range = new Uint8Array(length);
    range.set(block.subarray(from));
    range.set(
      (await this.#block(file, last)).subarray(0, end - last * blockBytes),
      block.length - from,
    );
    return range;
  }

  async #piece(piece: Range): Promise<Uint8Array> {
    const { file, offset, length } = piece;
    const [last, next] = [this.#last, this.#next];
    this.#last = piece;
    this.#next = undefined;
    const read =
      next && follows(next, piece) && next.length >= length
        ? next.data.then((data) => data.subarray(0, length))
        : this.#from.read(file, offset, length);
    const range = await read;
    const behind = {
      file,
      offset: offset + length,
      length: Math.min(length, this.files[file]!.bytes - offset - length),
    };
    // A piece that follows another is seldom the last.
    if (
      last &&
      follows({ ...last, offset: last.offset + last.length }, piece) &&
      behind.length > 0
    ) {
      const data = this.#from.read(file, behind.offset, behind.length);
      // Told to whoever asks for it.
      data.catch(() => undefined);
      this.#next = { ...behind, data };
    }
    return range;
  }

  close(): void {
    this.#blocks.clear();
    this.#next = undefined;
    this.#from.close();
  }

  #block(file: number, number: number): Promise<Uint8Array> {
    const key = `${file} ${number}`;
    const offset = number * blockBytes;
    const block =
      this.#blocks.get(key) ??
      this.#from.read(file, offset, Math.min(blockBytes, this.files[file]!.bytes - offset));
    this.#blocks.delete(key);
    this.#blocks.set(key, block);
    // One that could not be read may be asked for again.
    block.catch(() => this.#blocks.delete(key));
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > most && oldest !== undefined) this.#blocks.delete(oldest);
    return block;
  }
}

const follows = (begin: Pick<Range, "file" | "offset">, piece: Range): boolean =>
  begin.file === piece.file && begin.offset === piece.offset;
