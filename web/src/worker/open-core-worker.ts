/**
 * Worker of the open core, bundled with its module's own script. It hosts all members that run on
 * that core.
 */
import * as grammar from "grammar-glue";
import * as glue from "open-core-glue";
import type { BurnModule, GrammarModule } from "../protocol/engine.ts";
import { startBy, startModule } from "./engine-module.ts";
import { MemberHost } from "./member-host.ts";
import { listenForTraps, Traps } from "./traps.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  postMessage(data: unknown): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
}

const scope = globalThis as unknown as Scope;
const traps = new Traps();
const host = new MemberHost(
  (compiled) => startModule(glue as BurnModule, compiled),
  (reply) => scope.postMessage(reply),
  startBy(grammar as GrammarModule),
  traps,
);

listenForTraps(globalThis, (error) => traps.report(error));
scope.onmessage = (event) => void host.receive(event.data);
