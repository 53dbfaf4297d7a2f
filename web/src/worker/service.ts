/**
 * The worker's side of the protocol: owns the engine and the members; handles requests one after
 * the other if they use the engine, in parallel if they only download.
 */
import { chooseBackend, type Gpu } from "../protocol/backend.ts";
import type { RememberedChoices } from "./remembered-choices.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import {
  defaultCore,
  defaultRule,
  mostMembers,
  type About,
  type Core,
  type EngineModule,
  type FusedEngine,
  type Loader,
  type Member,
} from "../protocol/engine.ts";
import {
  BadSettings,
  type ConclaveError,
  EngineFailure,
  isAbort,
  toRecord,
  typed,
} from "../protocol/errors.ts";
import { answer } from "./asking.ts";
import { notOpen, type OnFetched, type StartedModule } from "./engine-module.ts";
import { Forms } from "./forms.ts";
import { KeptPrompts } from "./kept-prompts.ts";
import { readSource } from "../store/load.ts";
import { unmeasured } from "../store/meter.ts";
import { Conversations } from "./conversations.ts";
import { Gate } from "./gate.ts";
import { FusedLoader } from "./fused-loader.ts";
import { Grammars, type StartGrammar } from "./grammars.ts";
import { lackOfMemory } from "./out-of-memory.ts";
import { diagnosed, lossOf } from "./lost-device.ts";
import { MemberThreads, type Reserved, type StartThread } from "./member-threads.ts";
import {
  parseRequest,
  stoppedEnd,
  type MemberSource,
  type Progress,
  type Reply,
  type Request,
  type Usage,
} from "../protocol/messages.ts";
import { pickedFiles, untilAborted, type ModelFiles } from "../protocol/model-files.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { OpenCore, type FetchCore } from "./open-core.ts";
import { connectBuiltIn } from "./remote/built-in.ts";
import { RemoteMember } from "./remote/remote-member.ts";
import { Remotes, type FetchRemote, type StartRemote } from "./remote/remote-module.ts";
import type { Prompts } from "../store/prompts.ts";
import type { Store } from "../store/store.ts";
import { answerAboutModels, isAboutModels } from "./stored-models.ts";
import { throttled } from "./throttled.ts";
import { together } from "./together.ts";
import type { Traps } from "./traps.ts";
import { Turns } from "./turns.ts";

/** Idle time after an answer, in ms, before system prompts are kept. */
const idleMs = 1000;

type RequestOf<T extends Request["type"]> = Extract<Request, { type: T }>;

/** Abort signal and progress listener of a load. */
type Loading = { signal: AbortSignal; onProgress: (progress: Progress) => void };

interface Surroundings {
  /** Fetches the fused core's module from an address and starts it. */
  startModule: (address: string) => Promise<StartedModule<EngineModule>>;
  fetchOpenCore: FetchCore;
  /** Fetches the grammars' module, for threads to start it; starts it in this thread. */
  fetchGrammar: (address: string) => Promise<WebAssembly.Module>;
  startGrammar: StartGrammar;
  /** Fetches the module of members behind servers; starts it in this thread. */
  fetchRemote: FetchRemote;
  startRemote: StartRemote;
  /** Starts a worker for members; absent without nested workers. */
  startThread?: StartThread | undefined;
  /** Number of threads that this machine runs at once. */
  cores: number;
  /** Opens the models of this machine; `hub`: host for `hf:` references, if not the public hub. */
  openStore: (hub: string | undefined) => Promise<Store>;
  /** Kept prefixes of system prompts. */
  prompts: Prompts;
  gpu: Gpu | undefined;
  /** Kernel choices that engines of earlier visits measured. */
  choices: RememberedChoices;
  post: (reply: Reply) => void;
  /** Hears of traps in this thread's module. */
  traps: Traps;
}

