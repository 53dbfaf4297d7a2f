/**
 * Reads a model's files in blocks: the engine requests one tensor after the other, many of a few
 * kilobytes, and each range costs a round trip to another thread or to the disk. When a tensor is
 * read in pieces, the next piece is read while the last is packed.
 */
import type { ModelFiles } from "../protocol/model-files.ts";

/** Bytes of a block. Longer ranges are pieces of large tensors, and read as they are. */
export const blockBytes = 512 * 1024;
/** Number of cached blocks: the tensors of a layer are not requested in file order. */
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
  /** Cached blocks by file and number; the most recently used comes last. */
  readonly #blocks = new Map<string, Promise<Uint8Array>>();
  /** Last piece. */
  #last: Range | undefined;
  /** Prefetched range that follows it. */
  #next: (Range & { data: Promise<Uint8Array> }) | undefined;

  constructor(from: ModelFiles) {
    this.files = from.files;
    this.#from = from;
  }

  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const end = offset + length;
    // The original files refuse an invalid range.
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
    // A piece that follows another is rarely the last.
    if (
      last &&
      follows({ ...last, offset: last.offset + last.length }, piece) &&
      behind.length > 0
    ) {
      const data = this.#from.read(file, behind.offset, behind.length);
      // Reported to the reader that requests it.
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
    // A block that could not be read may be requested again.
    block.catch(() => this.#blocks.delete(key));
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > most && oldest !== undefined) this.#blocks.delete(oldest);
    return block;
  }
}

const follows = (begin: Pick<Range, "file" | "offset">, piece: Range): boolean =>
  begin.file === piece.file && begin.offset === piece.offset;
