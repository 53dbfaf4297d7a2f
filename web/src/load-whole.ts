/** Hands a model's one file to the engine as a whole, as its present call takes it. */
import type { Engine, Member } from "./engine.ts";
import { ModelFile } from "./errors.ts";
import type { ModelFiles } from "./model-files.ts";

export interface LoadOptions {
  contextTokens: number;
  quantise?: "Q8_0" | "Q4_0";
}

export async function loadWhole(
  engine: Engine, name: string, model: ModelFiles, { contextTokens }: LoadOptions, onProgress: (loaded: number, total: number) => void,
): Promise<Member> {
  const { files } = model;
  const [only] = files;
  if (!only || files.length > 1) throw new ModelFile(`${name} has ${files.length} files; models of several can't be loaded yet. Choose one GGUF file.`);
  onProgress(0, only.bytes);
  const gguf = await model.read(0, 0, only.bytes);
  onProgress(only.bytes, only.bytes);
  return engine.load(name, gguf, contextTokens);
}
