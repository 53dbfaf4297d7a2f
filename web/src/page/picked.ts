/**
 * Makes models of picked or dropped files and folders: a GGUF file, a split one, a Hugging Face
 * folder.
 */
import { moreTemplates } from "../protocol/model-files.ts";

/** A file with its path as picked: "folder/config.json", or its name alone. */
export interface PickedFile {
  path: string;
  file: File;
  /** To read it again in another visit, where the browser gives one. */
  handle?: FileSystemFileHandle;
}

interface PickedModel {
  name: string;
  files: File[];
  /** Handles of all files; empty unless each has one. */
  handles: FileSystemFileHandle[];
}

interface Sorted {
  models: PickedModel[];
  /** Unusable files, and what to do about them. */
  complaints: string[];
}

const split = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i;
/** Files that a loader reads of a Hugging Face folder. */
const ofFolder =
  /^(config\.json|generation_config\.json|tokenizer\.json|tokenizer_config\.json|chat_template\.jinja|chat_template\.json|processor_config\.json|model\.safetensors\.index\.json|.+\.safetensors)$/;

/** Whether a file is, by its name, of a model, be it of a kind that no loader here reads. */
export const isOfModel = ({ name }: File): boolean =>
  /\.(gguf|safetensors|jinja|bin|onnx|pth?|ckpt)$/i.test(name) ||
  /\.index\.json$/.test(name) ||
  ofFolder.test(name);

const slash = (path: string): number => path.lastIndexOf("/");
/** A named chat template, which a model's folder has in a folder of its own. */
const template = new RegExp(`(^|/)${moreTemplates}(?!chat_template\\.)[^/]+\\.jinja$`);
/** The folder of the model that a path belongs to. */
const folderOf = (path: string): string => {
  const folder = path.slice(0, Math.max(slash(path), 0));
  return template.test(path) ? folder.slice(0, Math.max(slash(folder), 0)) : folder;
};

export function sortPicked(picked: PickedFile[]): Sorted {
  const sorted: Sorted = { models: [], complaints: [] };
  const handles = new Map(picked.map(({ file, handle }) => [file, handle]));
  const folders = new Map<string, PickedFile[]>();
  for (const each of picked) {
    const folder = folderOf(each.path);
    folders.set(folder, [...(folders.get(folder) ?? []), each]);
  }
  for (const [folder, files] of folders) sortFolder(folder, files, sorted);
  for (const model of sorted.models) {
    const own = model.files.flatMap((file) => handles.get(file) ?? []);
    if (own.length === model.files.length) model.handles = own;
  }
  if (sorted.models.length === 0 && sorted.complaints.length === 0) {
    sorted.complaints.push(
      "There is no model among these files. " +
        "A model is a .gguf file, or a folder with config.json and .safetensors files.",
    );
  }
  return sorted;
}

function sortFolder(folder: string, files: PickedFile[], { models, complaints }: Sorted): void {
  const splits = new Map<string, File[]>();
  for (const { file } of files) {
    if (!/\.gguf$/i.test(file.name)) continue;
    const part = split.exec(file.name);
    if (!part) models.push({ name: file.name.replace(/\.gguf$/i, ""), files: [file], handles: [] });
    else {
      const key = `${part[1]}-of-${part[3]}`;
      splits.set(key, [...(splits.get(key) ?? []), file]);
    }
  }
  for (const parts of splits.values()) {
    parts.sort((a, b) => (a.name < b.name ? -1 : 1));
    const [, name = "", , of = "0"] = split.exec(parts[0]?.name ?? "") ?? [];
    if (parts.length === Number(of)) models.push({ name, files: parts, handles: [] });
    else {
      const here = parts.length === 1 ? "one of them is" : `${parts.length} of them are`;
      complaints.push(
        `${name} comes in ${Number(of)} parts, and ${here} here. Pick all of them together.`,
      );
    }
  }
  const wanted = files
    .filter(({ path, file }) => ofFolder.test(file.name) || template.test(path))
    .map(({ file }) => file);
  if (!wanted.some(({ name }) => name.endsWith(".safetensors"))) return;
  if (wanted.some(({ name }) => name === "config.json"))
    models.push({
      name: folder.slice(slash(folder) + 1) || "Picked model",
      files: wanted,
      handles: [],
    });
  else
    complaints.push(
      "A .safetensors file needs the config.json and the tokenizer.json beside it: " +
        "pick its whole folder.",
    );
}
