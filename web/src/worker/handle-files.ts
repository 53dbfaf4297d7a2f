/**
 * A model's files read where they lie, in the origin's private file system: the thread that packs
 * the weights reads them by itself, into one buffer, and no other process has a part in it. Only
 * where a browser opens files for reading alone: elsewhere an open file would keep out other tabs
 * that load the same model.
 */
import { ModelFile } from "../protocol/errors.ts";
import { cutShort, type ModelFiles } from "../protocol/model-files.ts";
import { ReadAhead } from "./read-ahead.ts";

/** As much of FileSystemSyncAccessHandle, which only workers have, as is used. */
interface OpenFile {
  read(into: Uint8Array<ArrayBuffer>, options: { at: number }): number;
  close(): void;
}
type Openable = FileSystemFileHandle & {
  createSyncAccessHandle?(options: { mode: "read-only" }): Promise<OpenFile>;
};

/** Milliseconds after which the event loop gets a turn. */
const longest = 50;

export class HandleFiles implements ModelFiles {
  readonly files: ModelFiles["files"];
  readonly #from: ModelFiles;
  readonly #open: readonly OpenFile[];
  #buffer = new Uint8Array(0);
  #since = performance.now();

  private constructor(from: ModelFiles, open: readonly OpenFile[]) {
    this.files = from.files;
    this.#from = from;
    this.#open = open;
  }

  /**
   * The files by their handles; undefined where they have none, or this browser can't open them so.
   */
  static async open(from: ModelFiles): Promise<HandleFiles | undefined> {
    const { handles, files } = from;
    if (handles?.length !== files.length || !opensForReading()) return undefined;
    const open: OpenFile[] = [];
    try {
      for (const handle of handles as readonly Openable[])
        open.push(await handle.createSyncAccessHandle!({ mode: "read-only" }));
    } catch {
      // Whatever it is, they can be read as blobs.
      for (const file of open) file.close();
      return undefined;
    }
    return new HandleFiles(from, open);
  }

  /** What it gives is good until the next read. */
  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const from = this.#open[file];
    // What is no range of the file is refused by whoever has it. It is also who knows that the load
    // was stopped, and to ask it lets the event loop go on.
    const isRange = length >= 1 && offset + length <= (this.files[file]?.bytes ?? 0);
    if (!from || !isRange) return this.#from.read(file, offset, length);
    if (performance.now() - this.#since > longest) {
      await this.#from.read(file, offset, 1);
      this.#since = performance.now();
    }
    if (this.#buffer.length < length) this.#buffer = new Uint8Array(length);
    const range = this.#buffer.subarray(0, length);
    const { name } = this.files[file]!;
    let count: number;
    try {
      count = from.read(range, { at: offset });
    } catch (error) {
      throw new ModelFile(`${name} can't be read any more (${String(error)}). Load it again.`, {
        cause: error,
      });
    }
    if (count !== length) throw cutShort(name, offset + length);
    return range;
  }

  close(): void {
    for (const file of this.#open) file.close();
    this.#from.close();
  }
}

/** A model's files as they are read soonest from here. */
export async function soonest(files: ModelFiles): Promise<ModelFiles> {
  return (await HandleFiles.open(files)) ?? new ReadAhead(files);
}

/** Browsers without modes open every file for writing as well, and for nobody else. */
function opensForReading(): boolean {
  const { FileSystemSyncAccessHandle: handle } = globalThis as {
    FileSystemSyncAccessHandle?: { prototype: object };
  };
  return handle !== undefined && "mode" in handle.prototype;
}
