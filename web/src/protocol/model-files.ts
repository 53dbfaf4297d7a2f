/**
 * The files of one model, read by ranges: the engine's view of a model in any storage. Files of
 * gigabytes are never whole in memory.
 */
import { ModelFile, OutOfMemory, type ConclaveError } from "./errors.ts";

export interface ModelFiles {
  /** Names and sizes in bytes. Names have no folders, except those of named chat templates. */
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  /** Handles in the origin's private file system, for a thread that opens the files itself. */
  readonly handles?: readonly FileSystemFileHandle[];
  /** Reads exactly `length` bytes of file number `file` from `offset`, or throws. */
  read(file: number, offset: number, length: number): Promise<Uint8Array>;
  /** Closes the files; they are not read afterwards. */
  close(): void;
}

/**
 * Why a blob could not be read: it was changed or moved after it was picked, or, if a byte of it
 * can be read, there is no memory for more.
 */
async function unreadable(blob: Blob, name: string, cause: unknown): Promise<ConclaveError> {
  const isThere = await blob
    .slice(0, 1)
    .arrayBuffer()
    .then(
      ({ byteLength }) => byteLength === 1,
      () => false,
    );
  return isThere
    ? new OutOfMemory(
        `the browser has no memory left to read ${name} (${String(cause)}). ` +
          "Close other tabs, or load fewer or smaller members",
        { cause },
      )
    : new ModelFile(`${name} can't be read any more (${String(cause)}). Choose it again.`, {
        cause,
      });
}

/** Blobs with names: picked files, files of the store, bytes in memory. */
export class BlobFiles implements ModelFiles {
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly handles?: readonly FileSystemFileHandle[];
  readonly #blobs: Blob[];
  readonly #onClose: () => void;

  constructor(
    named: readonly { name: string; blob: Blob; handle?: FileSystemFileHandle | undefined }[],
    onClose: () => void = () => {},
  ) {
    this.files = named.map(({ name, blob }) => ({ name, bytes: blob.size }));
    const handles = named.flatMap(({ handle }) => handle ?? []);
    if (handles.length === named.length) this.handles = handles;
    this.#blobs = named.map(({ blob }) => blob);
    this.#onClose = onClose;
  }

  async read(file: number, offset: number, length: number): Promise<Uint8Array> {
    const blob = this.#blobs[file];
    const name = this.files[file]?.name ?? `number ${file}`;
    if (!blob)
      throw new ModelFile(`There is no file ${name} in this model. Choose its files again.`);
    let data: Uint8Array;
    try {
      data = new Uint8Array(await blob.slice(offset, offset + length).arrayBuffer());
    } catch (error) {
      throw await unreadable(blob, name, error);
    }
    if (data.length !== length) throw cutShort(name, offset + length);
    return data;
  }

  close(): void {
    this.#blobs.length = 0;
    this.#onClose();
  }
}

/** Error for a file shorter than its stated size. */
export const cutShort = (name: string, end: number): ModelFile =>
  new ModelFile(`${name} ends before byte ${end}. It was cut short: get it again.`);

/** Folder of named chat templates in a model's folder, as in `crates/hub` and `crates/weights`. */
export const moreTemplates = "additional_chat_templates/";

/**
 * Path in a model's folder. A browser reports only the name; a `.jinja` file other than
 * `chat_template.jinja` is a named template.
 */
const pathOf = ({ name }: File): string =>
  name.endsWith(".jinja") && name !== "chat_template.jinja" ? moreTemplates + name : name;

/** Picked or dropped files of one model: those directly in its folder, and named chat templates. */
export function pickedFiles(blobs: readonly Blob[], name: string): BlobFiles {
  const named = blobs.map((blob) => ({
    name: blob instanceof File ? pathOf(blob) : `${name}.gguf`,
    blob,
  }));
  const seen = new Set<string>();
  for (const { name: file } of named) {
    if (seen.has(file))
      throw new ModelFile(`Two of the files are called ${file}. Choose the files of one model.`);
    seen.add(file);
  }
  if (named.length === 0)
    throw new ModelFile(
      "No file was chosen. Choose a GGUF file, or a folder with config.json and safetensors.",
    );
  return new BlobFiles(named);
}

/** The same files, which can no longer be read after the signal aborts. */
export function untilAborted(files: ModelFiles, signal: AbortSignal): ModelFiles {
  return {
    files: files.files,
    ...(files.handles && { handles: files.handles }),
    read: async (file, offset, length) => {
      signal.throwIfAborted();
      return files.read(file, offset, length);
    },
    close: () => {}, // the caller closes them: another core may read them next
  };
}
