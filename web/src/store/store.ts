/**
 * The models of this machine: plans, downloads, lists and deletes them, and opens them for the
 * engine. Only complete and verified models are opened; from then on no request is made to their
 * host.
 */
import { asModel, copyInto } from "./copy.ts";
import { isCopy } from "./copy-reference.ts";
import { complete } from "./download.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import {
  BadReference,
  ConclaveError,
  Download,
  isAbort,
  StorageFailure,
} from "../protocol/errors.ts";
import { Journal, readState, type ModelState, type RemoteModel } from "./journal.ts";
import type { Locks } from "./locks.ts";
import type { MemberSource, Plan, Progress, Stored, StoredModel } from "../protocol/messages.ts";
import { Meter, unmeasured } from "./meter.ts";
import { BlobFiles, type ModelFiles } from "../protocol/model-files.ts";
import { parseReference, referenceText, type Reference } from "./reference.ts";
import { amount, askHost, latestCommit, publicHub, type HostOptions } from "./remote.ts";
import { usualRetry, type RetryPolicy } from "./retry.ts";
import { Sha256 } from "./sha256.ts";
import { isFull, type Shelf } from "./shelf.ts";
import { Changed, NotThere } from "./transfer.ts";

export interface StoreOptions {
  shelf: Shelf;
  locks: Locks;
  /** Hub for `hf:` references. */
  hub?: string | undefined;
  /** Storage quota of the page: `navigator.storage`. */
  space?: Pick<StorageManager, "estimate" | "persisted"> | undefined;
  policy?: RetryPolicy;
  stallMs?: number;
  chunkBytes?: number;
  lanes?: number;
  /** The largest model that a page without storage keeps in memory. */
  mostInMemory?: number;
}

export interface OpenOptions {
  signal: AbortSignal;
  onProgress: (progress: Progress) => void;
  /** Known size and digest of the reference's single file. */
  expected?: Pick<MemberSource, "bytes" | "sha256">;
}

type CopyOptions = Pick<OpenOptions, "signal" | "onProgress">;

const defaults = {
  policy: usualRetry,
  stallMs: 20_000,
  chunkBytes: 8 << 20,
  lanes: 4,
  mostInMemory: 256 << 20,
};

/** Number of times a download is begun again because a file changed. */
const mostBeginnings = 3;

/** Stored models and space. */
export type Listed = Omit<Stored, "models" | "prompts"> & {
  models: Omit<StoredModel, "prompts">[];
};

export class Store {
  readonly #options: StoreOptions & typeof defaults;
  readonly #hub: string;

  constructor(options: StoreOptions) {
    this.#options = { ...defaults, ...options };
    this.#hub = hubAddress(options.hub ?? publicHub);
  }

  /** Sizes of a download; asks the host for names and sizes, unless all is stored. */
  plan(ref: string, signal: AbortSignal): Promise<Plan> {
    return this.#typed(async () => {
      const name = nameOf(ref);
      const key = this.#key(name);
      const state = await this.#state(key);
      const model = state?.model ?? (await askHost(ofHost(name), this.#host(signal)));
      const { free } = await this.#space();
      return {
        ref: model.ref,
        from: model.from,
        commit: model.commit,
        files: sizesOf(model),
        bytes: totalOf(model),
        stored: state?.stored ?? 0,
        toReserve: state ? await this.#toReserve(key, model) : totalOf(model),
        free,
      };
    });
  }

