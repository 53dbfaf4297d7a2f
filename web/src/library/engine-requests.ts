/** Requests of the library that start an engine and add members to it. */
import { definedFields } from "../protocol/defined-fields.ts";
import { EngineFailure, type ConclaveError } from "../protocol/errors.ts";
import type { MemberSource, Progress, Reply, Request } from "../protocol/messages.ts";
import { startWorker, type Port } from "../protocol/start-worker.ts";
import { readManifest, sourceOf } from "../store/load.ts";
import { BuiltIn } from "./built-in.ts";
import {
  defaultContextTokens,
  type AddOptions,
  type LoadOptions,
  type OpenOptions,
} from "./call-options.ts";
import { absolute, places, toys } from "./places.ts";
import type { Wire } from "./wire.ts";

const openRequest = (
  id: number,
  { backend = "auto", hub, threads, core, assets, keepPrompts }: OpenOptions,
): Request => ({
  type: "open",
  id,
  backend,
  places: places(assets),
  ...definedFields({ hub, threads, core, keepPrompts }),
});

/** Whether the page is on a phone or tablet, which ends hidden pages that compute. */
export const isHandheld = (): boolean =>
  globalThis.matchMedia?.("(hover: none) and (pointer: coarse)").matches ?? false;

/** A request of one of these types, before it has an id. */
export type Unnumbered<T extends Request["type"]> = T extends T
  ? Omit<Extract<Request, { type: T }>, "id">
  : never;
/** A request about stored models, which needs no engine. */
export type AboutModels = Unnumbered<
  "plan" | "models" | "keepFiles" | "deleteModel" | "deletePrompts" | "latestCommit"
>;
export type Answer<T extends Reply["type"]> = Extract<Reply, { type: T }>;

export function workerAt(address: string): Port {
  if (typeof Worker !== "undefined") return startWorker(address, "conclave");
  throw new EngineFailure(
    "There are no workers here, where an engine runs. Start it in a browser, not on a server.",
  );
}

export async function opened(wire: Wire, options: OpenOptions): Promise<Answer<"opened">> {
  const reply = await wire.request(openRequest(wire.id(), options), options.signal);
  if (reply.type !== "opened") throw unexpected(reply, "open");
  return reply;
}

/** `builtIn`: session of the browser's own model, for such a member; closed with it. */
export async function added(
  wire: Wire,
  source: MemberSource,
  options: AddOptions,
): Promise<Answer<"added"> & { builtIn: BuiltIn | undefined }> {
  const { replace, onProgress, signal, contextTokens = defaultContextTokens } = options;
  if (source.ref !== undefined) askToPersist();
  const onStep = (progress: Progress): void => onProgress?.({ member: source.name, ...progress });
  const builtIn = source.builtIn ? await BuiltIn.create(source.name, signal, onStep) : undefined;
  const request: Request = {
    type: "add",
    id: wire.id(),
    source,
    contextTokens,
    ...definedFields({ replace }),
    ...(builtIn && { builtIn: { port: builtIn.port, context: builtIn.context } }),
  };
  try {
    const reply = await wire.request(request, signal, onStep);
    if (reply.type !== "added") throw unexpected(reply, "add");
    return { ...reply, builtIn };
  } catch (error) {
    builtIn?.close();
    throw error;
  }
}

/** The source with a whole address: the worker's base differs from the page's. */
export const locatedSource = (source: MemberSource): MemberSource =>
  source.url === undefined
    ? source
    : { ...source, url: absolute(`The url of ${source.name}`, source.url) };

/**
 * The options with whole addresses: a page may change its own (`history.pushState`) before they are
 * used, or used again. Throws Settings for an invalid one.
 */
export function located<T extends LoadOptions>(options: T): T {
  const { assets, members } = options;
  const list = Array.isArray(members)
    ? members.map(locatedSource)
    : members === undefined
      ? undefined
      : absolute("members", members);
  return {
    ...options,
    ...(assets !== undefined && { assets: absolute("assets", assets) }),
    ...(list !== undefined && { members: list }),
  };
}

/** The members to load, fetched from their list if necessary; its address is whole. */
export async function listed({ members, assets, signal }: LoadOptions): Promise<MemberSource[]> {
  if (members === undefined) return toys(assets);
  if (Array.isArray(members)) return members;
  return (await readManifest(members, signal)).map((entry) => sourceOf(entry, members));
}

export function unexpected(reply: Reply, request: string): ConclaveError {
  return new EngineFailure(`The worker answered ${reply.type} to ${request}. Reload the engine.`);
}

/**
 * Asks the browser to persist storage, which only a page can do. The download continues whatever
 * the answer, and some browsers ask the visitor.
 */
export function askToPersist(): void {
  const { storage } = globalThis.navigator ?? {};
  const kept = storage?.persisted?.().catch(() => false) ?? Promise.resolve(false);
  // Some ask the visitor each time.
  void kept.then((already) => already || storage?.persist?.()).catch(() => false);
}
