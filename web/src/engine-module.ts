/** Starts the wasm module that lies beside the page's scripts. */
import type { EngineModule } from "./engine.ts";
import { Download } from "./errors.ts";

/** Throws Download where there is none. */
export async function startModule(): Promise<{ module: EngineModule; memory: WebAssembly.Memory }> {
  const address = new URL("./pkg/conclave.js", import.meta.url).href;
  try {
    const module = (await import(address)) as EngineModule;
    const { memory } = await module.default({ module_or_path: new URL("./conclave_bg.wasm", address) });
    return { module, memory };
  } catch (error) {
    throw new Download(`The engine could not be started from ${address} (${String(error)}). Check that pkg/ lies beside the page, then reload.`, { cause: error });
  }
}
