/**
 * Reads a model's files in place, in the origin's private file system: the thread that packs the
 * weights reads them itself, into one buffer, without another process. Only where a browser can
 * open files read-only: elsewhere an open file would lock out other tabs that load the same model.
 */
import { ModelFile } from "../protocol/errors.ts";
import { cutShort, type ModelFiles } from "../protocol/model-files.ts";
import { type Access, openAccess } from "../store/access.ts";
import { ReadAhead } from "./read-ahead.ts";

type OpenFile = Pick<Access, "read" | "close">;

/** Milliseconds after which to ask the original files whether the load was stopped. */
const longestUnasked = 50;
/**
 * Milliseconds after which to yield to the event loop: the start of a helper, to which it comes
 * several times, is not to take until the end of the load.
 */
const longest = 4;

export class HandleFiles implements ModelFiles {
  readonly files: ModelFiles["files"];
  readonly #from: ModelFiles;
  readonly #open: readonly OpenFile[];
  #buffer = new Uint8Array(0);
  #asked = performance.now();
  #turned = performance.now();

  private constructor(from: ModelFiles, open: readonly OpenFile[]) {
    this.files = from.files;
    this.#from = from;
    this.#open = open;
  }

  /**
   * The files by their handles; undefined if they have none, or if this browser can't open them
   * read-only.
   */
  static async open(from: ModelFiles): Promise<HandleFiles | undefined> {
    const { handles, files } = from;
    if (handles?.length !== files.length || !opensForReading()) return undefined;
    const open: OpenFile[] = [];
    try {
      for (const handle of handles) open.push(await openAccess(handle, { mode: "read-only" }));
    } catch {
      // After any error they can still be read as blobs.
      for (const file of open) file.close();
      return undefined;
    }
    return new HandleFiles(from, open);
  }

  /** The result is valid until the next read. */
  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const from = this.#open[file];
    // The original files refuse an invalid range. They also know whether the load was stopped.
    const isRange = length >= 1 && offset + length <= (this.files[file]?.bytes ?? 0);
    if (!from || !isRange) return this.#from.read(file, offset, length);
    if (performance.now() - this.#asked > longestUnasked) {
      await this.#from.read(file, offset, 1);
      this.#turned = this.#asked = performance.now();
    } else if (performance.now() - this.#turned > longest) {
      await turn();
      this.#turned = performance.now();
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

/** One turn of the event loop. */
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });

/** The fastest reader of a model's files in this thread. */
export async function soonest(files: ModelFiles): Promise<ModelFiles> {
  return (await HandleFiles.open(files)) ?? new ReadAhead(files);
}

/**
 * Whether files can be opened read-only. Browsers without modes open every file exclusively, for
 * writing too.
 */
function opensForReading(): boolean {
  const { FileSystemSyncAccessHandle: handle } = globalThis as {
    FileSystemSyncAccessHandle?: { prototype: object };
  };
  return handle !== undefined && "mode" in handle.prototype;
}
