/** Requests about the models of this machine: their plans, their list, their deletion. */
import type { Reply, Request, Stored } from "../protocol/messages.ts";
import { pickedFiles } from "../protocol/model-files.ts";
import type { KeptPrompt, Prompts } from "../store/prompts.ts";
import type { Listed, Store } from "../store/store.ts";

const types = [
  "plan",
  "models",
  "keepFiles",
  "deleteModel",
  "deletePrompts",
  "latestCommit",
] as const;
type AboutModels = Extract<Request, { type: (typeof types)[number] }>;

/** Whether a request is about the models of this machine. */
export const isAboutModels = ({ type }: Request): boolean =>
  (types as readonly string[]).includes(type);

/** Answers a request about the models of this machine, which needs no engine. */
export async function answerAboutModels(
  request: AboutModels,
  store: Store,
  { post, prompts }: { post: (reply: Reply) => void; prompts: Prompts },
  signal: AbortSignal,
): Promise<void> {
  const { id } = request;
  switch (request.type) {
    case "plan":
      return post({ type: "planned", id, plan: await store.plan(request.ref, signal) });
    case "models":
      return post({
        type: "models",
        id,
        stored: withPrompts(await store.list(), await prompts.list()),
      });
    case "keepFiles":
      await store.copy(request.ref, request.name, pickedFiles(request.files, request.name), {
        signal,
        onProgress: (progress) => post({ type: "progress", id, progress }),
      });
      return post({ type: "done", id });
    case "deleteModel":
      await store.delete(request.ref);
      await prompts.deleteOf(request.ref);
      return post({ type: "done", id });
    case "deletePrompts":
      await prompts.deleteOf();
      return post({ type: "done", id });
    case "latestCommit":
      return post({
        type: "latestCommit",
        id,
        commit: await store.latestCommit(request.ref, signal),
      });
  }
}

/** Stored models, each with its kept system prompts. */
function withPrompts(stored: Listed, kept: readonly KeptPrompt[]): Stored {
  const bytesOf = (some: readonly KeptPrompt[]): number =>
    some.reduce((sum, { bytes }) => sum + bytes, 0);
  const models = stored.models.map((model) => ({
    ...model,
    prompts: bytesOf(kept.filter(({ of }) => of === model.ref)),
  }));
  return { ...stored, models, prompts: bytesOf(kept) };
}
