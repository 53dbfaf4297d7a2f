/**
 * Workers that help a member's worker compute on the CPU, on the same memory, if the page is
 * isolated from other origins, so that memory may be shared. Each computes some rows of every
 * product.
 */
import type { EngineModule } from "../protocol/engine.ts";
import type { Port } from "../protocol/start-worker.ts";
import { compiledModule, shape, sharedMemory, variant, type Checked } from "../protocol/check.ts";

const start = shape({ compiled: compiledModule, memory: sharedMemory });
const reply = variant({
  /** The helper has stopped, and ends. */
  left: shape({}),
});

/** Start message of a helper: the module and the `memory` it runs on. */
type HelperStart = Checked<typeof start>;
/** Throws a TypeError that names the fault if `data` is none. */
export const parseHelperStart = (data: unknown): HelperStart => start(data, "start");

export class Helpers {
  readonly #startWorker: () => Port;
  readonly #module: Pick<EngineModule, "wantHelpers">;
  readonly #start: HelperStart;
  readonly #ports = new Set<Port>();
  #wanted = 0;

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
   * Sets the number of helpers. One that fails to start is not replaced: the others compute all
   * rows.
   */
  want(count: number): void {
    this.#wanted = count;
    this.#module.wantHelpers(count);
    this.#fill();
  }

  #fill(): void {
    while (this.#ports.size < this.#wanted) this.#add();
  }

  #add(): void {
    const port = this.#startWorker();
    this.#ports.add(port);
    port.onmessage = ({ data }) => {
      reply(data, "reply");
      this.#ports.delete(port);
      this.#fill();
    };
    port.onerror = (event) => {
      event.preventDefault();
      // Another would fail too.
      this.#wanted--;
      this.#ports.delete(port);
      port.terminate();
    };
    port.postMessage(this.#start);
  }
}
