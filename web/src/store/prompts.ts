/**
 * System prompts kept as members have read them, for later visits: a folder each on a shelf of
 * their own, limited in number and size, the least recently used evicted first. Damaged, truncated
 * or unknown ones are deleted and ignored; without persistent files nothing is kept.
 */
import { nullable, number, oneOf, shape, text } from "../protocol/check.ts";
import type { Hold, Locks } from "./locks.ts";
import { writePart, type Folder, type Shelf } from "./shelf.ts";

const aboutPart = "about";
const prefixPart = "prefix";
const lock = "conclave-prompts";
/** Maximum size of an `about` file in bytes; a longer one is invalid. */
const mostAboutBytes = 4096;

/** `of`: reference of the model that read it; null without one. `used`: time of last use in ms. */
const about = shape({ format: oneOf("prompt-1"), of: nullable(text), bytes: number, used: number });

export interface PromptsOptions {
  open: () => Promise<Shelf>;
  locks: Locks;
  /** Maximum number kept. */
  most?: number;
  /** Maximum total size in bytes. */
  mostBytes?: number;
  now?: () => number;
}

/** A kept prompt. */
export interface KeptPrompt {
  key: string;
  of: string | null;
  bytes: number;
  used: number;
}

export class Prompts {
  readonly #options: Required<PromptsOptions>;
  #shelf: Promise<Shelf> | undefined;

  constructor(options: PromptsOptions) {
    this.#options = { most: 16, mostBytes: 256 << 20, now: Date.now, ...options };
  }

  /** Whether anything can be kept here. Never rejects. */
  async keeps(): Promise<boolean> {
    return this.#place().then(
      ({ persistent }) => persistent,
      () => false,
    );
  }

  /** Bytes kept under a key; undefined if there are none. Never rejects. */
  async get(key: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      const shelf = await this.#place();
      const folder = await shelf.folder(key);
      if (!folder) return undefined;
      const release = await this.#hold("shared");
      let found: Uint8Array<ArrayBuffer> | undefined;
      try {
        const known = await described(key, folder);
        const blob = known && (await folder.blob(prefixPart));
        if (blob && blob.size === known.bytes) found = new Uint8Array(await blob.arrayBuffer());
      } finally {
        release();
      }
      if (found) return found;
      // Waits, since a lock just released takes a moment to be free.
      const releaseAll = await this.#hold("exclusive");
      await shelf.remove(key).finally(releaseAll);
      return undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Keeps bytes under a key, if there is room; reading them again counts as their last use. Never
   * rejects.
   */
  async put(key: string, of: string | null, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const { most, mostBytes } = this.#options;
    await this.#alone(async (shelf) => {
      if (bytes.length > mostBytes) return;
      const known = await all(shelf);
      // One without a description is from an interrupted write.
      for (const name of await shelf.list())
        if (known.every((other) => other.key !== name)) await shelf.remove(name);
      const others = known.filter((other) => other.key !== key).sort((a, b) => a.used - b.used);
      let sum = others.reduce((total, other) => total + other.bytes, bytes.length);
      for (let left = others.length; left >= most || sum > mostBytes; left--) {
        const oldest = others.shift();
        if (!oldest) break;
        sum -= oldest.bytes;
        await shelf.remove(oldest.key);
      }
      const folder = await shelf.create(key);
      try {
        await writePart(folder, prefixPart, bytes);
        await this.#note(folder, { of, bytes: bytes.length });
      } catch {
        await shelf.remove(key); // Most likely a full disk.
      }
    });
  }

  /** Records a use. Never rejects. */
  async touch(key: string): Promise<void> {
    await this.#alone(async (shelf) => {
      const folder = await shelf.folder(key);
      const known = folder && (await described(key, folder));
      if (known) await this.#note(folder, known);
    });
  }

  /** Deletes one, if present. Never rejects. */
  async delete(key: string): Promise<void> {
    await this.#alone((shelf) => shelf.remove(key));
  }

  /** Deletes those of a model, or all. Never rejects: those in use elsewhere stay. */
  async deleteOf(ref?: string): Promise<void> {
    await this.#alone(async (shelf) => {
      for (const { key, of } of await all(shelf))
        if (ref === undefined || of === ref) await shelf.remove(key);
    });
  }

  /** Lists the kept prompts. Never rejects. */
  async list(): Promise<KeptPrompt[]> {
    try {
      return await all(await this.#place());
    } catch {
      return [];
    }
  }

  #place(): Promise<Shelf> {
    return (this.#shelf ??= this.#options.open());
  }

  /** Waits for the lock, which others hold for a moment. */
  #hold(mode: Hold): Promise<() => void> {
    return this.#options.locks.hold(lock, mode, new AbortController().signal, () => undefined);
  }

  #note(folder: Folder, { of, bytes }: Pick<KeptPrompt, "of" | "bytes">): Promise<void> {
    return writePart(
      folder,
      aboutPart,
      new TextEncoder().encode(
        JSON.stringify({ format: "prompt-1", of, bytes, used: this.#options.now() }),
      ),
    );
  }

  /**
   * Runs a task under an exclusive lock; skipped if the lock is taken, and abandoned on failure.
   */
  async #alone(task: (shelf: Shelf) => Promise<void>): Promise<void> {
    try {
      const shelf = await this.#place();
      const release = await this.#options.locks.tryHold(lock);
      if (!release) return;
      try {
        await task(shelf);
      } finally {
        release();
      }
    } catch {
      // The next visit reads the prompt again.
    }
  }
}

/** Complete ones, by their descriptions. */
async function all(shelf: Shelf): Promise<KeptPrompt[]> {
  const found: KeptPrompt[] = [];
  for (const key of await shelf.list()) {
    const folder = await shelf.folder(key);
    const known = folder && (await described(key, folder));
    if (known) found.push(known);
  }
  return found;
}

async function described(key: string, folder: Folder): Promise<KeptPrompt | undefined> {
  const file = await folder.blob(aboutPart);
  if (!file || file.size > mostAboutBytes) return undefined;
  try {
    const { of, bytes, used } = about(JSON.parse(await file.text()), aboutPart);
    return { key, of, bytes, used };
  } catch {
    return undefined;
  }
}
