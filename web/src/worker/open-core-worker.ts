/**
 * Worker of the open core, bundled with its module's own script. It hosts all members that run on
 * that core.
 */
import * as grammar from "grammar-glue";
import * as glue from "open-core-glue";
import type { BurnModule, GrammarModule } from "../protocol/engine.ts";
import { startModule } from "./engine-module.ts";
import { startGrammar } from "./grammars.ts";
import { MemberHost } from "./member-host.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  postMessage(data: unknown): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  addEventListener(
    type: "unhandledrejection",
    listener: (event: PromiseRejectionEvent) => void,
  ): void;
}

const scope = globalThis as unknown as Scope;
const host = new MemberHost(
  (compiled) => startModule(glue as BurnModule, compiled),
  (reply) => scope.postMessage(reply),
  startGrammar(grammar as GrammarModule),
);

// A panic in the module rejects no promise that has a handler: reported as an error of this worker.
scope.addEventListener("unhandledrejection", (event) => reportError(event.reason));
scope.onmessage = (event) => void host.receive(event.data);
