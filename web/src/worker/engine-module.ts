/** Fetches and starts the wasm modules that lie beside the page's scripts: one for each core. */
import type { Core, CoreModule, Modules } from "../protocol/engine.ts";
import { Download } from "../protocol/errors.ts";
import { mayShareMemory } from "../protocol/shared-memory.ts";

/** The module as it runs in this thread, its heap, and what another thread starts the same one from. */
export interface StartedModule<M extends CoreModule = CoreModule> {
  module: M;
  memory: WebAssembly.Memory;
  compiled: WebAssembly.Module;
}

/** Hears how many bytes of a module are here; `total` is 0 while it is unknown. */
export type OnFetched = (loaded: number, total: number) => void;

const places: Record<Core, { what: string; folder: string; name: string }> = {
  fused: { what: "The engine", folder: mayShareMemory() ? "pkg-shared" : "pkg", name: "conclave" },
  burn: { what: "The open core", folder: "pkg-burn", name: "conclave_burn" },
};

/** On `memory` where that is given, which another worker has. Throws Download where there is none. */
export async function startModule<C extends Core>(core: C, compiled?: WebAssembly.Module, shared?: WebAssembly.Memory): Promise<StartedModule<Modules[C]>> {
  const { folder, name } = places[core];
  const address = new URL(`./${folder}/${name}.js`, import.meta.url).href;
  try {
    const module = (await import(address)) as Modules[C];
    compiled ??= await compileModule(core);
    const { memory } = await module.default({ module_or_path: compiled, ...(shared && { memory: shared }) });
    return { module, memory, compiled };
  } catch (error) {
    throw error instanceof Download ? error : missing(core, address, error);
  }
}

/** What threads start a core from. Throws Download where there is none. */
export async function compileModule(core: Core, onFetched?: OnFetched): Promise<WebAssembly.Module> {
  const { folder, name } = places[core];
  const address = new URL(`./${folder}/${name}_bg.wasm`, import.meta.url).href;
  try {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`it answered ${response.status}`);
    const told = onFetched ? counted(response, onFetched) : response;
    // While it arrives, where the host names its type.
    if (response.headers.get("content-type") === "application/wasm") return await WebAssembly.compileStreaming(told);
    return await WebAssembly.compile(await told.arrayBuffer());
  } catch (error) {
    throw missing(core, address, error);
  }
}

function missing(core: Core, address: string, error: unknown): Download {
  const { what, folder } = places[core];
  return new Download(`${what} could not be started from ${address} (${String(error)}). Check that ${folder}/ lies beside the page, then reload.`, { cause: error });
}

/** The same response, of which it is told what has come. */
function counted(response: Response, onFetched: OnFetched): Response {
  // Where the host compresses, the length is that of other bytes.
  const total = response.headers.has("content-encoding") ? 0 : Number(response.headers.get("content-length") ?? 0);
  let loaded = 0;
  const count = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      loaded += chunk.length;
      onFetched(loaded, total);
      controller.enqueue(chunk);
    },
  });
  onFetched(0, total);
  return new Response(response.body?.pipeThrough(count), { headers: response.headers });
}
