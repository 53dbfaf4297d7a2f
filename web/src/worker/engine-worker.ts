/**
 * Worker of the fused core, bundled with its module's own script in one file. Its name is its role:
 * it serves the library and runs the rounds, or hosts members, or helps another compute.
 */
import * as glue from "engine-glue";
import * as grammar from "grammar-glue";
import * as remote from "remote-glue";
import type { Gpu } from "../protocol/backend.ts";
import type { EngineModule, GrammarModule, RemoteModule } from "../protocol/engine.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { openLocks } from "../store/locks.ts";
import { openShelf } from "../store/shelf.ts";
import { Prompts } from "../store/prompts.ts";
import { Store } from "../store/store.ts";
import { compileModule, startBy, startModule } from "./engine-module.ts";
import { help, parseHelperStart } from "./helpers.ts";
import { MemberHost } from "./member-host.ts";
import { RememberedChoices } from "./remembered-choices.ts";
import { Service } from "./service.ts";
import { listenForTraps, Traps } from "./traps.ts";

/** The part of DedicatedWorkerGlobalScope that is used here. */
interface Scope {
  readonly name: string;
  postMessage(data: unknown): void;
  close(): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  navigator: Navigator & { gpu?: Gpu };
}

const scope = globalThis as unknown as Scope;
const traps = new Traps();
const engine = glue as EngineModule;
// Some browsers lack nested workers.
const hasWorkers = typeof Worker !== "undefined";

/** Message handler of each role. */
const parts: Record<string, () => (data: unknown) => Promise<void>> = {
  conclave() {
    const service = new Service({
      gpu: scope.navigator.gpu,
      post: (reply) => scope.postMessage(reply),
      openStore: async (hub) =>
        new Store({
          shelf: await openShelf(),
          locks: openLocks(),
          hub,
          space: scope.navigator.storage,
        }),
      prompts: new Prompts({
        open: () => openShelf(scope.navigator.storage, "conclave-prompts"),
        locks: openLocks(),
      }),
      choices: new RememberedChoices(() => openShelf(scope.navigator.storage, "conclave-choices")),
      startModule: async (address) => startModule(engine, await compileModule("fused", address)),
      fetchOpenCore: (address, onFetched) => compileModule("burn", address, onFetched),
      fetchGrammar: (address) => compileModule("grammar", address),
      startGrammar: startBy(grammar as GrammarModule),
      fetchRemote: (address) => compileModule("remote", address),
      startRemote: startBy(remote as RemoteModule),
      startThread: hasWorkers ? (address) => startWorker(address, "conclave member") : undefined,
      cores: scope.navigator.hardwareConcurrency || 1,
      traps,
    });
    return (data) => service.receive(data);
  },
  "conclave member"() {
    const host = new MemberHost(
      (compiled) => startModule(engine, compiled),
      (reply) => scope.postMessage(reply),
      startBy(grammar as GrammarModule),
      traps,
      hasWorkers ? (address) => startWorker(address, "conclave helper") : undefined,
    );
    return (data) => host.receive(data);
  },
  "conclave helper": () => async (data) => {
    const { compiled, memory, ...place } = parseHelperStart(data);
    const { module } = await startModule(engine, compiled, memory);
    try {
      await help(module, place);
    } catch (error) {
      module.helpTrapped();
      throw error;
    }
  },
};

const receive = (parts[scope.name] ?? parts["conclave"]!)();

listenForTraps(globalThis, (error) => traps.report(error));
scope.onmessage = ({ data }) => void receive(data);
