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
import type { BackendChoice } from "./backend.ts";
import type { About, Adapter, Backend, Message, Sampling, Settings } from "./engine.ts";
import { BadSettings, EngineFailure, fromRecord, toRecord, typed, type ConclaveError } from "./errors.ts";
import { readManifest, sourceOf } from "./load.ts";
import { parseReply, type ConclaveEvent, type MemberSource, type Reply, type Request } from "./messages.ts";

export type { BackendChoice } from "./backend.ts";
export type { About, Adapter, Backend, Candidate, ExitSettings, Message, Sampling, Score, Settings } from "./engine.ts";
export * from "./errors.ts";
export { readManifest, sourceOf, type ManifestEntry } from "./load.ts";
export type { BeginEvent, ConclaveEvent, EndEvent, MemberSource, RoundCounters, RoundEvent } from "./messages.ts";

export interface OpenOptions {
  /** `auto` (the default) takes WebGPU where a hardware adapter answers, else the CPU. */
  backend?: BackendChoice;
  signal?: AbortSignal;
}

export interface AddOptions {
  /** Room for the conversation, in the member's tokens; at most what the model was trained for. */
  contextTokens?: number;
  /** The member that the new one takes the place of, once it is loaded. */
  replace?: string;
  /** `total` is 0 while it is unknown. */
  onProgress?: (progress: { member: string; loaded: number; total: number }) => void;
  signal?: AbortSignal;
}

export interface LoadOptions extends OpenOptions, Omit<AddOptions, "replace"> {
  /** The members, or the address of a list of them; the bundled ones if left out. */
  members?: MemberSource[] | string | URL;
}

export interface AskOptions {
  /** Stops the answer; the text so far stays, and the last event says `stopped`. */
  signal?: AbortSignal;
  /** What differs from {@link Conclave.defaults}. */
  settings?: Partial<Settings>;
  /** What differs from {@link defaultSampling}; without a seed every answer has its own. */
  sampling?: Partial<Sampling>;
  /** Names of the members that take part; all of them if left out. */
  members?: string[];
}

/** The paper's sampling. */
export const defaultSampling: Omit<Sampling, "seed"> = { temperature: 0.6, topP: 0.9, topK: 0 };
export const defaultContextTokens = 1024;

/** The port of a Worker, as far as it is used; tests put a service in its place. */
export interface Port {
  postMessage(data: unknown): void;
  terminate(): void;
  onmessage: ((event: MessageEvent<unknown>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

interface Listener {
  reply(reply: Reply): void;
  fail(error: ConclaveError): void;
}

const startWorker = (): Port => new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "conclave" });

/** An engine in a worker with its members. All failures are {@link ConclaveError}s. */
export class Conclave {
  readonly backend: Backend;
  readonly adapter: Adapter;
  /** In plain words, why this backend was taken. */
  readonly why: string;
  /** The method's settings when `ask` is given none. */
  readonly defaults: Readonly<Settings>;
  readonly #wire: Wire;
  readonly #members = new Map<string, About>();

  private constructor(wire: Wire, opened: Extract<Reply, { type: "opened" }>) {
    this.#wire = wire;
    this.backend = opened.backend;
    this.adapter = opened.adapter;
    this.why = opened.why;
    this.defaults = opened.settings;
  }

  /** Starts an engine without members. Throws NoGpu, Download, Engine. */
  static async open(options: OpenOptions = {}, port: Port = startWorker()): Promise<Conclave> {
    const wire = new Wire(port);
    try {
      const reply = await wire.request({ type: "open", id: wire.id(), backend: options.backend ?? "auto" }, options.signal);
      if (reply.type !== "opened") throw new EngineFailure(`The worker answered ${reply.type} to open.`);
      return new Conclave(wire, reply);
    } catch (error) {
      wire.close();
      throw error;
    }
  }

