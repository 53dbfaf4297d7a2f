/**
 * Storage of downloaded models: folders of numbered parts in the origin's private file system
 * (OPFS), or in memory without one.
 */
import { type Access, openAccess, opensFiles } from "./access.ts";
import { StorageFailure } from "../protocol/errors.ts";

/** A part open for writing, exclusively across tabs. */
export interface OpenPart {
  size(): number;
  /** Fills `into` from offset `at` as far as the part goes; returns the number of bytes. */
  read(at: number, into: Uint8Array<ArrayBuffer>): number;
  /** Throws the platform's QuotaExceededError if there is no room. */
  write(at: number, bytes: Uint8Array<ArrayBuffer>): void;
  truncate(size: number): void;
  flush(): void;
  close(): void;
}

/** One model's folder. */
export interface Folder {
  open(part: string): Promise<OpenPart>;
  /** Present content of a part, readable without opening it; undefined if missing. */
  blob(part: string): Promise<Blob | undefined>;
  /** Handle of a part for another thread to open; undefined if missing or in memory. */
  handle(part: string): Promise<FileSystemFileHandle | undefined>;
}

/** Replaces the content of a part. */
export async function writePart(
  folder: Folder,
  part: string,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const file = await folder.open(part);
  try {
    file.truncate(0);
    file.write(0, bytes);
    file.flush();
  } finally {
    file.close();
  }
}

export interface Shelf {
  /** Whether the content outlives the page. */
  readonly persistent: boolean;
  list(): Promise<string[]>;
  folder(name: string): Promise<Folder | undefined>;
  create(name: string): Promise<Folder>;
  remove(name: string): Promise<void>;
}

const models = "conclave-models";

/** Private file systems that were tried, by their managers. */
const tried = new WeakMap<StorageManager, Promise<FileSystemDirectoryHandle | undefined>>();

/** A folder of the origin's private file system if it is writable from here, else memory. */
export async function openShelf(
  storage: StorageManager | undefined = globalThis.navigator?.storage,
  place = models,
): Promise<Shelf> {
  const root = storage && (await writableRoot(storage));
  const folder = await root?.getDirectoryHandle(place, { create: true }).catch(() => undefined);
  return folder ? new PrivateFiles(folder) : new MemoryShelf();
}

/** The private file system if it is writable from here; tried once. */
function writableRoot(storage: StorageManager): Promise<FileSystemDirectoryHandle | undefined> {
  const attempt = async (): Promise<FileSystemDirectoryHandle | undefined> => {
    // Private windows of some browsers have the functions but throw.
    const root = opensFiles() ? await storage.getDirectory?.().catch(() => undefined) : undefined;
    return root && (await isWritable(root)) ? root : undefined;
  };
  const known = tried.get(storage) ?? attempt();
  tried.set(storage, known);
  return known;
}

/** The workers' folder for reading, since the page can't write there; undefined if missing. */
export async function openShelfToRead(): Promise<Shelf | undefined> {
  const root = await globalThis.navigator?.storage?.getDirectory?.().catch(() => undefined);
  const folder = await root?.getDirectoryHandle(models).catch(() => undefined);
  return folder && new PrivateFiles(folder);
}

/** Whether files can be opened for writing there, which only trying shows. */
async function isWritable(root: FileSystemDirectoryHandle): Promise<boolean> {
  const name = `conclave-trial-${Math.random()}`; // Other tabs try too.
  try {
    const file = await root.getFileHandle(name, { create: true });
    (await openAccess(file)).close();
  } catch (error) {
    const removed = root.removeEntry(name).catch(() => undefined);
    // No answer is no refusal, and this may get none either.
    if (isLate(error)) return true;
    await removed;
    // On a full disk stored files can still be read.
    return isFull(error);
  }
  await root.removeEntry(name).catch(() => undefined);
  return true;
}

/** Whether a write failed for lack of room. */
export const isFull = (error: unknown): boolean =>
  error instanceof Error && error.name === "QuotaExceededError";
const isLate = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "TimeoutError";
const isMissing = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "NotFoundError";
const isLocked = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "NoModificationAllowedError";

class PrivateFiles implements Shelf {
  readonly persistent = true;
  readonly #root: FileSystemDirectoryHandle;

  constructor(root: FileSystemDirectoryHandle) {
    this.#root = root;
  }

  async list(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of this.#root.keys()) names.push(name);
    return names;
  }

  async folder(name: string): Promise<Folder | undefined> {
    const handle = await this.#root.getDirectoryHandle(name).catch(absent);
    return handle && new PrivateFolder(handle);
  }

