/**
 * The library: several small language models in one browser tab that answer as one.
 *
 * ```ts
 * const conclave = await Conclave.load({ onProgress: ({ member, loaded, total }) => … });
 * for await (const event of conclave.ask([{ role: "user", content: "What is 14 plus 28?" }])) {
 *   if (event.type === "round") show(event.text, event.candidates[event.winner].member);
 * }
 * ```
 */
import type { BackendChoice } from "../protocol/backend.ts";
import type {
  About,
  Adapter,
  Backend,
  Core,
  Message,
  Ranges,
  Rule,
  Rules,
  Sampling,
  Settings,
  Thinking,
} from "../protocol/engine.ts";
import {
  BadSettings,
  EngineFailure,
  ConclaveError,
  fromRecord,
  toRecord,
  typed,
} from "../protocol/errors.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { readManifest, sourceOf } from "../store/load.ts";
import { text } from "../protocol/check.ts";
import {
  sampling as wholeSampling,
  settings as wholeSettings,
  memberSource,
  type ConclaveEvent,
  type Measured,
  type MemberSource,
  type Plan,
  type Progress,
  type Reply,
  type Request,
  type Stored,
  type Usage,
} from "../protocol/messages.ts";
import { BuiltIn } from "./built-in.ts";
import { Conversation } from "./conversation.ts";
import {
  addFields,
  askFields,
  beginFields,
  checked,
  checkedOptions,
  loadFields,
  measureFields,
  messages as messageList,
  openFields,
} from "./options.ts";
import { places, toys } from "./places.ts";
import { schemaOf, type ResponseFormat } from "./response-format.ts";
import { Share } from "./share.ts";
import { Wire, type Port } from "./wire.ts";

export type { BackendChoice } from "../protocol/backend.ts";
export type {
  About,
  Adapter,
  Backend,
  Candidate,
  Core,
  Draft,
  ExitSettings,
  FormatInMemory,
  LeaderSettings,
  Memory,
  Message,
  Ranges,
  RemoteAbout,
  Rule,
  Rules,
  Sampling,
  Score,
  SettingRange,
  Settings,
  Thinking,
  VerifiedScore,
} from "../protocol/engine.ts";
export * from "../protocol/errors.ts";
export { remoteAddress, type Capability } from "../protocol/remote.ts";
export { readManifest, sourceOf, type ManifestEntry } from "../store/load.ts";
export type {
  BeginEvent,
  ConclaveEvent,
  EndEvent,
  LeftEvent,
  Measured,
  MemberSource,
  Plan,
  Progress,
  ReadingEvent,
  ReopenedEvent,
  RoundCounters,
  RoundEvent,
  StopReason,
  Stored,
  StoredModel,
  ThinkingEvent,
  ThoughtEvent,
} from "../protocol/messages.ts";
export {
  parseReference,
  referenceName,
  referenceText,
  type Reference,
} from "../store/reference.ts";
export { Conversation } from "./conversation.ts";
export type { ResponseFormat } from "./response-format.ts";
export type { Port } from "./wire.ts";

/** How an engine is started. */
export interface OpenOptions {
  /** `auto` (the default) takes WebGPU where a hardware adapter answers, else the CPU. */
  backend?: BackendChoice;
  /** The hub that `hf:` references go to, if not huggingface.co: a mirror, or a test's own. */
  hub?: string;
  /**
   * The most threads that members run on with the CPU backend: a member on each, and in a page that
   * is isolated from other origins the rest of them helping; as many as the machine has cores if
   * left out. With 1 all run in one worker, one after the other.
   */
  threads?: number;
  /**
   * What members run on: `fused`, this engine's own kernels, or `burn`, the open core, which says
   * the same decoder in burn tensor operations. That is a module of its own, fetched when the first
   * member needs it, and its members share one thread; they take part beside the others, since only
   * text and scores cross. Left out, a member runs on the fused core, or on the open one where the
   * fused has no plan for its model; a core that is named is taken, or the load fails. A member's
   * own `core` goes before this one, and {@link About} tells which it was.
   */
  core?: Core;
  /**
   * Whether the system prompt of a conversation is kept in the origin's private files as members
   * have read it, so that the next visit need not read it again (the default); without one, what a
   * model's template begins with. What is kept are numbers made of that alone, never of a question
   * or an answer; see {@link Conclave.deletePrompts}.
   */
  keepPrompts?: boolean;
  /**
   * Where the package's files lie, if not beside its scripts: the address of a folder that has them
   * as the package does, on this origin or on another that lets pages read them.
   */
  assets?: string | URL;
  /** Stops the start, or the loading. */
  signal?: AbortSignal;
}

