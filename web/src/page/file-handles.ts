/**
 * Handles of files that the visitor picked, where the browser has them: kept, so that the next
 * visit can read the same files in place, after asking.
 */
import type { Keeper } from "../kept/keeper.ts";
import type { PickedFile } from "./picked.ts";

interface Permitted {
  queryPermission?(options: { mode: "read" }): Promise<PermissionState>;
  requestPermission?(options: { mode: "read" }): Promise<PermissionState>;
}
type FileHandle = FileSystemFileHandle & Permitted;
type FolderHandle = FileSystemDirectoryHandle & { values(): AsyncIterable<FileSystemHandle> };

interface Pickers {
  showOpenFilePicker?(options: { multiple: boolean }): Promise<FileSystemFileHandle[]>;
  showDirectoryPicker?(): Promise<FileSystemDirectoryHandle>;
}

/**
 * Depth limit: a model's folder holds one folder at most, and a dropped disk must not take long.
 */
export const deepest = 2;
export const mostFiles = 500;

/** Whether this browser gives handles of picked files. */
export const givesHandles = (): boolean => "showOpenFilePicker" in globalThis;

/** Lets the visitor pick files or a folder; empty if that is cancelled. */
export async function pickHandles(folder: boolean): Promise<PickedFile[]> {
  const pickers = globalThis as Pickers;
  const picked: PickedFile[] = [];
  try {
    const handles = folder
      ? [await pickers.showDirectoryPicker!()]
      : await pickers.showOpenFilePicker!({ multiple: true });
    for (const handle of handles) await collectHandle(handle, "", picked);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) throw error;
  }
  return picked;
}

/** Adds a file, or the files of a folder, with their handles. */
export async function collectHandle(
  handle: FileSystemHandle,
  above: string,
  into: PickedFile[],
  depth = 0,
): Promise<void> {
  if (into.length >= mostFiles) return;
  const path = above + handle.name;
  if (handle.kind === "file") {
    const file = await (handle as FileHandle).getFile().catch(() => undefined);
    if (file) into.push({ path, file, handle: handle as FileHandle });
  } else if (depth < deepest) {
    for await (const inner of (handle as FolderHandle).values())
      await collectHandle(inner, `${path}/`, into, depth + 1);
  }
}

/**
 * The files of kept handles; undefined if the visitor has not allowed it again, or they are gone.
 * `ask`: this is a gesture of the visitor's, who may be asked.
 */
export async function filesOf(
  handles: readonly FileSystemFileHandle[],
  ask: boolean,
): Promise<File[] | undefined> {
  try {
    const files: File[] = [];
    for (const handle of handles as readonly FileHandle[]) {
      let state = (await handle.queryPermission?.({ mode: "read" })) ?? "granted";
      if (state === "prompt" && ask)
        state = (await handle.requestPermission?.({ mode: "read" })) ?? state;
      if (state !== "granted") return undefined;
      files.push(await handle.getFile());
    }
    return files;
  } catch {
    return undefined; // Moved or deleted since.
  }
}

const key = "handles of picked files";

/** Handles of picked files in the database, by their members' names. */
export const keptHandles = (keeper: () => Keeper) => ({
  recall: async (): Promise<Map<string, FileSystemFileHandle[]>> => {
    const kept = await keeper().value(key);
    return kept instanceof Map ? kept : new Map<string, FileSystemFileHandle[]>();
  },
  remember: (handles: Map<string, FileSystemFileHandle[]>): void =>
    void keeper().setValue(key, handles),
});