  async create(name: string): Promise<Folder> {
    return new PrivateFolder(await this.#root.getDirectoryHandle(name, { create: true }));
  }

  async remove(name: string): Promise<void> {
    await patiently(() => this.#root.removeEntry(name, { recursive: true }).catch(absent));
  }
}

class PrivateFolder implements Folder {
  readonly #handle: FileSystemDirectoryHandle;

  constructor(handle: FileSystemDirectoryHandle) {
    this.#handle = handle;
  }

  async open(part: string): Promise<OpenPart> {
    const file = await this.#handle.getFileHandle(part, { create: true });
    return patiently(async () => new PrivatePart(await openAccess(file)));
  }

  async blob(part: string): Promise<Blob | undefined> {
    const file = await this.handle(part);
    return file?.getFile();
  }

  async handle(part: string): Promise<FileSystemFileHandle | undefined> {
    return this.#handle.getFileHandle(part).catch(absent);
  }
}

class PrivatePart implements OpenPart {
  readonly #handle: Access;

  constructor(handle: Access) {
    this.#handle = handle;
  }

  size(): number {
    return this.#handle.getSize();
  }

  read(at: number, into: Uint8Array<ArrayBuffer>): number {
    return this.#handle.read(into, { at });
  }

  write(at: number, bytes: Uint8Array<ArrayBuffer>): void {
    // A full disk may also show as a short write.
    const written = this.#handle.write(bytes, { at });
    if (written !== bytes.length)
      throw new DOMException(
        `${written} of ${bytes.length} bytes were written`,
        "QuotaExceededError",
      );
  }

  truncate(size: number): void {
    this.#handle.truncate(size);
  }

  flush(): void {
    this.#handle.flush();
  }

  close(): void {
    this.#handle.close();
  }
}

function absent(error: unknown): undefined {
  if (!isMissing(error)) throw error;
  return undefined;
}

/** Retries for a moment, as a tab just closed or reloaded still holds its files. */
async function patiently<T>(task: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await task();
    } catch (error) {
      if (isLate(error))
        throw new StorageFailure(
          "The browser does not open its stored files. Reload the page, then try again.",
          { cause: error },
        );
      if (!isLocked(error)) throw error;
      if (attempt === 30)
        throw new StorageFailure(
          "The stored model is in use elsewhere. " +
            "Close the other tabs of this page, then try again.",
          { cause: error },
        );
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** Folders in memory, lost with the page. */
export class MemoryShelf implements Shelf {
  readonly persistent: boolean;
  readonly #folders = new Map<string, MemoryFolder>();

  /** `persistent`: lets tests simulate storage that outlives the page. */
  constructor(persistent = false) {
    this.persistent = persistent;
  }

  async list(): Promise<string[]> {
    return [...this.#folders.keys()];
  }

  async folder(name: string): Promise<Folder | undefined> {
    return this.#folders.get(name);
  }

  async create(name: string): Promise<Folder> {
    const folder = this.#folders.get(name) ?? new MemoryFolder();
    this.#folders.set(name, folder);
    return folder;
  }

  async remove(name: string): Promise<void> {
    this.#folders.delete(name);
  }
}

class MemoryFolder implements Folder {
  readonly #parts = new Map<string, MemoryPart>();

  async open(name: string): Promise<OpenPart> {
    const part = this.#parts.get(name) ?? new MemoryPart();
    this.#parts.set(name, part);
    return part;
  }

  async blob(name: string): Promise<Blob | undefined> {
    return this.#parts.get(name)?.blob();
  }

  async handle(): Promise<undefined> {}
}

class MemoryPart implements OpenPart {
  #bytes = new Uint8Array(0);
  #size = 0;

  size(): number {
    return this.#size;
  }

  read(at: number, into: Uint8Array<ArrayBuffer>): number {
    const found = this.#bytes.subarray(
      Math.min(at, this.#size),
      Math.min(at + into.length, this.#size),
    );
    into.set(found);
    return found.length;
  }

  write(at: number, bytes: Uint8Array<ArrayBuffer>): void {
    const end = at + bytes.length;
    if (end > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(end, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, this.#size));
      this.#bytes = larger;
    }
    this.#bytes.set(bytes, at);
    this.#size = Math.max(this.#size, end);
  }

  truncate(size: number): void {
    this.#bytes.fill(0, Math.min(size, this.#size), this.#size);
    if (size > this.#bytes.length) this.write(size, new Uint8Array(0));
    this.#size = size;
  }

  flush(): void {}
  close(): void {}

  blob(): Blob {
    return new Blob([this.#bytes.subarray(0, this.#size)]);
  }
}
