/**
 * The library, the service and the members' threads in one process, for the unit tests: every
 * message is cloned and delivered later, as between workers; only the engine is scripted.
 */
import assert from "node:assert/strict";
import type { Gpu } from "../protocol/backend.ts";
import { RememberedChoices } from "../worker/remembered-choices.ts";
import { Conclave, type Port } from "../library/conclave.ts";
import type {
  Adapter,
  Backend,
  Choices,
  Core,
  EngineModule,
  FusedEngine,
  GrammarModule,
  Message,
  RoundsOptions,
} from "../protocol/engine.ts";
import type { StartedModule } from "../worker/engine-module.ts";
import { openLocks } from "../store/locks.ts";
import { parseHelperStart } from "../worker/helpers.ts";
import { Traps } from "../worker/traps.ts";
import { MemberHost } from "../worker/member-host.ts";
import type { BeginEvent, ConclaveEvent } from "../protocol/messages.ts";
import {
  ranges,
  rules,
  scriptedGrammar,
  scriptedRemote,
  ScriptedMember,
  ScriptedRounds,
  type Script,
} from "./scripted.ts";
import { Service } from "../worker/service.ts";
import type { StartRemote } from "../worker/remote/remote-module.ts";
import { MemoryShelf, type Shelf } from "../store/shelf.ts";
import { Prompts } from "../store/prompts.ts";
import { Store } from "../store/store.ts";

/** A thread under a test's control. */
interface StagedThread {
  port: Port;
  /** Core that it was started with. */
  core?: Core;
  backend?: Backend;
  /** Names of the members it loaded. */
  members: string[];
  /** Its helper workers, without those that failed. */
  helpers: Set<Port>;
  /** Numbers of helpers that it wanted, one after the other. */
  wanted: number[];
  /** Reason why its device is lost, if a test sets it. */
  lost?: string;
  terminated: boolean;
}

export interface Stage {
  port: Port;
  journal: string[];
  members: Map<string, ScriptedMember>;
  threads: StagedThread[];
  /** Posts invalid data to the library. */
  inject: (data: unknown) => void;
}

/** The smallest valid module. */
const compiled = new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));

export interface Surroundings {
  /** Shelf for the measured kernel choices of a GPU named `card`. */
  kept?: Shelf;
  card?: string;
  /** Shelf for members' system prompts. */
  prompts?: Shelf;
  /** The module starts when this resolves, or fails when it rejects. */
  starting?: Promise<void>;
  /** The modules in threads start when this resolves, or fail when it rejects. */
  startingThreads?: Promise<void>;
  /** Members are loaded when this resolves. */
  building?: Promise<void>;
  /**
   * The open core's module is fetched when this resolves, or fails when it rejects; called at each
   * fetch.
   */
  fetching?: () => Promise<void>;
  /** Whether workers are unable to start workers. */
  workerless?: boolean;
  /** Starts the module of members behind servers, in place of a scripted one. */
  startRemote?: StartRemote;
  /** Whether the page is isolated, so that the engine's memory is shared. */
  shared?: boolean;
}

