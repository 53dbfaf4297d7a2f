/**
 * Workers that help a member's worker compute on the CPU, on the same memory, if the page is
 * isolated from other origins, so that memory may be shared. Each computes some rows of every
 * product.
 */
import type { EngineModule } from "../protocol/engine.ts";
import type { Port } from "../protocol/start-worker.ts";
import {
  compiledModule,
  shape,
  sharedMemory,
  sharedNumber,
  whole,
  type Checked,
} from "../protocol/check.ts";

const start = shape({
  compiled: compiledModule,
  memory: sharedMemory,
  wanted: sharedNumber,
  number: whole(0, 1023),
});

/**
 * Start message of a helper: the module, the `memory` it runs on, how many helpers are `wanted`, and
 * its `number` among them, from 0.
 */
type HelperStart = Checked<typeof start>;
/** Throws a TypeError that names the fault if `data` is none. */
export const parseHelperStart = (data: unknown): HelperStart => start(data, "start");

/** Longest time between two turns of a helper's event loop while there is nothing to compute. */
const restMs = 250;

export class Helpers {
  /** Number of those that may help, set by the worker that runs the rounds. */
  readonly wanted = new Int32Array(new SharedArrayBuffer(4));
  readonly #startWorker: () => Port;
  readonly #on: Pick<HelperStart, "compiled" | "memory">;
  readonly #ports = new Set<Port>();
  /** Most of them: the number left when one failed. */
  #most = Infinity;

  constructor(startWorker: () => Port, on: Pick<HelperStart, "compiled" | "memory">) {
    this.#startWorker = startWorker;
    this.#on = on;
  }

  /**
   * Starts those that are missing of so many; they stay. One that fails is not replaced: the others
   * compute all rows.
   */
  start(count: number): void {
    while (this.#ports.size < Math.min(count, this.#most)) this.#add();
  }

  #add(): void {
    const port = this.#startWorker();
    const number = this.#ports.size;
    this.#ports.add(port);
    port.onerror = (event) => {
      event.preventDefault();
      this.#ports.delete(port);
      // Another would fail too.
      this.#most = this.#ports.size;
      port.terminate();
    };
    port.postMessage({ ...this.#on, wanted: this.wanted, number } satisfies HelperStart);
  }
}

/**
 * Helps whenever it is wanted, until its worker ends. Its event loop runs at times: Firefox lets a
 * service worker take over a page, whose requests wait for that, only once all its workers know.
 */
export async function help(
  module: Pick<EngineModule, "help">,
  { wanted, number }: Pick<HelperStart, "wanted" | "number">,
): Promise<never> {
  for (;;) {
    const rest = performance.now() + restMs;
    while (performance.now() < rest) {
      // The first call, wanted or not, lets passes know of this helper.
      module.help(wanted, number);
      const count = Atomics.load(wanted, 0);
      if (count <= number) Atomics.wait(wanted, 0, count, rest - performance.now());
    }
    await new Promise((resolve) => setTimeout(resolve));
  }
}
