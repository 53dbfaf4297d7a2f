/**
 * The record beside a model's parts: what the model consists of, and which chunks of it are here,
 * each with its SHA-256. Only ever appended to, a line a step, so that a page that is closed in
 * mid-step loses that step and nothing before it.
 */
import {
  list,
  number,
  nullable,
  oneOf,
  optional,
  shape,
  text,
  variant,
  type Checked,
} from "../protocol/check.ts";
import type { Folder, Part } from "./shelf.ts";

/** Name of the journal's part in a model's folder; its files are the parts "0", "1", … */
const partName = "journal";

/** One file of a model as its host lists it. */
const remoteFile = shape({
  name: text,
  url: text,
  bytes: number,
  /** Lower-case hex, where the host or a manifest states it. */
  sha256: optional(text),
  /** The id that git gives to the file: what the hub states for small files. */
  blobId: optional(text),
  /** ETag or date: what tells one state of a file without a digest from another. */
  validator: optional(text),
});
const remoteModel = shape({
  ref: text,
  from: text,
  commit: nullable(text),
  files: list(remoteFile),
});

export type RemoteFile = Checked<typeof remoteFile>;
/** A model as its host lists it: all files of one state of it. */
export type RemoteModel = Checked<typeof remoteModel>;

const line = variant({
  /** Always the first line. */
  model: shape({ format: oneOf("conclave-1"), chunkBytes: number, model: remoteModel }),
  chunk: shape({ file: number, chunk: number, sha256: text }),
  /** A chunk, or a whole file, is of no use and must be fetched again. */
  drop: shape({ file: number, chunk: optional(number) }),
  /** The whole file has been checked, as far as its host lets it be. */
  verified: shape({ file: number }),
});
type Line = Checked<typeof line>;

export const chunkCount = (bytes: number, chunkBytes: number): number =>
  Math.ceil(bytes / chunkBytes);

/** What is here of one file. */
export interface FileState {
  readonly remote: RemoteFile;
  /** SHA-256 by chunk. */
  readonly chunks: Map<number, string>;
  verified: boolean;
}

/** What is here of a model. */
export class ModelState {
  readonly model: RemoteModel;
  readonly chunkBytes: number;
  readonly files: FileState[];

  constructor(model: RemoteModel, chunkBytes: number) {
    this.model = model;
    this.chunkBytes = chunkBytes;
    this.files = model.files.map((remote) => ({ remote, chunks: new Map(), verified: false }));
  }

  get bytes(): number {
    return this.files.reduce((sum, { remote }) => sum + remote.bytes, 0);
  }

  /** Bytes of the chunks that are here. */
  get stored(): number {
    return this.files.reduce((sum, file) => sum + this.storedOf(file), 0);
  }

  storedOf({ remote, chunks }: FileState): number {
    return [...chunks.keys()].reduce((sum, chunk) => sum + this.chunkLength(remote, chunk), 0);
  }

  chunkLength({ bytes }: RemoteFile, chunk: number): number {
    return Math.min(this.chunkBytes, bytes - chunk * this.chunkBytes);
  }

  get complete(): boolean {
    return this.files.every(({ verified }) => verified);
  }

  /** Takes a line in; throws a TypeError or RangeError for one that can't be. */
  apply(step: Exclude<Line, { type: "model" }>): void {
    const file = this.files[step.file];
    if (!file) throw new RangeError(`there is no file ${step.file}`);
    switch (step.type) {
      case "chunk":
        if (
          !Number.isInteger(step.chunk) ||
          step.chunk < 0 ||
          step.chunk >= chunkCount(file.remote.bytes, this.chunkBytes)
        )
          throw new RangeError(`there is no chunk ${step.chunk}`);
        file.chunks.set(step.chunk, step.sha256);
        break;
      case "drop":
        if (step.chunk === undefined) file.chunks.clear();
        else file.chunks.delete(step.chunk);
        file.verified = false;
        break;
      case "verified":
        file.verified = true;
    }
  }
}

/**
 * Reads a journal; undefined where there is none that can be read. `bytes`: how far it was good.
 */
function parse(data: Uint8Array): { state: ModelState; bytes: number } | undefined {
  let state: ModelState | undefined;
  let bytes = 0;
  for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, bytes)) {
    try {
      const step = line(
        JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(data.subarray(bytes, end))),
        "journal",
      );
      if (step.type !== "model") {
        if (!state) return undefined;
        state.apply(step);
      } else {
        if (state || !isSane(step.model, step.chunkBytes)) return undefined;
        state = new ModelState(step.model, step.chunkBytes);
      }
    } catch {
      break; // torn in mid-step: what came before it holds
    }
    bytes = end + 1;
  }
  return state && { state, bytes };
}

const isSize = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
const isSane = (model: RemoteModel, chunkBytes: number): boolean =>
  isSize(chunkBytes) &&
  chunkBytes > 0 &&
  model.files.length > 0 &&
  model.files.every(({ bytes }) => isSize(bytes));

/**
 * What a folder's journal says, without opening it: for lists, and for models that are complete.
 */
export async function readState(folder: Folder): Promise<ModelState | undefined> {
  const blob = await folder.blob(partName);
  return blob && parse(new Uint8Array(await blob.arrayBuffer()))?.state;
}

/** A journal open for writing. */
export class Journal {
  readonly state: ModelState;
  readonly #part: Part;
  #end: number;

  private constructor(part: Part, state: ModelState, end: number) {
    this.#part = part;
    this.state = state;
    this.#end = end;
  }

  /** Begins the journal of a model, over whatever was there. */
  static async begin(folder: Folder, model: RemoteModel, chunkBytes: number): Promise<Journal> {
    const part = await folder.open(partName);
    try {
      part.truncate(0);
      const journal = new Journal(part, new ModelState(model, chunkBytes), 0);
      journal.#append({ type: "model", format: "conclave-1", chunkBytes, model });
      return journal;
    } catch (error) {
      part.close();
      throw error;
    }
  }

  /** Goes on with the journal of a folder; undefined where there is none. */
  static async resume(folder: Folder): Promise<Journal | undefined> {
    if (!(await folder.blob(partName))) return undefined;
    const part = await folder.open(partName);
    const data = new Uint8Array(part.size());
    part.read(0, data);
    const found = parse(data);
    if (!found) {
      part.close();
      return undefined;
    }
    part.truncate(found.bytes);
    return new Journal(part, found.state, found.bytes);
  }

  /** Notes a step. The bytes it speaks of must be flushed before. */
  note(step: Exclude<Line, { type: "model" }>): void {
    this.state.apply(step);
    this.#append(step);
  }

  close(): void {
    this.#part.close();
  }

  #append(step: Line): void {
    const bytes = new TextEncoder().encode(`${JSON.stringify(step)}\n`);
    this.#part.write(this.#end, bytes);
    this.#part.flush();
    this.#end += bytes.length;
  }
}