  /** Lists what is stored, complete or partial. */
  list(): Promise<Listed> {
    return this.#typed(async () => {
      const models: Listed["models"] = [];
      for (const name of await this.#options.shelf.list()) {
        try {
          const state = await this.#state(name);
          if (isLeftover(state)) await this.#sweep(name);
          else models.push(described(state, await this.#toReserve(name, state.model)));
        } catch {
          // A folder that can't be read now hides none of the others.
        }
      }
      models.sort((a, b) => (a.ref < b.ref ? -1 : 1));
      return { models, keeps: this.#options.shelf.persistent, ...(await this.#space()) };
    });
  }

  /** Deletes a model, complete or partial. Throws StorageFailure while a tab uses it. */
  delete(ref: string): Promise<void> {
    return this.#typed(async () => {
      const stored = await Promise.all(
        (await this.#options.shelf.list()).map(async (name) => ({
          name,
          // One that can't be read stays, and must not keep another.
          model: (await this.#state(name).catch(() => undefined))?.model,
        })),
      );
      // Also accepts the earlier spelling that a model was stored under.
      const text = stored.some(({ model }) => model?.ref === ref) ? ref : textOf(nameOf(ref));
      for (const { name, model } of stored) {
        if (model?.ref !== text) continue;
        const release = await this.#options.locks.tryHold(lockName(name));
        if (!release)
          throw new StorageFailure(
            `${labelOf(model)} is being downloaded or loaded. ` +
              "Stop that, or wait for it, then delete it.",
          );
        try {
          await this.#options.shelf.remove(name);
        } finally {
          release();
        }
      }
    });
  }

  /** The commit that the reference's revision names now, from the hub; null for an address. */
  latestCommit(ref: string, signal: AbortSignal): Promise<string | null> {
    return this.#typed(async () => {
      const name = nameOf(ref);
      return name.kind === "hub" ? latestCommit(name, this.#host(signal)) : null;
    });
  }

  /**
   * Keeps a copy of picked files under `ref`, all of them or nothing. Throws StorageFailure before
   * the first byte if there is no room. `name`: how the copy is listed.
   */
  copy(ref: string, name: string, files: ModelFiles, options: CopyOptions): Promise<void> {
    return this.#typed(async () => {
      const { locks, shelf, chunkBytes } = this.#options;
      const { signal, onProgress } = options;
      if (!isCopy(ref)) throw new BadReference(`${JSON.stringify(ref)} is no name of a copy.`);
      if (!shelf.persistent)
        throw new StorageFailure(
          "This browser offers the page no place to keep files. Choose them at each visit.",
        );
      const key = this.#key({ kind: "copy", ref });
      const waiting = (): void => onProgress(unmeasured("waiting"));
      const release = await locks.hold(lockName(key), "exclusive", signal, waiting);
      try {
        const state = await this.#state(key);
        // Another tab was sooner.
        if (state?.complete && (await this.#toReserve(key, state.model)) === 0) return;
        const model = asModel(ref, name, files);
        await shelf.remove(key);
        await this.#makeRoom(model, totalOf(model));
        let journal: Journal | undefined;
        try {
          const folder = await shelf.create(key);
          journal = await Journal.begin(folder, model, chunkBytes);
          const meter = new Meter(journal.state.bytes, onProgress);
          await copyInto(folder, journal, files, { signal, meter });
        } catch (error) {
          journal?.close();
          journal = undefined;
          await shelf.remove(key);
          throw isFull(error) ? await this.#full(key, model, 0, error) : error;
        } finally {
          journal?.close();
        }
      } finally {
        release();
      }
    });
  }

  /** A model's files, missing ones downloaded first. The caller closes them. */
  open(ref: string, options: OpenOptions): Promise<ModelFiles> {
    return this.#typed(async () => {
      const model = nameOf(ref);
      const key = this.#key(model);
      const name = lockName(key);
      const { locks } = this.#options;
      const waiting = (): void => options.onProgress(unmeasured("waiting"));
      // Another tab may delete the model between download and use; retry that.
      for (let attempt = 0; attempt < 3; attempt++) {
        const reading = await locks.hold(name, "shared", options.signal, waiting);
        const files = await this.#whole(key, options.expected, reading).catch((error: unknown) => {
          reading();
          throw error;
        });
        if (files) return files;
        reading();
        const reference = ofHost(model);
        const writing = await locks.hold(name, "exclusive", options.signal, waiting);
        try {
          await this.#download(reference, key, options);
        } finally {
          writing();
        }
      }
      throw new StorageFailure(`${textOf(model)} was deleted while it was opened. Load it again.`);
    });
  }

  /** A model's files, if all are stored and as expected. */
  async #whole(
    key: string,
    expected: OpenOptions["expected"],
    release: () => void,
  ): Promise<ModelFiles | undefined> {
    const folder = await this.#options.shelf.folder(key);
    const state = folder && (await readState(folder));
    if (!folder || !state?.complete || !isAsExpected(state.model, expected)) return undefined;
    const named: { name: string; blob: Blob; handle: FileSystemFileHandle | undefined }[] = [];
    for (const [index, { remote }] of state.files.entries()) {
      const blob = await folder.blob(String(index));
      if (blob?.size !== remote.bytes) return undefined;
      named.push({ name: remote.name, blob, handle: await folder.handle(String(index)) });
    }
    return new BlobFiles(named, () => {
      release();
      // A model in memory only serves one load.
      if (!this.#options.shelf.persistent) void this.#options.shelf.remove(key);
    });
  }

  async #download(
    reference: Reference,
    key: string,
    { signal, onProgress, expected }: OpenOptions,
  ): Promise<void> {
    const { shelf } = this.#options;
    for (let beginning = 1; ; beginning++) {
      onProgress(unmeasured("checking"));
      const found = await shelf.folder(key);
      let journal = found && (await Journal.resume(found));
      if (journal && !isAsExpected(journal.state.model, expected)) {
        journal.close();
        journal = undefined;
      }
      const resumed = journal !== undefined;
      let folder = found;
      let model = journal?.state.model;
      try {
        if (!journal || !folder) {
          const note = (why: string | undefined): void =>
            onProgress({ ...unmeasured("checking"), ...definedFields({ note: why }) });
          model = await askHost(reference, { ...this.#host(signal), expected, onWait: note });
          await this.#makeRoom(model, totalOf(model));
          // The content belongs to another version of the model, or to none.
          await shelf.remove(key);
          folder = await shelf.create(key);
          journal = await Journal.begin(folder, model, this.#options.chunkBytes);
        } else {
          const { model: begun } = journal.state;
          await this.#makeRoom(begun, await this.#toReserve(key, begun));
        }
        const meter = new Meter(journal.state.bytes, onProgress);
        const { policy, stallMs, lanes } = this.#options;
        return await complete(folder, journal, { signal, policy, stallMs, lanes, meter });
      } catch (error) {
        const stored = journal?.state.stored ?? 0;
        // Since the download began, a commit may have left the hub, or a file changed.
        const gone = async (): Promise<boolean> =>
          reference.kind === "hub" &&
          (await latestCommit(reference, this.#host(signal))) !== model?.commit;
        const anew =
          (error instanceof Changed && beginning < mostBeginnings) ||
          (error instanceof NotThere && resumed && (await gone()));
        // Without any finished chunk, delete it: the next try asks for the files again.
        if (anew || (journal && stored === 0)) {
          journal?.close();
          journal = undefined;
          await shelf.remove(key);
        }
        if (anew) continue;
        if (error instanceof Changed)
          throw new Download(
            `${error.message} It changed again during the new download. ` +
              "Nothing of it was kept: try again later.",
            { cause: error },
          );
        if (isFull(error) && model) throw await this.#full(key, model, stored, error);
        throw error;
      } finally {
        journal?.close();
      }
    }
  }

  /** Reports lack of space before a byte is fetched. */
  async #makeRoom(model: RemoteModel, needed: number): Promise<void> {
    if (!this.#options.shelf.persistent && totalOf(model) > this.#options.mostInMemory) {
      throw new StorageFailure(
        `${model.ref} has ${amount(totalOf(model))}, ` +
          "and this browser offers the page no place to keep it " +
          "(private windows, pages without https and some browsers have none). " +
          "Open the page in an ordinary window over https, " +
          "or download the model and choose the file.",
      );
    }
    const { free } = await this.#space();
    if (this.#options.shelf.persistent && free !== null && needed > free) {
      throw new StorageFailure(
        `${labelOf(model)} needs ${amount(needed)} more on this machine, ` +
          `and ${amount(free)} are free for this page. ` +
          "Delete stored models or free disk space, then try again.",
      );
    }
  }

  async #full(
    key: string,
    model: RemoteModel,
    stored: number,
    cause: unknown,
  ): Promise<StorageFailure> {
    const { free } = await this.#space();
    const left = totalOf(model) - stored;
    // Some browsers report more than they grant.
    const space =
      free === null || free >= (await this.#toReserve(key, model))
        ? "the browser gives this page no more"
        : `${amount(free)} are free for this page`;
    const kept = stored > 0 ? " What arrived is kept." : "";
    return new StorageFailure(
      `${labelOf(model)} needs ${amount(left)} more on this machine, ` +
        `and ${space}.${kept} ` +
        "Delete stored models or free disk space, then try again.",
      { cause },
    );
  }

  async #space(): Promise<{ used: number | null; free: number | null; persisted: boolean }> {
    const { space } = this.#options;
    const { quota, usage } = (await space?.estimate?.().catch(() => undefined)) ?? {};
    const persisted = (await space?.persisted?.().catch(() => false)) ?? false;
    const free = quota === undefined || usage === undefined ? null : Math.max(0, quota - usage);
    return { used: usage ?? null, free, persisted };
  }

  /**
   * Bytes that the files take beyond the sizes of their parts. An interrupted download has reserved
   * them whole, and some browsers count a part's whole size as used, whatever was written to it. In
   * memory nothing is reserved, and to look at a part copies it.
   */
  async #toReserve(key: string, { files }: RemoteModel): Promise<number> {
    const { shelf } = this.#options;
    const folder = shelf.persistent ? await shelf.folder(key) : undefined;
    const missing = files.map(async ({ bytes }, index) => {
      const part = await folder?.blob(String(index));
      return Math.max(0, bytes - (part?.size ?? 0));
    });
    return (await Promise.all(missing)).reduce((sum, bytes) => sum + bytes, 0);
  }

  async #state(key: string): Promise<ModelState | undefined> {
    const folder = await this.#options.shelf.folder(key);
    return folder && readState(folder);
  }

  /** Deletes a folder that is of no more use, unless a tab is just filling it. */
  async #sweep(key: string): Promise<void> {
    const release = await this.#options.locks.tryHold(lockName(key));
    if (!release) return;
    try {
      if (isLeftover(await this.#state(key))) await this.#options.shelf.remove(key);
    } finally {
      release();
    }
  }

  #key(name: Name): string {
    return keyOf(name, this.#hub);
  }

  #host(signal: AbortSignal): HostOptions {
    const { policy, stallMs } = this.#options;
    return { hub: this.#hub, signal, policy, stallMs };
  }

  /** Turns a browser's storage errors into typed ones that say what to do. */
  async #typed<T>(task: () => Promise<T>): Promise<T> {
    try {
      return await task();
    } catch (error) {
      if (error instanceof ConclaveError || isAbort(error)) throw error;
      if (isFull(error))
        throw new StorageFailure(
          "There is no room left for this page. " +
            "Delete stored models or free disk space, then try again.",
          { cause: error },
        );
      throw new StorageFailure(
        `The browser's storage failed (${String(error)}). ` +
          "Reload the page, then try again; what is stored is kept.",
        { cause: error },
      );
    }
  }
}

