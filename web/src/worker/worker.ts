/** The worker: starts the fused module beside it and serves the library's requests. */
import type { Gpu } from "../protocol/backend.ts";
import { RememberedChoices } from "./remembered-choices.ts";
import { compileModule, startModule } from "./engine-module.ts";
import { openLocks } from "../store/locks.ts";
import { Service } from "./service.ts";
import { openShelf } from "../store/shelf.ts";
import { Store } from "../store/store.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  postMessage(data: unknown): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  addEventListener(type: "unhandledrejection", listener: (event: PromiseRejectionEvent) => void): void;
  navigator: Navigator & { gpu?: Gpu };
}

const scope = globalThis as unknown as Scope;

// Fetched and compiled beside the search for an adapter and the opening of the store; if that fails,
// anew when it is needed.
const early = startModule("fused").catch(() => undefined);

const service = new Service({
  gpu: scope.navigator.gpu,
  post: (reply) => scope.postMessage(reply),
  openStore: async (hub) => new Store({ shelf: await openShelf(), locks: openLocks(), hub, space: scope.navigator.storage }),
  choices: new RememberedChoices(() => openShelf(scope.navigator.storage, "conclave-choices")),
  startModule: async () => (await early) ?? startModule("fused"),
  fetchOpenCore: (onFetched) => compileModule("burn", onFetched),
  // Some browsers give workers no workers.
  startThread: typeof Worker === "undefined" ? undefined : () => new Worker(new URL("./member-worker.js", import.meta.url), { type: "module", name: "conclave member" }),
  cores: scope.navigator.hardwareConcurrency || 1,
});

// A panic in the module's own promise queue rejects nothing that anybody waits for. Told as an error
// of the worker it ends what is under way, instead of leaving it waiting for ever.
scope.addEventListener("unhandledrejection", (event) => reportError(event.reason));
scope.onmessage = (event) => void service.receive(event.data);