  /** Starts an engine and loads the members, all or none. Throws as `open` and `add` do. */
  static async load(options: LoadOptions = {}, port?: Port): Promise<Conclave> {
    const { members = new URL("./members/members.json", import.meta.url), signal } = options;
    const sources = Array.isArray(members)
      ? members
      : (await readManifest(members, signal)).map((entry) => sourceOf(entry, new URL(members, location.href)));
    const conclave = await Conclave.open(options, port);
    try {
      const loaded = await Promise.all(sources.map((source) => conclave.add(source, options)));
      // Downloads end in any order, but ties and random streams go by this one.
      conclave.#members.clear();
      sources.forEach((source, index) => conclave.#members.set(source.name, loaded[index]!));
      return conclave;
    } catch (error) {
      conclave.close();
      throw error;
    }
  }

  /** The members in the order they were added. */
  get members(): About[] {
    return [...this.#members.values()];
  }

  /** Loads one member. Throws Download, ModelFile, OutOfMemory; those already loaded stay. */
  async add(source: MemberSource, options: AddOptions = {}): Promise<About> {
    const { replace, onProgress, signal, contextTokens = defaultContextTokens } = options;
    const request: Request = { type: "add", id: this.#wire.id(), source, contextTokens, ...(replace === undefined ? {} : { replace }) };
    const reply = await this.#wire.request(request, signal, ({ loaded, total }) => onProgress?.({ member: source.name, loaded, total }));
    if (reply.type !== "added") throw new EngineFailure(`The worker answered ${reply.type} to add.`);
    if (replace !== undefined) this.#members.delete(replace);
    this.#members.set(source.name, reply.about);
    return reply.about;
  }

  /** Takes a member out and frees its memory. */
  async remove(name: string): Promise<void> {
    await this.#wire.request({ type: "remove", id: this.#wire.id(), name });
    this.#members.delete(name);
  }

  /**
   * Answers the last of `messages`. Yields `begin`, one `round` for every accepted segment, `end`.
   * The texts of the rounds joined are the answer, byte for byte. Messages that continue an earlier
   * conversation run only what is new. Throws ContextFull, DeviceLost, OutOfMemory, Template,
   * Engine, Settings; the error's `partial` is the text so far.
   */
  async *ask(messages: Message[], options: AskOptions = {}): AsyncGenerator<ConclaveEvent, void> {
    if (options.signal?.aborted) return void (yield { type: "end", stop: "stopped", text: "", ms: 0 });
    const id = this.#wire.id();
    const seed = options.sampling?.seed ?? crypto.getRandomValues(new Uint32Array(1))[0]! >>> 1;
    const request: Request = {
      type: "ask",
      id,
      messages,
      members: options.members ?? [...this.#members.keys()],
      settings: { ...this.defaults, ...options.settings },
      sampling: { ...defaultSampling, ...options.sampling, seed },
    };
    const inbox: Reply[] = [];
    let failure: ConclaveError | undefined;
    let wake = (): void => {};
    const stop = (): void => this.#wire.post({ type: "stop", id });
    this.#wire.listen(id, {
      reply: (reply) => void (inbox.push(reply), wake()),
      fail: (error) => void ((failure = error), wake()),
    });
    let over = false;
    let text = "";
    try {
      this.#wire.post(request);
      options.signal?.addEventListener("abort", stop);
      while (!over) {
        const reply = inbox.shift();
        if (reply?.type === "event") {
          over = reply.event.type === "end";
          if (reply.event.type === "round") text += reply.event.text;
          yield reply.event;
        } else if (reply?.type === "failed") {
          over = true;
          throw fromRecord(reply.error);
        } else if (failure) {
          over = true;
          throw fromRecord({ ...toRecord(failure), partial: text });
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      options.signal?.removeEventListener("abort", stop);
      this.#wire.forget(id);
      if (!over) stop(); // the caller left the loop
    }
  }

  /** Destroys the GPU device, as a driver crash would: for tests of the recovery path. */
  async loseDevice(): Promise<void> {
    await this.#wire.request({ type: "loseDevice", id: this.#wire.id() });
  }

  /** Ends the worker and frees all memory; whatever is under way fails. */
  close(): void {
    this.#wire.close();
  }
}

/** Pairs replies with requests by id. */
class Wire {
  readonly #port: Port;
  readonly #listeners = new Map<number, Listener>();
  #next = 1;
  #broken: ConclaveError | undefined;

  constructor(port: Port) {
    this.#port = port;
    port.onmessage = ({ data }) => {
      try {
        const reply = parseReply(data);
        this.#listeners.get(reply.id)?.reply(reply);
      } catch (error) {
        this.#break(new EngineFailure(`The worker sent what it should not: ${String(error)}. Reload the engine.`, { cause: error }));
      }
    };
    port.onerror = (event) => {
      this.#break(new EngineFailure(`The worker failed: ${event.message || "it could not be started"}. Reload the engine.`));
    };
  }

  id(): number {
    return this.#next++;
  }

  post(request: Request): void {
    if (this.#broken) return;
    try {
      this.#port.postMessage(request);
    } catch (error) {
      throw new BadSettings(`The request can't cross to the worker (${String(error)}). Pass plain data.`, { cause: error });
    }
  }

  listen(id: number, listener: Listener): void {
    if (this.#broken) listener.fail(this.#broken);
    else this.#listeners.set(id, listener);
  }

  forget(id: number): void {
    this.#listeners.delete(id);
  }

  /** Sends a request and waits for the reply that ends it. */
  request(
    request: Request,
    signal?: AbortSignal,
    onProgress?: (progress: Extract<Reply, { type: "progress" }>) => void,
  ): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      const { id } = request;
      const stop = (): void => this.post({ type: "stop", id });
      const settle = (): void => {
        signal?.removeEventListener("abort", stop);
        this.forget(id);
      };
      this.listen(id, {
        reply: (reply) => {
          if (reply.type === "progress") return onProgress?.(reply);
          settle();
          if (reply.type === "failed") reject(fromRecord(reply.error));
          else if (reply.type === "aborted") reject(signal?.reason ?? new DOMException("Aborted", "AbortError"));
          else resolve(reply);
        },
        fail: (error) => {
          settle();
          reject(error);
        },
      });
      this.post(request);
      if (signal?.aborted) stop();
      signal?.addEventListener("abort", stop);
    }).catch((error: unknown) => {
      throw error === signal?.reason ? error : typed(error);
    });
  }

  close(): void {
    this.#port.terminate();
    this.#break(new EngineFailure("The engine was closed."));
  }

  #break(error: ConclaveError): void {
    this.#broken ??= error;
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const listener of listeners) listener.fail(error);
  }
}