/** A model's name in the store: its reference at a host, or that of a copy of picked files. */
type Name = Reference | { kind: "copy"; ref: string };

const nameOf = (ref: string): Name => (isCopy(ref) ? { kind: "copy", ref } : parseReference(ref));
const textOf = (name: Name): string => (name.kind === "copy" ? name.ref : referenceText(name));

/** The reference at a host, from which what is missing can be fetched. */
function ofHost(name: Name): Reference {
  if (name.kind !== "copy") return name;
  throw new StorageFailure(
    "The copy of the picked file is no longer in this browser. Choose the file again.",
  );
}

/**
 * Whether a folder is of no more use: without a journal, left by a download that ended before it
 * began, or a copy that was cut off, whose file only the visitor can choose again.
 */
const isLeftover = (state: ModelState | undefined): state is undefined =>
  !state || (isCopy(state.model.ref) && !state.complete);

/** Name of a model's folder, safe in any file system. */
function keyOf(name: Name, hub: string): string {
  const prefix = name.kind === "hub" ? `${hub} ` : "";
  return new Sha256()
    .update(new TextEncoder().encode(prefix + textOf(name)))
    .digest()
    .slice(0, 32);
}

/**
 * Whether a complete, verified model is on a shelf, for callers without a store. Makes no request.
 * Throws {@link BadReference}.
 */
