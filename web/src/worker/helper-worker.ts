/** The worker that helps a member's worker compute, on the same memory. */
import { startModule } from "./engine-module.ts";
import { parseHelperStart } from "./helpers.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  postMessage(data: unknown): void;
  close(): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  addEventListener(type: "unhandledrejection", listener: (event: PromiseRejectionEvent) => void): void;
}

const scope = globalThis as unknown as Scope;

// What goes wrong is told as an error of this worker.
scope.addEventListener("unhandledrejection", (event) => reportError(event.reason));
scope.onmessage = async ({ data }) => {
  const { compiled, memory } = parseHelperStart(data);
  const { module } = await startModule("fused", compiled, memory);
  // Returns when there are more helpers than are wanted.
  module.help();
  scope.postMessage({ type: "left" });
  scope.close();
};
