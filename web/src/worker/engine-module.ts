/** Starts the wasm module that lies beside the page's scripts. */
import type { EngineModule } from "../protocol/engine.ts";
import { Download } from "../protocol/errors.ts";

/** The module as it runs in this thread, its heap, and what another thread starts the same one from. */
export interface StartedModule {
  module: EngineModule;
  memory: WebAssembly.Memory;
  compiled: WebAssembly.Module;
}

export type StartModule = (compiled?: WebAssembly.Module) => Promise<StartedModule>;

/** Throws Download where there is none. */
export async function startModule(compiled?: WebAssembly.Module): Promise<StartedModule> {
  const address = new URL("./pkg/conclave.js", import.meta.url).href;
  try {
    const module = (await import(address)) as EngineModule;
    compiled ??= await compile(new URL("./conclave_bg.wasm", address));
    const { memory } = await module.default({ module_or_path: compiled });
    return { module, memory, compiled };
  } catch (error) {
    throw new Download(`The engine could not be started from ${address} (${String(error)}). Check that pkg/ lies beside the page, then reload.`, { cause: error });
  }
}

async function compile(address: URL): Promise<WebAssembly.Module> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} answered ${response.status}`);
  // While it arrives, where the host names its type.
  if (response.headers.get("content-type") === "application/wasm") return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}