/** How a member is loaded. */
export interface AddOptions {
  /** Room for the conversation, in the member's tokens; at most what the model was trained for. */
  contextTokens?: number;
  /**
   * The member that the new one takes the place of, once it is loaded; there must be one of this
   * name.
   */
  replace?: string;
  /** Hears how far each member is. */
  onProgress?: (progress: Progress & { member: string }) => void;
  /** Stops the download or the loading; what was downloaded stays. */
  signal?: AbortSignal;
}

/** How an engine is started and its members are loaded. */
export interface LoadOptions extends OpenOptions, Omit<AddOptions, "replace"> {
  /** The members, or the address of a list of them; the bundled ones if left out. */
  members?: MemberSource[] | string | URL;
  /**
   * Hears which share of the load is done, from 0 to 1: the engine's module, the downloads, and
   * their way to the engine. It never falls, comes ten times a second at most, and is 1 when all is
   * there.
   */
  onShare?: (share: number) => void;
}

/** How a question is answered. */
export interface AskOptions {
  /** Stops the answer; the text so far stays, and the last event says `stopped`. */
  signal?: AbortSignal;
  /**
   * A preset of all settings: `harmonic`, the default, which does best where it was measured;
   * `leader`, the same where one member drafts for all while nobody doubts it; or `paper`, the
   * method as its authors published it.
   */
  rule?: Rule;
  /** What differs from the rule's settings ({@link Conclave.rules}). */
  settings?: Partial<Settings>;
  /** What differs from {@link defaultSampling}; without a seed every answer has its own. */
  sampling?: Partial<Sampling>;
  /** Names of the members that take part; all of them if left out. */
  members?: string[];
  /**
   * Whether members that can think aloud do so before they answer: `off` (the default), `on`, or
   * `auto`, as each model's chat template has it. What they think comes as events, each member's
   * own: it is no part of the answer, no other member sees it, and it is not in the next question.
   */
  thinking?: Thinking;
  /**
   * The most tokens of the answer, each segment's counted in its writer's own; the answer ends as
   * `tokens`.
   */
  maxTokens?: number;
  /**
   * Texts that the answer ends before, as `stop`. What may begin one is told a round later, or in
   * `end`.
   */
  stop?: string[];
  /**
   * What becomes of a conversation that is too long for a member: `error` (the default) throws
   * ContextFull; `drop-oldest` leaves out as many of the oldest questions with their answers as it
   * takes for the answer to have a quarter of the context (or `maxTokens`, where that is less),
   * never the system's message nor the last question, and tells how many messages in `begin`.
   */
  overflow?: "error" | "drop-oldest";
  /**
   * What the answer is to be as a whole: `text` (the default), `json_object`, or `json_schema` with
   * a `schema`. What holds members to it is a module of its own, fetched for the first such answer.
   * Throws Settings where a schema can't be honoured, with the part of it and why. On the GPU every
   * token then waits for the CPU.
   */
  responseFormat?: ResponseFormat;
}

/** How a conversation is begun whose rounds the caller drives. */
export type BeginOptions = Pick<
  AskOptions,
  "signal" | "rule" | "settings" | "sampling" | "members" | "responseFormat"
>;

/** Of which conversation the length is asked. */
export interface MeasureOptions {
  /** Names of the members that are asked; all of them if left out. */
  members?: string[];
  /** As in {@link AskOptions}. */
  thinking?: Thinking;
}

/** The paper's sampling. */
export const defaultSampling: Omit<Sampling, "seed"> = { temperature: 0.6, topP: 0.9, topK: 0 };
/** Room for the conversation where `add` and `load` are not told, in a member's tokens. */
export const defaultContextTokens = 1024;

