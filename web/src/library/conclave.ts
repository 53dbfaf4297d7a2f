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
import type {
  About,
  Adapter,
  Backend,
  Message,
  Ranges,
  Rule,
  Rules,
  Sampling,
  Settings,
} from "../protocol/engine.ts";
import {
  BadSettings,
  EngineFailure,
  ConclaveError,
  fromRecord,
  toRecord,
  typed,
} from "../protocol/errors.ts";
import { text } from "../protocol/check.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import {
  defaultSampling,
  sampling as wholeSampling,
  settings as wholeSettings,
} from "../protocol/generated-settings.ts";
import {
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
import type { Port } from "../protocol/start-worker.ts";
import { copyReference } from "../store/copy-reference.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { answerOf, isEngineLost, unlessStopped, WrittenAnswer } from "./answering.ts";
import type { BuiltIn } from "./built-in.ts";
import type {
  AddOptions,
  AskOptions,
  BeginOptions,
  KeepOptions,
  LoadOptions,
  MeasureOptions,
  OpenOptions,
} from "./call-options.ts";
import { Conversation } from "./conversation.ts";
import {
  added,
  askToPersist,
  listed,
  located,
  locatedSource,
  opened,
  unexpected,
  workerAt,
  type AboutModels,
  type Answer,
  type Unnumbered,
} from "./engine-requests.ts";
import {
  addFields,
  askFields,
  beginFields,
  checked,
  checkedOptions,
  keepFields,
  loadFields,
  measureFields,
  messages as messageList,
  openFields,
  pickedList,
} from "./options.ts";
import { places } from "./places.ts";
import { schemaOf } from "./response-format.ts";
import { Share } from "./share.ts";
import { Wire } from "./wire.ts";

export { Conversation } from "./conversation.ts";
export type { Port };
export type { ResponseFormat } from "./response-format.ts";
export * from "./reexports.ts";

/** An engine in a worker with its members. All failures are {@link ConclaveError}s. */
export class Conclave {
  /**
   * Resolves once the engine is open. Rejects with NoGpu, Download, Engine. `plan`, `models`,
   * `keepFiles`, `deleteModel`, `deletePrompts` and `latestCommit` need no engine and work in any
   * case until `close`.
   */
  readonly ready: Promise<this>;
  readonly #options: OpenOptions;
  /** Starts a worker that replaces a failed one. */
  readonly #startPort: (() => Port) | undefined;
  readonly #members = new Map<string, About>();
  /** Sources and options of the members, for loading them again. */
  readonly #sources = new Map<
    string,
    { source: MemberSource; options: AddOptions; builtIn: BuiltIn | undefined }
  >();
  #wire: Wire;
  /** Connections to workers that answer about stored models in place of a failed one. */
  readonly #spares = new Set<Wire>();
  /** The last reopening of a failed engine, under way or complete. */
  #reopening: Promise<ConclaveError | undefined> | undefined;
  #closed = false;
  #opened: Answer<"opened"> | undefined;
  /** Error of the engine's opening, if it failed. */
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
    // Reported to callers that await it and by methods that need an engine.
    this.ready.catch((error: unknown) => (this.#unopened = typed(error)));
  }

  /**
   * Starts an engine without waiting: members can be added at once, and their files are fetched
   * while it opens. The backend is known once `ready` resolves.
   */
  static start(options: OpenOptions = {}, port?: Port | (() => Port)): Conclave {
    options = located(checkedOptions("open", options, openFields));
    if (typeof port === "object") return new Conclave(port, options);
    const startPort = port ?? (() => workerAt(places(options.assets).engine.worker));
    return new Conclave(startPort(), options, startPort);
  }

  #wireTo(port: Port): Wire {
    return new Wire(port, places(this.#options.assets).engine.worker);
  }

  /**
   * Starts an engine without members and waits until it is open. Throws NoGpu, Download, Engine.
   */
  static async open(options: OpenOptions = {}, port?: Port | (() => Port)): Promise<Conclave> {
    const conclave = Conclave.start(options, port);
    return conclave.ready.catch((error: unknown) => {
      conclave.close();
      throw error;
    });
  }

  /**
   * Starts an engine and loads the members, all or none; files are fetched while the engine opens.
   * Throws as `open` and `add` do.
   */
  static async load(options: LoadOptions = {}, port?: Port | (() => Port)): Promise<Conclave> {
    options = located(checkedOptions("load", options, loadFields) as LoadOptions);
    const { backend, hub, threads, core, assets, keepPrompts, signal } = options;
    const conclave = Conclave.start(
      definedFields({ backend, hub, threads, core, assets, keepPrompts, signal }),
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
          definedFields({ contextTokens, onProgress: onStep, signal }),
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
      // Downloads end in any order, but ties and random streams depend on the members' order.
      conclave.#members.clear();
      for (const about of abouts) conclave.#members.set(about.name, about);
      share.done();
      return conclave;
    } catch (error) {
      conclave.close(); // Aborts all downloads.
      throw error;
    }
  }

  /**
   * Backend that the members run on. This and the following properties throw Engine before `ready`,
   * or the reason it rejected.
   */
  get backend(): Backend {
    return this.#openReply.backend;
  }

  /** Adapter that they run on. */
  get adapter(): Adapter {
    return this.#openReply.adapter;
  }

  /** Reason for the choice of backend, for display. */
  get why(): string {
    return this.#openReply.why;
  }

  /** Settings that `ask` uses by default. */
  get defaults(): Readonly<Settings> {
    return this.#openReply.settings;
  }

  /** Settings of each rule. */
  get rules(): Readonly<Rules> {
    return this.#openReply.rules;
  }

  /** Valid range of each numeric setting, by its name: `exit.warmup` for `warmup` in `exit`. */
  get ranges(): Readonly<Ranges> {
    return this.#openReply.ranges;
  }

  get #openReply(): Answer<"opened"> {
    if (this.#opened) return this.#opened;
    throw (
      this.#unopened ?? new EngineFailure("The engine is not open yet. Wait for `ready` first.")
    );
  }

  /**
   * Bytes of wasm memory in all threads, measured when a member was last added or removed; excludes
   * weights on a GPU.
   */
  get heapBytes(): number {
    return this.#usage.heap;
  }

  /**
   * Threads that the members run on: on the CPU one for each member while there are cores, and one
   * for all on the open core.
   */
  get threads(): number {
    return this.#usage.threads;
  }

  /** Members in the order in which they were added. */
  get members(): About[] {
    return [...this.#members.values()];
  }

  /**
   * Loads one member; a `ref` is downloaded first unless it is stored. Throws Download, Storage,
   * Remote, Reference, ModelFile, NoPlan, OutOfMemory, Settings; loaded members and downloaded data
   * are kept.
   */
  async add(source: MemberSource, options: AddOptions = {}): Promise<About> {
    source = locatedSource(checked("a member", source, memberSource));
    options = checkedOptions("add", options, addFields) as AddOptions;
    const wire = await this.#live(options.signal);
    const { about, usage, builtIn } = await added(wire, source, options);
    if (options.replace !== undefined) this.#forget(options.replace);
    this.#members.set(source.name, about);
    this.#sources.set(source.name, {
      source,
      options: definedFields({ contextTokens: options.contextTokens }),
      builtIn,
    });
    this.#usage = usage;
    return about;
  }

  /** Removes a member and frees its memory. Throws Settings if there is none of this name. */
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
   * Sizes of a model's files and how much is missing. Asks the host, unless the whole model is
   * stored. Throws Download, Reference.
   */
  async plan(ref: string, signal?: AbortSignal): Promise<Plan> {
    checked("ref", ref, text);
    return (await this.#aboutModels({ type: "plan", ref }, "planned", signal)).plan;
  }

  /** Models stored on this machine, complete and partial, and the free space. Makes no request. */
  async models(): Promise<Stored> {
    return (await this.#aboutModels({ type: "models" }, "models")).stored;
  }

  /**
   * Copies picked files of one model, all or nothing, for later visits: returns the `ref` by which
   * members load from the copy. `name`: how it is listed. Throws Storage, ModelFile.
   */
  async keepFiles(name: string, files: File[], options: KeepOptions = {}): Promise<string> {
    checked("name", name, text);
    const { signal, onProgress } = checkedOptions("keepFiles", options, keepFields) as KeepOptions;
    const ref = await copyReference(checked("files", files, pickedList));
    askToPersist();
    await this.#aboutModels({ type: "keepFiles", ref, name, files }, "done", signal, onProgress);
    return ref;
  }

  /**
   * Deletes a stored model, complete or partial, and its kept system prompts; members loaded from
   * it stay. Throws Storage while a tab downloads or loads it.
   */
  async deleteModel(ref: string): Promise<void> {
    checked("ref", ref, text);
    await this.#aboutModels({ type: "deleteModel", ref }, "done");
  }

  /** Deletes the kept system prompts of all models. */
  async deletePrompts(): Promise<void> {
    await this.#aboutModels({ type: "deletePrompts" }, "done");
  }

  /**
   * Asks the hub for the commit that a reference names now; null for an address. To update a stored
   * model with another commit, delete it and add it again. No other method asks: a stored model is
   * used as it is.
   */
  async latestCommit(ref: string, signal?: AbortSignal): Promise<string | null> {
    checked("ref", ref, text);
    return (await this.#aboutModels({ type: "latestCommit", ref }, "latestCommit", signal)).commit;
  }

  /**
   * Makes a request that needs no engine. If the worker has failed, another one answers: without
   * members, since one that can't be loaded again may be the reason for deleting a model.
   */
  async #aboutModels<T extends Reply["type"]>(
    request: AboutModels,
    expected: T,
    signal?: AbortSignal,
    onProgress?: (progress: Progress) => void,
  ): Promise<Answer<T>> {
    const ask = async (wire: Wire): Promise<Answer<T>> => {
      const reply = await wire.request({ ...request, id: wire.id() }, signal, onProgress);
      if (reply.type !== expected) throw unexpected(reply, request.type);
      return reply as Answer<T>;
    };
    const wire = this.#wire;
    try {
      return await ask(wire);
    } catch (error) {
      if (!wire.broken || this.#closed || !this.#startPort) throw error;
    }
    const spare = this.#wireTo(this.#startPort());
    this.#spares.add(spare);
    try {
      // Names the hub; the engine need not open.
      opened(spare, this.#reopenOptions).catch(() => undefined);
      return await ask(spare);
    } finally {
      spare.close();
      this.#spares.delete(spare);
    }
  }

  /** Options of another worker: the signal was for the first. */
  get #reopenOptions(): OpenOptions {
    return definedFields({ ...this.#options, signal: undefined });
  }

  /**
   * Answers the last of `messages`. Yields `reading` while the members read them, `begin`,
   * `thinking` and `thought` if they think first, a `round` for each accepted segment, and `end`;
   * with `drafts` also each `draft` of a round, and `vote`.
   *
   * The texts of the rounds joined are the answer, byte for byte (with `stop`, its end may come in
   * `end` alone). Messages that continue an earlier conversation run only what is new.
   *
   * A member that fails during the answer is reported in `left`, and the others go on; when the
   * last one's context is full, the answer ends as `context`. A stop takes effect within a step of
   * reading, which loses nothing, or within a round; if stopped while reading, the answer has no
   * `begin`. A failed engine (lost device, dead worker) is reopened with its members once an
   * answer, reported as `reopened`; they read the conversation again and continue from the text so
   * far. On phones an answer waits between rounds while the page is hidden.
   *
   * Throws ContextFull (before reading), DeviceLost, OutOfMemory, Template, Engine, Settings; the
   * error's `partial` is the text so far.
   */
  async *ask(messages: Message[], options: AskOptions = {}): AsyncGenerator<ConclaveEvent, void> {
    messages = checked("messages", messages, messageList);
    options = checkedOptions("ask", options, askFields) as AskOptions;
    const { signal, maxTokens, stop: texts = [], overflow = "error" } = options;
    const written = new WrittenAnswer(options.accepted ?? []);
    if (signal?.aborted) return void (yield written.stopped());
    const schema = schemaOf(options.responseFormat);
    const request: Unnumbered<"ask"> = {
      type: "ask",
      messages,
      members: options.members ?? [...this.#members.keys()],
      settings: this.#settings(options),
      sampling: this.#sampling(options.sampling),
      thinking: options.thinking ?? "off",
      stop: texts,
      overflow,
      ...definedFields({ maxTokens, schema }),
      accepted: written.accepted,
      ...(options.drafts && { drafts: true }),
    };
    // Another request may have found that the engine failed: the new one has no members yet.
    const reopening = this.#reopening && (await unlessStopped(this.#reopening, signal));
    if (reopening === "stopped") return void (yield written.stopped());
    for (let again = false; ; again = true) {
      const wire = this.#wire;
      try {
        for await (const event of answerOf(wire, request, signal))
          if (!written.follow(event)) yield event;
        return;
      } catch (thrown) {
        // An error of the caller's own is not the engine's.
        if (!(thrown instanceof ConclaveError)) throw thrown;
        const error = thrown;
        const failure =
          isEngineLost(error, wire) && (!again || signal?.aborted)
            ? await unlessStopped(this.#reopened(error, wire), signal)
            : error;
        if (failure === "stopped") return void (yield written.stopped());
        if (failure) {
          const partial = failure.partial ?? written.text;
          throw Object.assign(fromRecord({ ...toRecord(failure), partial }), { cause: error });
        }
        yield { type: "reopened", error: toRecord(error) };
      }
    }
  }

  /**
   * Replaces the engine that failed at the end of `wire` by a new one with the same members.
   * Returns the error that remains, if any.
   */
  async #reopened(error: ConclaveError, wire: Wire): Promise<ConclaveError | undefined> {
    if (this.#closed || !this.#startPort) return error;
    // All callers of a failed engine share the new one.
    if (wire === this.#wire) this.#reopening = this.#reopen(this.#startPort, error);
    return this.#reopening;
  }

  /** Whether the engine has failed; the next question opens another. */
  get failed(): boolean {
    return this.#wire.broken !== undefined;
  }

  /** Connection to the engine; to a new one if the last has failed. */
  async #live(signal?: AbortSignal): Promise<Wire> {
    const { broken } = this.#wire;
    const reopening = broken ? this.#reopened(broken, this.#wire) : this.#reopening;
    const error = await (reopening && signal ? unlessAborted(reopening, signal) : reopening);
    if (broken && error) throw error;
    return this.#wire;
  }

  /** Never rejects: an engine that lacks a member is closed, so that the next call retries. */
  async #reopen(startPort: () => Port, error: ConclaveError): Promise<ConclaveError | undefined> {
    this.#wire.close(error);
    try {
      this.#wire = this.#wireTo(startPort());
      this.#opened = await opened(this.#wire, this.#reopenOptions);
      for (const [name, { source, options, builtIn: last }] of [...this.#sources]) {
        last?.close();
        const { about, usage, builtIn } = await added(this.#wire, source, options);
        this.#members.set(name, about);
        this.#sources.set(name, { source, options, builtIn });
        this.#usage = usage;
      }
      return undefined;
    } catch (thrown) {
      const failure = typed(thrown);
      if (!this.#closed) this.#wire.close(failure);
      return failure;
    }
  }

  /**
   * Begins a conversation whose rounds the caller drives, step by step as `ask` does. Members read
   * the messages, of which the last is the user's; then the caller calls `draft`, `verify` and
   * `keep`, and finally `end`. Until then all other requests to the engine wait. Throws as `ask`
   * does.
   */
  async begin(messages: Message[], options: BeginOptions = {}): Promise<Conversation> {
    messages = checked("messages", messages, messageList);
    options = checkedOptions("begin", options, beginFields) as BeginOptions;
    const { members = [...this.#members.keys()], signal } = options;
    const settings = this.#settings(options);
    const schema = schemaOf(options.responseFormat);
    const wire = await this.#live(signal);
    const id = wire.id();
    const begun = await wire.request(
      {
        type: "begin",
        id,
        messages,
        members,
        sampling: this.#sampling(options.sampling),
        ...definedFields({ schema }),
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

  /** Draws a seed for each answer if none is set. */
  #sampling(sampling: Partial<Sampling> | undefined): Sampling {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0]! >>> 1;
    return checked(
      "sampling",
      { ...defaultSampling, seed, ...definedFields(sampling ?? {}) },
      wholeSampling,
    );
  }

  /**
   * Number of tokens of a conversation in each member, and the member's limit, which includes the
   * answer. Reads nothing. Throws ContextFull if it is too long for a member, Template, Settings.
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

  /** The rule's settings with the changes to them. */
  #settings({ rule, settings = {} }: Pick<AskOptions, "rule" | "settings">): Settings {
    const all = { ...this.#preset(rule), ...definedFields(settings) };
    return checked("settings", all, wholeSettings);
  }

  #preset(rule: Rule | undefined): Settings {
    if (rule === undefined) return this.defaults;
    if (Object.hasOwn(this.rules, rule)) return this.rules[rule];
    throw new BadSettings(
      `There is no rule ${JSON.stringify(rule)}. ` +
        `Choose one of ${Object.keys(this.rules).join(", ")}.`,
    );
  }

  /** Destroys the GPU device as a driver crash would, to test recovery. */
  async loseDevice(): Promise<void> {
    await this.#wire.request({ type: "loseDevice", id: this.#wire.id() });
  }

  /** Ends the worker and frees all memory; requests under way fail. */
  close(): void {
    this.#closed = true;
    for (const wire of [this.#wire, ...this.#spares]) wire.close();
    for (const { builtIn } of this.#sources.values()) builtIn?.close();
  }
}