export async function isStored(
  shelf: Pick<Shelf, "folder">,
  ref: string,
  hub: string = publicHub,
): Promise<boolean> {
  const folder = await shelf.folder(keyOf(nameOf(ref), hubAddress(hub)));
  const state = folder && (await readState(folder));
  return state?.complete ?? false;
}

const lockName = (key: string): string => `conclave-model ${key}`;
const sizesOf = ({ files }: RemoteModel): Plan["files"] =>
  files.map(({ name, bytes }) => ({ name, bytes }));
/** Name of a model in messages. */
const labelOf = ({ ref, from }: RemoteModel): string => (isCopy(ref) ? from : ref);
const totalOf = (model: RemoteModel): number =>
  model.files.reduce((sum, { bytes }) => sum + bytes, 0);

function hubAddress(text: string): string {
  try {
    const url = new URL(text);
    if (/^https?:$/.test(url.protocol)) return url.href.replace(/\/+$/, "");
  } catch {
    // Reported below.
  }
  throw new BadReference(
    `${JSON.stringify(text)} is no address of a hub. Give one like ${publicHub}.`,
  );
}

/** Whether a stored model matches the size and digest that the caller expects. */
function isAsExpected(
  { files }: RemoteModel,
  { bytes, sha256 }: NonNullable<OpenOptions["expected"]> = {},
): boolean {
  const [only] = files;
  if (!only || files.length > 1) return true;
  return (
    (bytes === undefined || bytes === only.bytes) &&
    (sha256 === undefined || sha256.toLowerCase() === only.sha256)
  );
}

function described(state: ModelState, toReserve: number): Listed["models"][number] {
  const { ref, from, commit } = state.model;
  return {
    ref,
    from,
    commit,
    files: sizesOf(state.model),
    bytes: state.bytes,
    stored: state.stored,
    toReserve,
    complete: state.complete,
  };
}
