/**
 * System prompts as members have read them, kept for later visits: a folder each on a shelf of
 * their own, few and of bounded size, the least recently used gone first. What is damaged, cut
 * short or unknown is deleted and as if it had never been; where files don't outlive the page
 * nothing is kept.
 */
import { nullable, number, oneOf, shape, text } from "../protocol/check.ts";
import type { Locks } from "./locks.ts";
import type { Folder, Shelf } from "./shelf.ts";

const aboutPart = "about";
const prefixPart = "prefix";
const lock = "conclave-prompts";
/** An `about` that is longer is none of ours. */
const mostAboutBytes = 4096;

/**
 * `of`: the reference of the model that read it; null where it came without one. `used`: when, in
 * ms.
 */
const about = shape({ format: oneOf("prompt-1"), of: nullable(text), bytes: number, used: number });

export interface PromptsOptions {
  open: () => Promise<Shelf>;
  locks: Locks;
  /** How many are kept at most. */
  most?: number;
  /** Bytes of all of them, at most. */
  mostBytes?: number;
  now?: () => number;
}

/** One of them. */
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
    this.#options = { most: 8, mostBytes: 256 << 20, now: Date.now, ...options };
  }

  /** Whether anything can be kept here. Never rejects. */
  async keeps(): Promise<boolean> {
    return this.#place().then(
      ({ persistent }) => persistent,
      () => false,
    );
  }

  /** The bytes that were kept under a key; undefined where there are none. Never rejects. */
  async get(key: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      const folder = await (await this.#place()).folder(key);
      if (!folder) return undefined;
      // Who writes there holds it for a moment.
      const release = await this.#options.locks.hold(
        lock,
        "shared",
        new AbortController().signal,
        () => undefined,
      );
      let found: Uint8Array<ArrayBuffer> | undefined;
      try {
        const known = await described(key, folder);
        const blob = known && (await folder.blob(prefixPart));
        if (blob && blob.size === known.bytes) found = new Uint8Array(await blob.arrayBuffer());
      } finally {
        release();
      }
      if (!found) await this.delete(key);
      return found;
    } catch {
      return undefined;
    }
  }

  /**
   * Keeps bytes under a key, if there is room; who reads them again was the last to use them. Never
   * rejects.
   */
  async put(key: string, of: string | null, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const { most, mostBytes } = this.#options;
    await this.#alone(async (shelf) => {
      if (bytes.length > mostBytes) return;
      const known = await all(shelf);
      // What has no description is of a write that did not end.
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
        await write(folder, prefixPart, bytes);
        await this.#note(folder, { of, bytes: bytes.length });
      } catch {
        await shelf.remove(key); // a full disk, most likely
      }
    });
  }

  /** Notes that one was used just now. Never rejects. */
  async touch(key: string): Promise<void> {
    await this.#alone(async (shelf) => {
      const folder = await shelf.folder(key);
      const known = folder && (await described(key, folder));
      if (known) await this.#note(folder, known);
    });
  }

  /** Deletes one, if it is there. Never rejects. */
  async delete(key: string): Promise<void> {
    await this.#alone((shelf) => shelf.remove(key));
  }

  /** Deletes those of a model, or all of them. Never rejects: what is in use elsewhere stays. */
  async deleteOf(ref?: string): Promise<void> {
    await this.#alone(async (shelf) => {
      for (const { key, of } of await all(shelf))
        if (ref === undefined || of === ref) await shelf.remove(key);
    });
  }

  /** What is kept. Never rejects. */
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

  #note(folder: Folder, { of, bytes }: Pick<KeptPrompt, "of" | "bytes">): Promise<void> {
    return write(
      folder,
      aboutPart,
      new TextEncoder().encode(
        JSON.stringify({ format: "prompt-1", of, bytes, used: this.#options.now() }),
      ),
    );
  }

  /**
   * While nobody else reads or writes; where somebody does, or anything fails, it is left undone.
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
      // The next visit reads the prompt anew.
    }
  }
}

/** Those that are whole, as far as their descriptions tell. */
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

async function write(folder: Folder, part: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const file = await folder.open(part);
  try {
    file.truncate(0);
    file.write(0, bytes);
    file.flush();
  } finally {
    file.close();
  }
}