export function stage(
  scripts: Record<string, Script>,
  cores = 1,
  {
    kept,
    card = "scripted card",
    starting,
    startingThreads,
    building,
    fetching,
    workerless = false,
    shared = false,
    startRemote,
    prompts = new MemoryShelf(),
  }: Surroundings = {},
): Stage {
  const journal: string[] = [];
  const members = new Map<string, ScriptedMember>();
  const threads: StagedThread[] = [];
  let lost: string | undefined;
  const adapter: Adapter = {
    name: "scripted",
    vendor: "",
    architecture: "",
    backend: "cpu",
    software: false,
  };
  const engine = (
    core: Core,
    backend: Backend,
    thread?: StagedThread,
    measured?: Choices,
  ): FusedEngine => ({
    backend,
    adapter: () => adapter,
    choices: () =>
      backend === "cpu"
        ? undefined
        : { ...(measured ?? { normInside: true, asATile: 28 }), measured: measured !== undefined },
    load: async (name, files, _options, onProgress) => {
      const bytes = files.files[0]?.bytes ?? 0;
      if (bytes === 0)
        throw Object.assign(new Error("The file is empty. Choose a GGUF file."), {
          name: "ModelFile",
        });
      const magic = new TextDecoder().decode(await files.read(0, 0, 4));
      if (magic !== "GGUF")
        throw Object.assign(new Error(`The file begins with ${magic}. Choose a GGUF file.`), {
          name: "ModelFile",
        });
      if (core === "fused" && scripts[name]?.noPlan)
        throw Object.assign(new Error("It has no plan for this model."), { name: "NoPlan" });
      onProgress(bytes, bytes);
      if (core === "fused" && backend === "webgpu" && card !== "SwiftShader" && !measured) {
        journal.push("measure");
        measured = { normInside: false, asATile: 20 };
      }
      await building;
      const member = new ScriptedMember(name, journal, scripts[name]!);
      members.set(name, member);
      thread?.members.push(name);
      return member;
    },
    lost: () => (thread ? thread.lost : lost),
    loseDevice: () => (lost = "destroyed"),
    free: () => undefined,
  });
  const startModule = async (
    core: Core,
    thread?: StagedThread,
  ): Promise<StartedModule<EngineModule>> => {
    await (thread ? (startingThreads ?? starting) : starting);
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1024, shared });
    const module: EngineModule = {
      default: async () => ({ memory }),
      Engine: {
        create: async (backend, choices) => {
          if (choices) journal.push(`choose ${JSON.stringify(choices)}`);
          if (thread) Object.assign(thread, { core, backend });
          return engine(core, backend, thread, choices);
        },
      },
      Rounds: class extends ScriptedRounds {
        constructor(options: RoundsOptions) {
          super(options, journal);
        }
      },
      rules: () => rules,
      ranges: () => ranges,
      kernelsVersion: () => "1",
      help: () => undefined,
      helpTrapped: () => undefined,
    };
    return { module, memory, compiled };
  };
  const startGrammar = async (): Promise<GrammarModule> => scriptedGrammar(journal);
  const startThread = (address: string): Port => {
    const core: Core = address.includes("open-core") ? "burn" : "fused";
    const thread: StagedThread = {
      members: [],
      helpers: new Set(),
      wanted: [],
      terminated: false,
      port: { postMessage, terminate, onmessage: null, onmessageerror: null, onerror: null },
    };
    const traps = new Traps();
    const host = new MemberHost(
      () => startModule(core, thread),
      (reply) => {
        const copy: unknown = structuredClone(reply);
        setImmediate(
          () =>
            thread.terminated || thread.port.onmessage?.({ data: copy } as MessageEvent<unknown>),
        );
      },
      startGrammar,
      traps,
      () => {
        const helper: Port = {
          postMessage(data) {
            const { wanted, number } = parseHelperStart(data);
            if (number === 0) void record(wanted, thread);
          },
          terminate: () => void thread.helpers.delete(helper),
          onmessage: null,
          onmessageerror: null,
          onerror: null,
        };
        thread.helpers.add(helper);
        return helper;
      },
    );
    function postMessage(data: unknown, transfer: Transferable[] = []): void {
      // A compiled module can be sent between workers, but not through structuredClone in Node.
      const copy: unknown = hasModule(data) ? data : structuredClone(data, { transfer });
      setImmediate(() => thread.terminated || void host.receive(copy));
    }
    function terminate(): void {
      thread.terminated = true;
    }
    threads.push(thread);
    return thread.port;
  };
  const deliver = (data: unknown): void => {
    const copy: unknown = structuredClone(data);
    setImmediate(() => port.onmessage?.({ data: copy } as MessageEvent<unknown>));
  };
  const openStore = async (): Promise<Store> =>
    new Store({ shelf: new MemoryShelf(), locks: openLocks(null) });
  const gpu: Gpu | undefined = kept && {
    requestAdapter: async () => ({ info: { description: card } }),
  };
  const choices = new RememberedChoices(async () => kept ?? new MemoryShelf());
  const fetchOpenCore = async (
    _address: string,
    onFetched: (loaded: number, total: number) => void,
  ): Promise<WebAssembly.Module> => {
    journal.push("fetch the open core");
    onFetched(3, 7);
    await fetching?.();
    return compiled;
  };
  const fetchOnDemand = async (address: string): Promise<WebAssembly.Module> => {
    journal.push(`fetch ${new URL(address).pathname.split("/").at(-1)}`);
    await fetching?.();
    return compiled;
  };
  const service = new Service({
    startModule: () => startModule("fused"),
    fetchOpenCore,
    fetchGrammar: fetchOnDemand,
    startGrammar,
    fetchRemote: fetchOnDemand,
    startRemote: startRemote ?? (async () => scriptedRemote(journal)),
    startThread: workerless ? undefined : startThread,
    cores,
    openStore,
    prompts: new Prompts({ open: async () => prompts, locks: openLocks(null) }),
    gpu,
    choices,
    post: deliver,
    traps: new Traps(),
  });
  const port: Port = {
    postMessage: (data, transfer = []) => {
      const copy: unknown = structuredClone(data, { transfer });
      setImmediate(() => void service.receive(copy));
    },
    terminate: () => journal.push("terminate"),
    onmessage: null,
    onmessageerror: null,
    onerror: null,
  };
  return { port, journal, members, threads, inject: deliver };
}

