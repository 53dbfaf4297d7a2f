/** Fetches and starts the wasm modules: one per core, the grammars' and that of remote members. */
import type { Core, CoreModule } from "../protocol/engine.ts";
import { Download, EngineFailure } from "../protocol/errors.ts";

/** A module running in this thread, its heap, and its compiled form for other threads. */
export interface StartedModule<M extends CoreModule = CoreModule> {
  module: M;
  memory: WebAssembly.Memory;
  compiled: WebAssembly.Module;
}

/** Called with the bytes of a module loaded so far; `total` is 0 while unknown. */
export type OnFetched = (loaded: number, total: number) => void;

/** Names of the modules in this code, and in messages. */
const names: Record<Core | "grammar" | "remote", string> = {
  fused: "The engine",
  burn: "The open core",
  grammar: "What holds answers to a form",
  remote: "What asks members elsewhere",
};

/** Starts a module in this thread; on `memory`, which another worker has, if given. */
export async function startModule<M extends CoreModule>(
  module: M,
  compiled: WebAssembly.Module,
  shared?: WebAssembly.Memory,
): Promise<StartedModule<M>> {
  const { memory } = await module.default({
    module_or_path: compiled,
    ...(shared && { memory: shared }),
  });
  return { module, memory, compiled };
}

/** Starts a compiled module that needs nothing else in this thread, by its script. */
export const startBy =
  <M extends { default(input: { module_or_path: WebAssembly.Module }): Promise<unknown> }>(
    glue: M,
  ) =>
  async (compiled: WebAssembly.Module): Promise<M> => {
    await glue.default({ module_or_path: compiled });
    return glue;
  };

/** Fetches and compiles the module at this address. Throws Download if there is none. */
export async function compileModule(
  name: keyof typeof names,
  address: string,
  onFetched?: OnFetched,
): Promise<WebAssembly.Module> {
  try {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    const told = onFetched ? counted(response, onFetched) : response;
    // Not while it downloads: if a worker ends during that, as in a reload, Firefox 140 leaves a
    // compiling thread of the process waiting for ever, and after a few of them no asynchronous
    // compilation in this process ends. Hence not asynchronous either; only this worker waits.
    return new WebAssembly.Module(await told.arrayBuffer());
  } catch (error) {
    const advice =
      "Check that the file is there, and that the policy it is served with allows it " +
      "(connect-src, and script-src 'wasm-unsafe-eval'), then reload.";
    throw new Download(
      `${names[name]} could not be started from ${address} (${String(error)}). ${advice}`,
      { cause: error },
    );
  }
}

/** The same response, with its progress reported. */
function counted(response: Response, onFetched: OnFetched): Response {
  // With compression, the length is not that of the decoded bytes.
  const total = response.headers.has("content-encoding")
    ? 0
    : Number(response.headers.get("content-length") ?? 0);
  let loaded = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      loaded += chunk.length;
      onFetched(loaded, total);
      controller.enqueue(chunk);
    },
  });
  onFetched(0, total);
  return new Response(response.body?.pipeThrough(count));
}

/** Error of a request that comes before the engine is open. */
export const notOpen = (): EngineFailure =>
  new EngineFailure("The engine is not open. Open it first.");
