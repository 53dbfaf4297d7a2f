/** Fills a model's parts from files that the visitor picked, in place of a host. */
import type { ModelFiles } from "../protocol/model-files.ts";
import { OpenFile, reserve } from "./download.ts";
import type { Journal, RemoteModel } from "./journal.ts";
import type { Meter } from "./meter.ts";
import type { Folder } from "./shelf.ts";

/** Picked files as the store records a model. `name`: how they are listed. */
export const asModel = (ref: string, name: string, { files }: ModelFiles): RemoteModel => ({
  ref,
  from: name,
  commit: null,
  files: files.map((file) => ({ ...file, url: "" })),
});

/**
 * Copies all files. A file counts once its last byte is on the disk: before, the journal does not
 * call it whole. Throws ModelFile, the platform's QuotaExceededError, or the signal's reason.
 */
export async function copyInto(
  folder: Folder,
  journal: Journal,
  from: ModelFiles,
  { signal, meter }: { signal: AbortSignal; meter: Meter },
): Promise<void> {
  const files: OpenFile[] = [];
  const { state } = journal;
  try {
    for (const [index, file] of state.files.entries())
      files.push(new OpenFile(index, file, await folder.open(String(index)), journal));
    reserve(files);
    meter.phase("downloading");
    for (const file of files) {
      for (let chunk = 0; chunk < file.chunks; chunk++) {
        signal.throwIfAborted();
        const length = state.chunkLength(file.remote, chunk);
        const bytes = await from.read(file.index, chunk * state.chunkBytes, length);
        await file.keep(chunk, bytes as Uint8Array<ArrayBuffer>);
        meter.add(length);
      }
    }
    meter.phase("verifying");
    signal.throwIfAborted();
    for (const file of files) file.verified();
  } finally {
    for (const { part } of files) part.close();
  }
}