export class Service {
  readonly #around: Surroundings;
  #store: Promise<Store>;
  readonly #members = new Map<string, Member>();
  readonly #running = new Map<
    number,
    { type: Request["type"]; controller: AbortController; gate: Gate }
  >();
  #started: StartedModule<EngineModule> | undefined;
  #engine: FusedEngine | undefined;
  /** Error of the engine's opening, if it failed. */
  #unopened: ConclaveError | undefined;
  /** The engine's opening, in progress or complete. */
  #opening: Promise<void> | undefined;
  /** Adapter and kernels for which choices are to be kept; undefined if there are none to keep. */
  #choicesOf: string | undefined;
  /** Core of members that name none; undefined if they may run on either. */
  #core: Core | undefined;
  readonly #grammars: Grammars;
  readonly #forms: Forms;
  readonly #remotes: Remotes;
  /** Threads of members on the CPU; undefined if members live in this thread. */
  #threads: MemberThreads | undefined;
  /** The threads, once a backend is chosen, which is before the engine is open. */
  #threading: Promise<MemberThreads | undefined> | undefined;
  /** Open core; undefined without nested workers. */
  #openCore: OpenCore | undefined;
  /** Timer that keeps system prompts once it ends; see `idleMs`. */
  #idle: ReturnType<typeof setTimeout> | undefined;
  /** Undefined if prompts are not to be kept. */
  #prompts: KeptPrompts | undefined;
  /** Conversations whose rounds the caller drives. */
  readonly #conversations = new Conversations((task) => this.#inTurn(task));
  /** Queue of all tasks that use the engine. */
  readonly #turns = new Turns();

  constructor(around: Surroundings) {
    this.#around = around;
    this.#grammars = new Grammars(around.startGrammar);
    this.#forms = new Forms(around.fetchGrammar, this.#grammars);
    this.#remotes = new Remotes(around.fetchRemote, around.startRemote);
    this.#store = around.openStore(undefined);
  }