const hasModule = (data: unknown): boolean =>
  typeof data === "object" && data !== null && ("compiled" in data || "form" in data);

/** Lets all pending messages arrive. */
export async function settle(): Promise<void> {
  for (let count = 0; count < 20; count++)
    await new Promise<void>((resolve) => setImmediate(resolve));
}

export const file = new Blob(["GGUF"]);
export const hello: Message[] = [{ role: "user", content: "hello" }];
export const talker: Script = {
  drafts: [
    { text: "Hello", ended: false },
    { text: " there.", ended: true },
  ],
  taste: () => 1,
};
/** Votes for the segments of an answer by Ada and Bo, who are both such talkers. */
export const segments = ["Hello", " there."].map((text) => ({
  text,
  writers: ["Ada", "Bo"],
  votes: { Ada: 0.5, Bo: 0.5 },
  logprobs: { Ada: -1, Bo: -1 },
}));
/** Ends an answer only by a limit or a stop. */
export const endless: Script = { drafts: [{ text: "la ", ended: false }], taste: () => 1 };

/** An engine on `cores` cores with one member for each script. */
export async function open(
  scripts: Record<string, Script>,
  cores?: number,
  surroundings?: Surroundings,
): Promise<Stage & { conclave: Conclave }> {
  const made = stage(scripts, cores, surroundings);
  const conclave = await Conclave.open({ backend: "cpu" }, made.port);
  for (const name of Object.keys(scripts)) await conclave.add({ name, files: [file] });
  return { ...made, conclave };
}

export async function collect(events: AsyncIterable<ConclaveEvent>): Promise<ConclaveEvent[]> {
  const all: ConclaveEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

export function begun(events: ConclaveEvent[]): BeginEvent {
  const event = events.find((candidate) => candidate.type === "begin");
  assert.ok(event, "the members have begun");
  return event;
}

/** Records each change of the number of helpers that may help a thread. */
async function record(wanted: Int32Array<SharedArrayBuffer>, thread: StagedThread): Promise<void> {
  while (!thread.terminated) {
    const count = Atomics.load(wanted, 0);
    thread.wanted.push(count);
    await Atomics.waitAsync(wanted, 0, count).value;
  }
}