const openRequest = (
  id: number,
  { backend = "auto", hub, threads, core, assets, keepPrompts }: OpenOptions,
): Request => ({
  type: "open",
  id,
  backend,
  places: places(assets),
  ...(hub === undefined ? {} : { hub }),
  ...(threads === undefined ? {} : { threads }),
  ...(core === undefined ? {} : { core }),
  ...(keepPrompts === undefined ? {} : { keepPrompts }),
});

/** An engine in a worker with its members. All failures are {@link ConclaveError}s. */
export class Conclave {
  /**
   * Resolves once the engine is open. Rejects with NoGpu, Download, Engine; `plan`, `models`,
   * `deleteModel` and `latestCommit`, which need no engine, work all the same until `close`.
   */
  readonly ready: Promise<this>;
  readonly #options: OpenOptions;
  /** Starts a worker in the place of a failed one. */
  readonly #startPort: (() => Port) | undefined;
  readonly #members = new Map<string, About>();
  /** What they were loaded from. */
  readonly #sources = new Map<
    string,
    { source: MemberSource; options: AddOptions; builtIn: BuiltIn | undefined }
  >();
  #wire: Wire;
  /** The opening of the last engine that took the place of a failed one, under way or over. */
  #reopening: Promise<boolean> | undefined;
  #closed = false;
  #opened: Answer<"opened"> | undefined;
  /** Why the engine could not be opened. */
  #unopened: ConclaveError | undefined;
  #usage: Usage = { heap: 0, threads: 1 };