  /** Handles one message; never rejects. */
  async receive(data: unknown): Promise<void> {
    let request: Request;
    try {
      request = parseRequest(data);
    } catch (error) {
      const id =
        typeof data === "object" && data !== null && "id" in data && typeof data.id === "number"
          ? data.id
          : 0;
      return this.#around.post({
        type: "failed",
        id,
        error: {
          kind: "Settings",
          message: `${error instanceof Error ? error.message : String(error)}.`,
        },
      });
    }
    const { id } = request;
    if (request.type === "stop") {
      this.#running.get(id)?.controller.abort();
      return;
    }
    if (request.type === "pause") return this.#running.get(id)?.gate.shut(request.paused);
    const controller = new AbortController();
    this.#running.set(id, { type: request.type, controller, gate: new Gate() });
    try {
      const answered = this.#answer(request, controller.signal);
      // A load hears of its own traps; what is stored needs no module.
      const isApart = request.type === "add" || isAboutModels(request);
      await (isApart ? answered : this.#around.traps.heard(answered));
    } catch (thrown) {
      if (isAbort(thrown)) this.#around.post({ type: "aborted", id });
      else this.#around.post({ type: "failed", id, error: toRecord(this.#diagnose(thrown)) });
      // Stops all fetches, since there is no engine.
      if (request.type === "open") {
        this.#unopened = typed(thrown);
        for (const waiting of this.#running.values())
          if (waiting.type === "add")
            waiting.controller.abort(isAbort(thrown) ? undefined : this.#unopened);
      }
    } finally {
      this.#running.delete(id);
    }
  }

  async #answer(
    request: Exclude<Request, { type: "stop" | "pause" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { id } = request;
    switch (request.type) {
      case "open":
        this.#unopened = undefined;
        return unlessAborted((this.#opening = this.#open(request)), signal);
      case "add":
        return this.#add(request, signal);
      case "ask":
        return this.#askInTurn(request, signal);
      case "measure":
        return this.#inTurn(() => this.#measure(request));
      case "begin":
        return this.#around.post({
          type: "begun",
          id,
          prefixes: await unlessAborted(
            this.#conversations.begin(
              request,
              () => this.#named(request.members),
              (members) => this.#forms.by(request.schema, members, signal),
              signal,
            ),
            signal,
          ),
        });
      case "draft":
        return this.#around.post({
          type: "drafted",
          id,
          drafts: await this.#computed(
            this.#conversations.draft(request.conversation, request.members, request.maxTokens),
          ),
        });
      case "verify":
        return this.#around.post({
          type: "verified",
          id,
          scores: await this.#computed(
            this.#conversations.verify(request.conversation, request.candidates, request.settings),
          ),
        });
      case "keep":
        await this.#computed(this.#conversations.keep(request.conversation, request.winner));
        return this.#around.post({ type: "done", id });
      case "end":
        await this.#conversations.end(request.conversation);
        return this.#around.post({ type: "done", id });
      case "remove":
        await this.#inTurn(async () => this.#remove(request.name));
        return this.#around.post({ type: "removed", id, usage: this.#usage() });
      case "plan":
      case "models":
      case "keepFiles":
      case "deleteModel":
      case "deletePrompts":
      case "latestCommit":
        return answerAboutModels(request, await this.#store, this.#around, signal);
      case "loseDevice":
        // Not queued: a device can be lost during an answer.
        this.#opened().engine.loseDevice();
        return this.#around.post({ type: "done", id });
    }
  }

  async #open({
    id,
    backend: wanted,
    places,
    hub,
    threads = this.#around.cores,
    core,
    keepPrompts = true,
  }: RequestOf<"open">): Promise<void> {
    this.#core = core;
    this.#prompts = keepPrompts ? new KeptPrompts(this.#around.prompts) : undefined;
    this.#forms.address = places.grammar;
    this.#remotes.address = places.remote;
    // First, since members are fetched through it while the engine opens.
    this.#store = this.#around.openStore(hub);
    // The module is fetched in parallel with the search for an adapter and the opening of the
    // store, and members' workers start meanwhile.
    const starting = this.#started ?? this.#around.startModule(places.engine.wasm);
    const choosing = chooseBackend(wanted, this.#around.gpu);
    const { startThread, fetchOpenCore } = this.#around;
    const closing = this.#threads;
    const threading = choosing.then(({ backend }) => {
      this.#threads =
        backend === "cpu" && threads > 1 && startThread
          ? new MemberThreads(startThread, places.engine.worker, threads)
          : undefined;
      return this.#threads;
    });
    // The opening reports a missing backend.
    this.#threading = threading.catch(() => undefined);
    const [{ backend, why, adapter: told }, started] = await Promise.all([
      choosing,
      starting,
      this.#store,
    ]).catch(async (error: unknown) => {
      (await this.#threading)?.close();
      throw error;
    });
    const { module, compiled } = (this.#started = started);
    this.#threads?.start({ compiled, backend });
    const choicesOf =
      backend === "webgpu" ? `${told?.name ?? ""} ${module.kernelsVersion()}` : undefined;
    const choices =
      choicesOf === undefined ? undefined : await this.#around.choices.recall(choicesOf);
    this.#engine = await module.Engine.create(backend, choices);
    this.#choicesOf = choices ? undefined : choicesOf;
    closing?.close();
    this.#openCore?.close();
    this.#openCore =
      startThread && new OpenCore(fetchOpenCore, startThread, places.openCore, backend);
    const rules = module.rules();
    const found = this.#engine.adapter();
    const adapter = {
      ...found,
      name: found.name || told?.name || "unnamed adapter",
      software: found.software || (told?.software ?? false),
    };
    this.#around.post({
      type: "opened",
      id,
      backend,
      adapter,
      why,
      settings: rules[defaultRule],
      rules,
      ranges: module.ranges(),
    });
  }

  /** Loads a member; its files are fetched while the engine opens. */
  async #add(request: RequestOf<"add">, signal: AbortSignal): Promise<void> {
    if (!this.#opening) throw notOpen();
    if (this.#unopened) throw this.#unopened;
    const { id, source } = request;
    if (source.remote !== undefined || source.builtIn) return this.#addElsewhere(request, signal);
    const onProgress = throttled((progress) =>
      this.#around.post({ type: "progress", id, progress }),
    );
    const named = source.core ?? this.#core;
    // Its worker starts while its files are fetched.
    const reserving =
      named === "burn" ? undefined : this.#threading?.then((threads) => threads?.reserve());
    const loading = async (): Promise<void> => {
      const files = await this.#files(source, { signal, onProgress });
      try {
        await this.#opening;
        const load = (core: Core, reserved?: Reserved): Promise<void> =>
          this.#load(
            request,
            { core, reserved, files: untilAborted(files, signal) },
            { signal, onProgress },
          );
        await load(named ?? defaultCore, await reserving).catch((error: unknown) => {
          // The open core runs models that the fused one has no plan for, unless the caller named
          // that core.
          if (named !== undefined || !this.#openCore || typed(error).kind !== "NoPlan") throw error;
          return load("burn");
        });
      } finally {
        files.close();
      }
    };
    // The engine may build kernels for seconds; an abort does not wait for that.
    await unlessAborted(
      loading().finally(() => reserving?.then((reserved) => reserved?.release())),
      signal,
    );
  }

  /** Loads a member on a core: queued, in parallel with other loads if each has a thread. */
  async #load(
    request: RequestOf<"add">,
    { core, reserved, files }: { core: Core; reserved: Reserved | undefined; files: ModelFiles },
    { signal, onProgress }: Loading,
  ): Promise<void> {
    const { source, contextTokens } = request;
    const { engine } = this.#opened();
    const told = (phase: "core" | "loading") => (loaded: number, total: number) =>
      onProgress(unmeasured(phase, loaded, total));
    // Not queued: answers do not wait for a fetch.
    const home = reserved ?? (await this.#home(core, told("core")));
    const load = async (): Promise<void> => {
      signal.throwIfAborted();
      this.#refuseFull(request);
      // The new one first: if its file is broken, the member that it would replace stays.
      const options = { contextTokens, ...definedFields({ quantise: source.quantise }) };
      const member = await home.load(source.name, files, options, told("loading"));
      this.#seat(request, member, signal, { core });
      await this.#keepChoices(engine);
    };
    return reserved ? this.#turns.beside(load) : this.#turns.alone(load);
  }

  /** Probes a server, or the browser's own model, and adds a member for it. */
  async #addElsewhere(request: RequestOf<"add">, signal: AbortSignal): Promise<void> {
    const { source, builtIn } = request;
    const module = await this.#remotes.module(signal);
    const connecting = builtIn
      ? connectBuiltIn(source, builtIn, module, signal)
      : RemoteMember.connect(source, module, signal);
    const member = await this.#around.traps.heard(connecting);
    await unlessAborted(this.#opening ?? Promise.resolve(), signal);
    // An abort takes effect at once, even while an answer uses the engine.
    await unlessAborted(
      this.#inTurn(async () => this.#seat(request, member, signal, { remote: member.remote })),
      signal,
    );
  }

  /** Throws if there is no room for another member. */
  #refuseFull({ source, replace }: RequestOf<"add">): void {
    const leaves = replace === undefined ? undefined : this.#member(replace);
    if (!leaves && this.#members.size >= mostMembers)
      throw new BadSettings(
        `${mostMembers} members are the most. Remove one first, or replace one.`,
      );
    if (this.#members.has(source.name) && source.name !== replace)
      throw new BadSettings(
        `There is a member called ${source.name} already. ` +
          "Give this one another name, or replace that one.",
      );
  }

  #seat(
    request: RequestOf<"add">,
    member: Member,
    signal: AbortSignal,
    lives: Pick<About, "core" | "remote">,
  ): void {
    if (signal.aborted) return member.free();
    const { id, source, replace } = request;
    try {
      this.#refuseFull(request);
    } catch (error) {
      // Another request came first.
      member.free();
      throw error;
    }
    if (replace !== undefined) this.#remove(replace);
    this.#members.set(source.name, member);
    if (lives.remote === undefined) this.#prompts?.add(member, source);
    this.#around.post({
      type: "added",
      id,
      about: { ...member.about(), ...lives },
      usage: this.#usage(),
    });
  }

  /** Loader of a core's members. */
  async #home(core: Core, onFetched: OnFetched): Promise<Loader> {
    if (core === "fused")
      return new FusedLoader(this.#opened(), this.#around.traps, this.#grammars);
    if (this.#openCore) return this.#openCore.fetched(onFetched);
    throw new EngineFailure(
      "The open core runs in a worker of its own, which this browser does not give to workers. " +
        "Take the fused core, or another browser.",
    );
  }

  /** Keeps the engine's measurements with its first model, once. */
  async #keepChoices(engine: FusedEngine): Promise<void> {
    const choices = engine.choices();
    if (this.#choicesOf === undefined || !choices?.measured) return;
    const of = this.#choicesOf;
    this.#choicesOf = undefined;
    await this.#around.choices.keep(of, choices);
  }

  /** Files of a source, from this machine or from the network. */
  async #files(source: MemberSource, options: Loading): Promise<ModelFiles> {
    if (source.files) return pickedFiles(source.files, source.name);
    if (source.ref !== undefined)
      return (await this.#store).open(source.ref, { ...options, expected: source });
    return readSource(source, options);
  }

  #usage(): Usage {
    const own = this.#started?.memory.buffer.byteLength ?? 0;
    const burn = this.#openCore?.threads;
    // Without threads of their own, members of the fused core live in this thread.
    const here = [...this.#members.values()].filter(({ remote }) => remote === undefined).length;
    const fused = this.#threads?.count ?? (here > (burn?.members ?? 0) ? 1 : 0);
    return {
      heap: own + (this.#threads?.heap ?? 0) + (burn?.heap ?? 0),
      threads: Math.max(1, fused + (burn?.count ?? 0)),
    };
  }

  #remove(name: string): void {
    const member = this.#member(name);
    this.#prompts?.remove(member);
    member.free();
    this.#members.delete(name);
  }

  /** Answers after all earlier requests; an abort takes effect at once while it waits. */
  async #askInTurn(request: RequestOf<"ask">, signal: AbortSignal): Promise<void> {
    let waits = true;
    const turn = this.#inTurn(async () => {
      if (signal.aborted && waits) return;
      waits = false;
      await this.#ask(request, signal);
    });
    const stopped = new Promise<"stopped">((resolve) =>
      signal.addEventListener("abort", () => resolve("stopped"), { once: true }),
    );
    if ((await Promise.race([turn, stopped])) !== "stopped" || !waits) return turn;
    this.#around.post({ type: "event", id: request.id, event: stoppedEnd() });
  }

  /** Members of these names, each once. */
  #named(names: string[]): Member[] {
    const members = names.map((name) => this.#member(name));
    if (members.length === 0)
      throw new BadSettings("No member takes part. Load one, or let one take part.");
    if (new Set(members).size < members.length)
      throw new BadSettings("A member is named twice. Name each member once.");
    return members;
  }

  /** Reports the length of a conversation for each of some members. */
  async #measure({ id, messages, members: names, thinking }: RequestOf<"measure">): Promise<void> {
    const measured = await together(this.#named(names), async (member, index) => {
      const tokens = await member.measure(messages, thinking);
      return { member: names[index]!, tokens, room: member.about().context };
    });
    this.#around.post({ type: "measured", id, measured });
  }

  async #ask(request: RequestOf<"ask">, signal: AbortSignal): Promise<void> {
    const { id } = request;
    const opened = this.#opened();
    const members = this.#named(request.members);
    try {
      await answer(
        request,
        {
          ...opened,
          members,
          form: () => this.#forms.by(request.schema, members, signal),
          prompts: this.#prompts,
          gate: this.#running.get(id)?.gate,
          emit: (event) => this.#around.post({ type: "event", id, event }),
        },
        signal,
      );
    } finally {
      this.#keepPrompts();
    }
  }

  /** Keeps members' prefixes of system prompts after an idle time. */
  #keepPrompts(): void {
    clearTimeout(this.#idle);
    if (!this.#prompts?.waits) return;
    this.#idle = setTimeout(() => {
      const asked = [...this.#running.values()].some(
        ({ type }) => type === "ask" || type === "begin",
      );
      if (asked) return this.#keepPrompts();
      void this.#inTurn(async () => this.#prompts?.keep());
    }, idleMs);
  }

  /** Results of members, unless the device was lost: that leaves stale results, not exceptions. */
  async #computed<T>(results: Promise<T>): Promise<T> {
    const computed = await results;
    if (this.#engine?.lost() !== undefined) throw new EngineFailure("The device was lost.");
    return computed;
  }

  #opened(): { module: EngineModule; engine: FusedEngine; memory: WebAssembly.Memory } {
    if (!this.#started || !this.#engine) throw this.#unopened ?? notOpen();
    const { module, memory } = this.#started;
    return { module, engine: this.#engine, memory };
  }

  #member(name: string): Member {
    const member = this.#members.get(name);
    if (member) return member;
    const others = [...this.#members.keys()];
    const loaded = others.length > 0 ? `Loaded: ${others.join(", ")}.` : "None is loaded.";
    throw new BadSettings(`There is no member called ${name}. ${loaded}`);
  }

  /** Runs tasks that use the engine one after the other. */
  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    return this.#turns.alone(task);
  }

  #diagnose(thrown: unknown): ConclaveError {
    const lack = this.#started && lackOfMemory(thrown, "the members", this.#started.memory);
    return diagnosed(lack ?? thrown, lossOf(this.#engine));
  }
}
