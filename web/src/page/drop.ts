/** Files and folders dropped anywhere on the page or picked through a file input. */
import { el } from "./dom.ts";
import { collectHandle, deepest, givesHandles, mostFiles, pickHandles } from "./file-handles.ts";
import type { PickedFile } from "./picked.ts";

/** Accepts drops on the whole page; an overlay explains them while files are dragged. */
export function takeDrops(onFiles: (picked: PickedFile[]) => void): void {
  const sheet = el(
    "div",
    { class: "drop", hidden: true, "aria-hidden": "true" },
    el(
      "p",
      {},
      "Drop a GGUF file or a model's folder: it joins as a member. " +
        "A text or PDF goes with your question.",
    ),
  );
  document.body.append(sheet);
  // An element is entered before the last one is left, so count.
  let inside = 0;
  const show = (): void => void (sheet.hidden = inside <= 0);
  const carriesFiles = ({ dataTransfer }: DragEvent): boolean =>
    dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragenter", (event) => {
    if (carriesFiles(event)) inside++;
    show();
  });
  addEventListener("dragleave", (event) => {
    if (carriesFiles(event)) inside--;
    show();
  });
  addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
  });
  addEventListener("drop", (event) => {
    inside = 0;
    show();
    if (!event.dataTransfer || !carriesFiles(event)) return;
    event.preventDefault();
    void readDrop(event.dataTransfer).then(onFiles);
  });
}

type Droppable = DataTransferItem & {
  getAsFileSystemHandle?(): Promise<FileSystemHandle | null>;
};

async function readDrop({ items, files }: DataTransfer): Promise<PickedFile[]> {
  // Entries and handles must be requested before the event ends.
  const dropped = [...items].map((item: Droppable) => ({
    entry: item.webkitGetAsEntry(),
    handle: item.getAsFileSystemHandle?.().catch(() => null),
  }));
  const all = [...files];
  const picked: PickedFile[] = [];
  for (const { entry, handle } of dropped) {
    const handled = await handle;
    if (handled) await collectHandle(handled, "", picked);
    else if (entry) await collect(entry, "", 0, picked);
  }
  const isEmpty = dropped.every(({ entry }) => entry === null) && picked.length === 0;
  return isEmpty ? all.map((file) => ({ path: file.name, file })) : picked;
}

async function collect(
  entry: FileSystemEntry,
  above: string,
  depth: number,
  into: PickedFile[],
): Promise<void> {
  if (into.length >= mostFiles) return;
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File | undefined>((resolve) =>
      (entry as FileSystemFileEntry).file(resolve, () => resolve(undefined)),
    );
    if (file) into.push({ path, file });
  } else if (depth < deepest) {
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    // Returns a folder's entries in parts, and an empty list at the end.
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((resolve) =>
        reader.readEntries(resolve, () => resolve([])),
      );
      if (part.length === 0) return;
      for (const inner of part) await collect(inner, `${path}/`, depth + 1, into);
    }
  }
}

/** A labelled file input, for files or (`folder`) for a whole folder. */
export function filePicker(
  label: string,
  onFiles: (picked: PickedFile[]) => void,
  { folder = false } = {},
): HTMLElement {
  const input = el("input", {
    type: "file",
    multiple: true,
    ...(folder ? { webkitdirectory: true } : { accept: ".gguf,.safetensors,.json,.jinja" }),
  });
  // The browser's own picker of handles, where there is one.
  input.addEventListener("click", (event) => {
    if (!givesHandles()) return;
    event.preventDefault();
    void pickHandles(folder).then((picked) => {
      if (picked.length > 0) onFiles(picked);
    });
  });
  input.addEventListener("change", () => {
    const picked = [...(input.files ?? [])].map((file) => ({
      path: file.webkitRelativePath || file.name,
      file,
    }));
    input.value = ""; // Allows the same file to be chosen again.
    if (picked.length > 0) onFiles(picked);
  });
  return el("label", { class: "file" }, input, el("span", {}, label));
}
