/**
 * Workers that help a member's worker compute on the CPU, on the same memory, if the page is
 * isolated from other origins, so that memory may be shared. Each computes some rows of every
 * product.
 */
import type { EngineModule } from "../protocol/engine.ts";
import type { Port } from "../protocol/start-worker.ts";
import { compiledModule, shape, sharedMemory, type Checked } from "../protocol/check.ts";

const start = shape({ compiled: compiledModule, memory: sharedMemory });

/** Start message of a helper: the module and the `memory` it runs on. */
type HelperStart = Checked<typeof start>;
/** Throws a TypeError that names the fault if `data` is none. */
export const parseHelperStart = (data: unknown): HelperStart => start(data, "start");

export class Helpers {
  readonly #startWorker: () => Port;
  readonly #module: Pick<EngineModule, "wantHelpers">;
  readonly #start: HelperStart;
  readonly #ports = new Set<Port>();
  /** Most of them: the number left when one failed. */
  #most = Infinity;

  constructor(
    startWorker: () => Port,
    module: Pick<EngineModule, "wantHelpers">,
    start: HelperStart,
  ) {
    this.#startWorker = startWorker;
    this.#module = module;
    this.#start = start;
  }

  /**
   * Lets so many help from the next pass on; they are started as needed, and stay. One that fails
   * is not replaced: the others compute all rows.
   */
  want(count: number): void {
    this.#module.wantHelpers(count);
    while (this.#ports.size < Math.min(count, this.#most)) this.#add();
  }

  #add(): void {
    const port = this.#startWorker();
    this.#ports.add(port);
    port.onerror = (event) => {
      event.preventDefault();
      this.#ports.delete(port);
      // Another would fail too.
      this.#most = this.#ports.size;
      port.terminate();
    };
    port.postMessage(this.#start);
  }
}