  private constructor(port: Port, options: OpenOptions, startPort?: () => Port) {
    this.#startPort = startPort;
    this.#options = options;
    this.#wire = this.#wireTo(port);
    this.ready = opened(this.#wire, options).then((reply) => {
      this.#opened = reply;
      return this;
    });
    // Told to whoever waits for it, and by what needs an engine.
    this.ready.catch((error: unknown) => (this.#unopened = typed(error)));
  }

  /**
   * Starts an engine and does not wait for it: members can be added at once, their files are
   * fetched while it opens. What it runs on is known when `ready` resolves.
   */
  static start(options: OpenOptions = {}, port?: Port | (() => Port)): Conclave {
    options = checkedOptions("open", options, openFields);
    if (typeof port === "object") return new Conclave(port, options);
    const startPort = port ?? (() => workerAt(places(options.assets).engine.worker));
    return new Conclave(startPort(), options, startPort);
  }

  #wireTo(port: Port): Wire {
    return new Wire(port, places(this.#options.assets).engine.worker);
  }

  /**
   * Starts an engine without members, and waits until it is open. Throws NoGpu, Download, Engine.
   */
  static async open(options: OpenOptions = {}, port?: Port | (() => Port)): Promise<Conclave> {
    const conclave = Conclave.start(options, port);
    return conclave.ready.catch((error: unknown) => {
      conclave.close();
      throw error;
    });
  }

  /**
   * Starts an engine and loads the members, all or none: files are fetched while the engine opens.
   * Throws as `open` and `add` do.
   */
  static async load(options: LoadOptions = {}, port?: Port | (() => Port)): Promise<Conclave> {
    options = checkedOptions("load", options, loadFields) as LoadOptions;
    const { backend, hub, threads, core, assets, keepPrompts, signal } = options;
    const conclave = Conclave.start(
      given({ backend, hub, threads, core, assets, keepPrompts, signal }),
      port,
    );
    const { contextTokens, onProgress, onShare } = options;
    try {
      const share = new Share(onShare ?? (() => undefined));
      const onStep = (progress: Progress & { member: string }): void => {
        onProgress?.(progress);
        share.member(progress.member, progress);
      };
      const add = async (source: MemberSource): Promise<About> => {
        const about = await conclave.add(
          source,
          given({ contextTokens, onProgress: onStep, signal }),
        );
        share.added(source.name);
        return about;
      };
      const adding = async (): Promise<About[]> => {
        const sources = await listed(options);
        share.await(sources);
        return Promise.all(sources.map(add));
      };
      const [abouts] = await Promise.all([adding(), conclave.ready.then(() => share.opened())]);
      // Downloads end in any order, but ties and random streams go by this one.
      conclave.#members.clear();
      for (const about of abouts) conclave.#members.set(about.name, about);
      share.done();
      return conclave;
    } catch (error) {
      conclave.close(); // ends all that is still being fetched
      throw error;
    }
  }

  /**
   * Where the members run. This and what follows throws Engine before `ready`, or why it rejected.
   */
  get backend(): Backend {
    return this.#told.backend;
  }

  /** The adapter they run on. */
  get adapter(): Adapter {
    return this.#told.adapter;
  }

  /** In plain words, why this backend was taken. */
  get why(): string {
    return this.#told.why;
  }

  /** The method's settings when `ask` is given none. */
  get defaults(): Readonly<Settings> {
    return this.#told.settings;
  }

  /** The method's settings under each rule. */
  get rules(): Readonly<Rules> {
    return this.#told.rules;
  }

  /** What each number of the settings may be, by its name: `exit.warmup` within `exit`. */
  get ranges(): Readonly<Ranges> {
    return this.#told.ranges;
  }

  get #told(): Answer<"opened"> {
    if (this.#opened) return this.#opened;
    throw (
      this.#unopened ?? new EngineFailure("The engine is not open yet. Wait for `ready` first.")
    );
  }

  /**
   * Bytes of the wasm modules' memory, in all threads, after the last member came or went; weights
   * on a GPU are not in it.
   */
  get heapBytes(): number {
    return this.#usage.heap;
  }

  /**
   * Threads that the members run on: on the CPU one a member while there are cores, and one for all
   * on the open core.
   */
  get threads(): number {
    return this.#usage.threads;
  }

  /** The members in the order they were added. */
  get members(): About[] {
    return [...this.#members.values()];
  }

  /**
   * Loads one member; a `ref` is downloaded first, unless it is stored. Throws Download, Storage,
   * Remote, Reference, ModelFile, NoPlan, OutOfMemory, Settings; members already loaded stay, and
   * so does what was downloaded.
   */
  async add(source: MemberSource, options: AddOptions = {}): Promise<About> {
    source = checked("a member", source, memberSource);
    options = checkedOptions("add", options, addFields) as AddOptions;
    const { about, usage, builtIn } = await added(await this.#live(), source, options);
    if (options.replace !== undefined) this.#forget(options.replace);
    this.#members.set(source.name, about);
    this.#sources.set(source.name, {
      source,
      options: given({ contextTokens: options.contextTokens }),
      builtIn,
    });
    this.#usage = usage;
    return about;
  }

  /** Takes a member out and frees its memory. Throws Settings where there is none of this name. */
  async remove(name: string): Promise<void> {
    checked("name", name, text);
    const wire = await this.#live();
    const reply = await wire.request({ type: "remove", id: wire.id(), name });
    if (reply.type !== "removed") throw unexpected(reply, "remove");
    this.#usage = reply.usage;
    this.#forget(name);
  }

  #forget(name: string): void {
    this.#members.delete(name);
    this.#sources.get(name)?.builtIn?.close();
    this.#sources.delete(name);
  }

  /**
   * What downloading a model would take. Asks its host for names and sizes, unless the model is
   * stored whole. Throws Download, Reference.
   */
  async plan(ref: string, signal?: AbortSignal): Promise<Plan> {
    checked("ref", ref, text);
    const reply = await this.#wire.request({ type: "plan", id: this.#wire.id(), ref }, signal);
    if (reply.type !== "planned") throw unexpected(reply, "plan");
    return reply.plan;
  }

  /** The models stored on this machine, whole and partial, and the room left. Makes no request. */
  async models(): Promise<Stored> {
    const reply = await this.#wire.request({ type: "models", id: this.#wire.id() });
    if (reply.type !== "models") throw unexpected(reply, "models");
    return reply.stored;
  }

  /**
   * Deletes a stored model, or what is there of it, with the system prompts it has read; members
   * that were loaded from it stay. Throws Storage while a tab downloads or loads it.
   */
  async deleteModel(ref: string): Promise<void> {
    checked("ref", ref, text);
    await this.#wire.request({ type: "deleteModel", id: this.#wire.id(), ref });
  }

  /** Deletes all system prompts that are kept as members have read them, whatever model it was. */
  async deletePrompts(): Promise<void> {
    await this.#wire.request({ type: "deletePrompts", id: this.#wire.id() });
  }

  /**
   * Asks the hub which commit a reference stands for now; where it is not the stored one, delete
   * the model and add it again to update it. Nothing else asks: a stored model is used as it is.
   * Null for an address.
   */
  async latestCommit(ref: string, signal?: AbortSignal): Promise<string | null> {
    checked("ref", ref, text);
    const reply = await this.#wire.request(
      { type: "latestCommit", id: this.#wire.id(), ref },
      signal,
    );
    if (reply.type !== "latestCommit") throw unexpected(reply, "latestCommit");
    return reply.commit;
  }

  /**
   * Answers the last of `messages`. Yields `reading` as the members take it in, `begin`, `thinking`
   * and `thought` where they think first, one `round` for every accepted segment, `end`. A member
   * that fails in mid-answer is told in `left`, and the others go on; where the context of the last
   * one is full, the answer ends as `context`. A stop is heard within a step of the reading, of
   * which nothing is lost, and within a round; stopped while they read, the answer has no `begin`.
   * An engine that fails (a lost device, a dead worker) is opened anew once an answer, with its
   * members, which is told as `reopened`; they read the conversation again and go on from the text
   * so far. On phones an answer waits between its rounds while the page is out of sight. The texts
   * of the rounds joined are the answer, byte for byte (with `stop` its end may come in `end`
   * alone). Messages that continue an earlier conversation run only what is new. Throws ContextFull
   * (before anything is read), DeviceLost, OutOfMemory, Template, Engine, Settings; the error's
   * `partial` is the text so far.
   */
  async *ask(messages: Message[], options: AskOptions = {}): AsyncGenerator<ConclaveEvent, void> {
    messages = checked("messages", messages, messageList);
    options = checkedOptions("ask", options, askFields) as AskOptions;
    const { signal, maxTokens, stop: texts = [], overflow = "error" } = options;
    if (signal?.aborted)
      return void (yield {
        type: "end",
        stop: "stopped",
        text: "",
        usage: { promptTokens: 0, answerTokens: 0 },
        ms: 0,
      });
    const schema = schemaOf(options.responseFormat);
    const accepted: { text: string; tokens: number }[] = [];
    const request: Unnumbered<"ask"> = {
      type: "ask",
      messages,
      members: options.members ?? [...this.#members.keys()],
      settings: this.#settings(options),
      sampling: this.#sampling(options.sampling),
      thinking: options.thinking ?? "off",
      ...(maxTokens === undefined ? {} : { maxTokens }),
      stop: texts,
      overflow,
      ...(schema === undefined ? {} : { schema }),
      accepted,
    };
    let text = "";
    let begun = false;
    for (let again = false; ; again = true) {
      const wire = this.#wire;
      try {
        for await (const event of this.#answer(wire, request, signal)) {
          // An engine in the place of a failed one begins anew, where its caller has begun already.
          if (event.type === "begin" && begun) continue;
          begun ||= event.type === "begin";
          if (event.type === "round") {
            const { text, tokens } = event.candidates[event.winner]!;
            accepted.push({ text, tokens });
          }
          if (event.type === "round") text += event.text;
          yield event;
        }
        return;
      } catch (thrown) {
        // What a caller threw into this, or what it handed over breaks, is no fault of the engine.
        if (!(thrown instanceof ConclaveError)) throw thrown;
        const error = thrown;
        if (again || !(await this.#reopened(error, wire)))
          throw fromRecord({ ...toRecord(error), partial: error.partial ?? text });
        yield { type: "reopened", error: toRecord(error) };
      }
    }
  }

  /** The events of an answer by the engine at the other end of the wire. */
  async *#answer(
    wire: Wire,
    request: Unnumbered<"ask">,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<ConclaveEvent, void> {
    const id = wire.id();
    const inbox: Reply[] = [];
    let failure: ConclaveError | undefined;
    let wake = (): void => {};
    const stop = (): void => wire.post({ type: "stop", id });
    wire.listen(id, {
      reply: (reply) => void (inbox.push(reply), wake()),
      fail: (error) => void ((failure = error), wake()),
    });
    const pause = (): void => wire.post({ type: "pause", id, paused: document.hidden });
    let over = false;
    try {
      wire.post({ ...request, id });
      signal?.addEventListener("abort", stop);
      if (signal?.aborted) stop();
      if (isHandheld()) {
        document.addEventListener("visibilitychange", pause);
        if (document.hidden) pause();
      }
      while (!over) {
        const reply = inbox.shift();
        if (reply?.type === "event") {
          over = reply.event.type === "end";
          yield reply.event;
        } else if (reply?.type === "failed") {
          over = true;
          throw fromRecord(reply.error);
        } else if (failure) {
          over = true;
          throw failure;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      globalThis.document?.removeEventListener("visibilitychange", pause);
      wire.forget(id);
      if (!over) stop(); // the caller left the loop
    }
  }

  /**
   * Whether a new engine with the same members has taken the place of the one that failed at the
   * end of `wire`.
   */
  async #reopened(error: ConclaveError, wire: Wire): Promise<boolean> {
    if (
      this.#closed ||
      !this.#startPort ||
      (error.kind !== "DeviceLost" && error.kind !== "Engine")
    )
      return false;
    // Whoever waited for the same engine shares the new one.
    if (wire === this.#wire)
      this.#reopening = this.#reopen(this.#startPort, error).catch(() => false);
    return this.#reopening ?? false;
  }

  /** The line to the engine: to a new one, where the last has failed. */
  async #live(): Promise<Wire> {
    const { broken } = this.#wire;
    if (broken) await this.#reopened(broken, this.#wire);
    else await this.#reopening;
    return this.#wire;
  }

  async #reopen(startPort: () => Port, error: ConclaveError): Promise<boolean> {
    this.#wire.close(error);
    this.#wire = this.#wireTo(startPort());
    this.#opened = await opened(this.#wire, given({ ...this.#options, signal: undefined }));
    for (const [name, { source, options, builtIn: last }] of [...this.#sources]) {
      last?.close();
      const { about, usage, builtIn } = await added(this.#wire, source, options);
      this.#members.set(name, about);
      this.#sources.set(name, { source, options, builtIn });
      this.#usage = usage;
    }
    return true;
  }

  /**
   * Begins a conversation whose rounds the caller drives: what `ask` does in each, move by move.
   * Members read the messages, of which the last is the user's; then `draft`, `verify` and `keep`
   * are the caller's, until `end`: whatever else is asked of the engine waits for that. Throws as
   * `ask` does.
   */
  async begin(messages: Message[], options: BeginOptions = {}): Promise<Conversation> {
    messages = checked("messages", messages, messageList);
    options = checkedOptions("begin", options, beginFields) as BeginOptions;
    const { members = [...this.#members.keys()], signal } = options;
    const settings = this.#settings(options);
    const schema = schemaOf(options.responseFormat);
    const wire = await this.#live();
    const id = wire.id();
    const begun = await wire.request(
      {
        type: "begin",
        id,
        messages,
        members,
        sampling: this.#sampling(options.sampling),
        ...(schema === undefined ? {} : { schema }),
      },
      signal,
    );
    if (begun.type !== "begun") throw unexpected(begun, "begin");
    return new Conversation(id, members, begun.prefixes, settings, async (move, expected) => {
      const reply = await wire.request({ ...move, id: wire.id() } as Request);
      if (reply.type !== expected) throw unexpected(reply, move.type);
      return reply as Answer<typeof expected>;
    });
  }

  /** Without a seed every answer has its own. */
  #sampling(sampling: Partial<Sampling> | undefined): Sampling {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0]! >>> 1;
    return checked(
      "sampling",
      { ...defaultSampling, seed, ...given(sampling ?? {}) },
      wholeSampling,
    );
  }

  /**
   * How many tokens a conversation has in each member, and how many the member has room for, those
   * of the answer included. Nothing is read. Throws ContextFull where it is too long for one,
   * Template, Settings.
   */
  async measure(messages: Message[], options: MeasureOptions = {}): Promise<Measured[]> {
    messages = checked("messages", messages, messageList);
    options = checkedOptions("measure", options, measureFields);
    const { members = [...this.#members.keys()], thinking = "off" } = options;
    const wire = await this.#live();
    const reply = await wire.request({
      type: "measure",
      id: wire.id(),
      messages,
      members,
      thinking,
    });
    if (reply.type !== "measured") throw unexpected(reply, "measure");
    return reply.measured;
  }

  /** The rule's, with what differs from them. */
  #settings({ rule, settings = {} }: Pick<AskOptions, "rule" | "settings">): Settings {
    return checked("settings", { ...this.#preset(rule), ...given(settings) }, wholeSettings);
  }

  #preset(rule: Rule | undefined): Settings {
    if (rule === undefined) return this.defaults;
    if (Object.hasOwn(this.rules, rule)) return this.rules[rule];
    throw new BadSettings(
      `There is no rule ${JSON.stringify(rule)}. Choose one of ${Object.keys(this.rules).join(", ")}.`,
    );
  }

  /** Destroys the GPU device, as a driver crash would: for tests of the recovery path. */
  async loseDevice(): Promise<void> {
    await this.#wire.request({ type: "loseDevice", id: this.#wire.id() });
  }

  /** Ends the worker and frees all memory; whatever is under way fails. */
  close(): void {
    this.#closed = true;
    this.#wire.close();
    for (const { builtIn } of this.#sources.values()) builtIn?.close();
  }
}

/** Whether the page is on a phone or a tablet, which ends pages that compute out of sight. */
const isHandheld = (): boolean =>
  globalThis.matchMedia?.("(hover: none) and (pointer: coarse)").matches ?? false;

/** Without what is left out. */
function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** A request before it is sent. */
type Unnumbered<T extends Request["type"]> = Omit<Extract<Request, { type: T }>, "id">;
type Answer<T extends Reply["type"]> = Extract<Reply, { type: T }>;

function workerAt(address: string): Port {
  if (typeof Worker !== "undefined") return startWorker(address, "conclave");
  throw new EngineFailure(
    "There are no workers here, where an engine runs. Start it in a browser, not on a server.",
  );
}

async function opened(wire: Wire, options: OpenOptions): Promise<Answer<"opened">> {
  const reply = await wire.request(openRequest(wire.id(), options), options.signal);
  if (reply.type !== "opened") throw unexpected(reply, "open");
  return reply;
}

/** `builtIn`: the browser's own model, where the member is that; it is to be closed with it. */
async function added(
  wire: Wire,
  source: MemberSource,
  options: AddOptions,
): Promise<Answer<"added"> & { builtIn: BuiltIn | undefined }> {
  const { replace, onProgress, signal, contextTokens = defaultContextTokens } = options;
  if (source.ref !== undefined) askToPersist();
  // The worker lies elsewhere than the page.
  if (source.url !== undefined)
    source = { ...source, url: new URL(source.url, globalThis.document?.baseURI).href };
  const onStep = (progress: Progress): void => onProgress?.({ member: source.name, ...progress });
  const builtIn = source.builtIn ? await BuiltIn.create(source.name, signal, onStep) : undefined;
  const request: Request = {
    type: "add",
    id: wire.id(),
    source,
    contextTokens,
    ...(replace === undefined ? {} : { replace }),
    ...(builtIn ? { builtIn: { port: builtIn.port, context: builtIn.context } } : {}),
  };
  try {
    const reply = await wire.request(request, signal, onStep);
    if (reply.type !== "added") throw unexpected(reply, "add");
    return { ...reply, builtIn };
  } catch (error) {
    builtIn?.close();
    throw error;
  }
}

/** The members to load, from their list where they are not given. */
async function listed({ members, assets, signal }: LoadOptions): Promise<MemberSource[]> {
  if (members === undefined) return toys(assets);
  if (Array.isArray(members)) return members;
  return (await readManifest(members, signal)).map((entry) =>
    sourceOf(entry, new URL(members, location.href)),
  );
}

function unexpected(reply: Reply, request: string): ConclaveError {
  return new EngineFailure(`The worker answered ${reply.type} to ${request}. Reload the engine.`);
}

/**
 * Asks the browser to keep what is stored; only a page can ask, a worker can't. Whatever it says,
 * and whenever (some ask the visitor), the download goes on.
 */
function askToPersist(): void {
  const { storage } = globalThis.navigator ?? {};
  const kept = storage?.persisted?.().catch(() => false) ?? Promise.resolve(false);
  // Some ask the visitor anew each time.
  void kept.then((already) => already || storage?.persist?.()).catch(() => false);
}
