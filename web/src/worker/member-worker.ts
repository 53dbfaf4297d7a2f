/** The worker that members live in: on the CPU backend one a member while there are cores, on the open core one for all. */
import { startModule } from "./engine-module.ts";
import { MemberHost } from "./member-host.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  postMessage(data: unknown): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  addEventListener(type: "unhandledrejection", listener: (event: PromiseRejectionEvent) => void): void;
}

const scope = globalThis as unknown as Scope;
const host = new MemberHost(
  startModule,
  (reply) => scope.postMessage(reply),
  // Some browsers give workers no workers.
  typeof Worker === "undefined" ? undefined : () => new Worker(new URL("./helper-worker.js", import.meta.url), { type: "module", name: "conclave helper" }),
);

// A panic in the module rejects nothing that anybody waits for: told as an error of this worker.
scope.addEventListener("unhandledrejection", (event) => reportError(event.reason));
scope.onmessage = (event) => void host.receive(event.data);
