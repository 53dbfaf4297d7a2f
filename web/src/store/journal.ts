/**
 * Append-only record beside a model's parts: the model's files, and the chunks stored with their
 * SHA-256, one line a step. A page closed in the middle of a step loses only that step.
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
import type { Folder, OpenPart } from "./shelf.ts";

/** Name of the journal's part in a model's folder; its files are the parts "0", "1", … */
const partName = "journal";

/** One file of a model as its host lists it. */
const remoteFile = shape({
  name: text,
  url: text,
  bytes: number,
  /** Lower-case hex, if the host or a manifest states it. */
  sha256: optional(text),
  /** Git blob id, which the hub states for small files. */
  blobId: optional(text),
  /** ETag or date; distinguishes versions of a file without a digest. */
  validator: optional(text),
});
const remoteModel = shape({
  ref: text,
  from: text,
  commit: nullable(text),
  files: list(remoteFile),
});

export type RemoteFile = Checked<typeof remoteFile>;
/** A model as its host lists it: all files of one revision. */
export type RemoteModel = Checked<typeof remoteModel>;

const line = variant({
  /** Always the first line. */
  model: shape({ format: oneOf("conclave-1"), chunkBytes: number, model: remoteModel }),
  chunk: shape({ file: number, chunk: number, sha256: text }),
  /** A chunk or a whole file is invalid and must be fetched again. */
  drop: shape({ file: number, chunk: optional(number) }),
  /** The whole file was verified, as far as its host allows. */
  verified: shape({ file: number }),
});
type Line = Checked<typeof line>;

export const chunkCount = (bytes: number, chunkBytes: number): number =>
  Math.ceil(bytes / chunkBytes);

/** Stored state of one file. */
export interface FileState {
  readonly remote: RemoteFile;
  /** SHA-256 by chunk. */
  readonly chunks: Map<number, string>;
  verified: boolean;
}

/** Stored state of a model. */
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

  /** Bytes of the stored chunks. */
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

  /** Applies a line; throws a TypeError or RangeError for an invalid one. */
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

/** Parses a journal; undefined without a readable one. `bytes`: length of the valid beginning. */
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
      break; // Torn by an interrupted step; the lines before are valid.
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

/** Reads a folder's journal without opening it for writing: for lists, and for complete models. */
export async function readState(folder: Folder): Promise<ModelState | undefined> {
  const blob = await folder.blob(partName);
  return blob && parse(new Uint8Array(await blob.arrayBuffer()))?.state;
}

/** A journal open for writing. */
export class Journal {
  readonly state: ModelState;
  readonly #part: OpenPart;
  #end: number;

  private constructor(part: OpenPart, state: ModelState, end: number) {
    this.#part = part;
    this.state = state;
    this.#end = end;
  }

  /** Begins the journal of a model, overwriting any other. */
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

  /** Continues the journal of a folder; undefined if there is none. */
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

  /** Records a step. The bytes it refers to must be flushed before. */
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
