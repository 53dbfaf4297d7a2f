/**
 * On the CPU, members live in workers of their own, as many as there are cores: they draft and
 * verify in parallel, each with its own heap; only text and scores cross. If the page is isolated
 * from other origins, cores whose member does nothing help the others (`helpers.ts`). Members of
 * the open core share one worker, on any backend (`open-core.ts`). The round loop sees all members
 * alike.
 */
import type {
  Begun,
  Candidate,
  Counters,
  Draft,
  Engine,
  EngineMember,
  Form,
  Loader,
  LoadOptions,
  Message,
  ModelAbout,
  OnReading,
  OnThinking,
  Sampling,
  Score,
  Settings,
  Thinking,
  Thought,
} from "../protocol/engine.ts";
import { EngineFailure, fromRecord, type ConclaveError } from "../protocol/errors.ts";
import type { ModelFiles } from "../protocol/model-files.ts";
import type { Port } from "../protocol/start-worker.ts";
import { serveFiles } from "./port-files.ts";
import {
  parseThreadReply,
  type ThreadReply,
  type ThreadRequest,
  type ThreadStart,
} from "./thread-messages.ts";

/** Starts a worker with the script at this address. */
export type StartThread = (address: string) => Port;

/** Requests that run the model. */
const computes: ReadonlySet<MemberRequest["type"]> = new Set([
  "begin",
  "think",
  "draft",
  "verify",
  "keep",
]);

/** Time limit for a worker's start: some browsers create workers that never run. */
const startLimitMs = 120_000;

/**
 * Size of a model from which on other cores help to load it: a smaller one is there before a helper
 * has started.
 */
const longLoadBytes = 64 << 20;

/** Location of a member, which may not be loaded yet. */
interface Place {
  thread: Thread;
  member: number;
  leave: () => void;
}

interface Load {
  name: string;
  files: ModelFiles;
  options: LoadOptions;
  onProgress: (loaded: number, total: number) => void;
}

type Step = Extract<ThreadReply, { type: "loading" | "reading" | "thinking" }>;
type Answer = Exclude<ThreadReply, Step | { type: "failed" | "started" }>;
type Unnumbered<R> = R extends { id: number } ? Omit<R, "id"> : never;
type OfMember<R> = R extends { id: number; member: number } ? Omit<R, "id" | "member"> : never;
type MemberRequest = OfMember<Exclude<ThreadRequest, { type: "load" }>>;

interface Waiting {
  member: string;
  onStep: (step: Step) => void;
  resolve: (answer: Answer) => void;
  reject: (error: ConclaveError) => void;
}

/** A reserved place in a worker for a member. */
export interface Reserved extends Loader {
  /** Releases the place, unless a member was loaded. */
  release(): void;
}

export class MemberThreads {
  readonly #startThread: StartThread;
  readonly #worker: string;
  readonly #most: number;
  #start: ThreadStart | undefined;
  #threads: Thread[] = [];
  #next = 0;

  /**
   * At most `most` workers with the script `worker`, which compute on at most as many threads in
   * all.
   */
  constructor(startThread: StartThread, worker: string, most: number) {
    this.#startThread = startThread;
    this.#worker = worker;
    this.#most = most;
  }

  /** Starts the module in every present and future worker. Must precede the first load. */
  start(start: Omit<ThreadStart, "worker">): void {
    this.#start = { ...start, worker: this.#worker };
    for (const thread of this.#threads) thread.start(this.#start);
  }

  /** Number of threads that compute at the same time, including helpers. */
  get count(): number {
    const threads = this.#inUse;
    return threads.some(({ shared }) => shared) ? this.#most : threads.length;
  }

  /**
   * Threads with a loaded member. Threads with only a reserved place are excluded, since a
   * place may stay reserved for hours.
   */
  get #inUse(): Thread[] {
    return this.#threads.filter(({ heap }) => heap > 0);
  }

  /** Number of members in them. */
  get members(): number {
    return this.#threads.reduce((sum, { members }) => sum + members.size, 0);
  }

  /** Bytes of their modules' memories, as of their last loads. */
  get heap(): number {
    return this.#threads.reduce((sum, { heap }) => sum + heap, 0);
  }

  /**
   * Reserves a place in a new thread, or beside other members if there are no more cores; its
   * worker's script starts at once.
   */
  reserve(): Reserved {
    const thread = this.#place();
    const member = this.#next++;
    const leave = (): void => this.#leave(thread, member);
    let waits = true;
    thread.members.add(member);
    return {
      load: async (name, files, options, onProgress) => {
        waits = false;
        try {
          return await this.#load({ thread, member, leave }, { name, files, options, onProgress });
        } catch (error) {
          leave();
          throw error;
        }
      },
      release: () => {
        if (waits) leave();
        waits = false;
      },
    };
  }

  /** As `Engine.load`, in a thread with room. */
  async load(...load: Parameters<Engine["load"]>): Promise<EngineMember> {
    return this.reserve().load(...load);
  }

  async #load(
    { thread, member, leave }: Place,
    { name, files, options, onProgress }: Load,
  ): Promise<EngineMember> {
    const { port, close } = serveFiles(files);
    try {
      const request = {
        type: "load",
        member,
        name,
        files: files.files.map(({ name, bytes }) => ({ name, bytes })),
        ...(files.handles && { handles: [...files.handles] }),
        port,
        options,
      } as const;
      const onStep = (step: Step): void => {
        if (step.type === "loading") onProgress(step.loaded, step.total);
      };
      const load = () => thread.ask("loaded", name, request, { onStep, transfer: [port] });
      const bytes = files.files.reduce((sum, file) => sum + file.bytes, 0);
      const { about, heap } = await (bytes > longLoadBytes ? thread.move(load) : load());
      thread.heap = heap;
      // Its helpers start before its first move.
      for (const [each, helpers] of this.#shares(this.#threads)) each.startHelpers(helpers);
      return new ThreadMember(thread, member, about, leave);
    } finally {
      close();
    }
  }

  /** Ends all threads. */
  close(): void {
    for (const thread of this.#threads) thread.close("the engine was closed");
    this.#threads = [];
  }

  #place(): Thread {
    this.#threads = this.#threads.filter(({ broken }) => !broken);
    if (this.#threads.length < this.#most) {
      const share = (): void => {
        const moving = this.#threads.filter(({ moves }) => moves > 0);
        for (const [each, helpers] of this.#shares(moving)) each.share(helpers);
      };
      const thread = new Thread(this.#startThread(this.#worker), share);
      if (this.#start) thread.start(this.#start);
      this.#threads.push(thread);
    }
    return this.#threads.reduce((least, thread) =>
      thread.members.size < least.members.size ? thread : least,
    );
  }

  /** Ends a thread without members, since a module's memory never shrinks. */
  #leave(thread: Thread, member: number): void {
    thread.members.delete(member);
    if (thread.members.size > 0) return;
    thread.close("its member was removed");
    this.#threads = this.#threads.filter((other) => other !== thread);
  }

  /**
   * Number of helpers of each of these: the cores are distributed equally, and the rest one by one
   * from the largest.
   */
  #shares(threads: readonly Thread[]): [Thread, number][] {
    const sorted = threads.filter(({ broken }) => !broken).sort((a, b) => b.heap - a.heap);
    const [each, left] = [Math.floor(this.#most / sorted.length), this.#most % sorted.length];
    return sorted.map((thread, index) => [thread, each + Number(index < left) - 1]);
  }
}

/** One nested worker: matches its replies with requests. */
class Thread {
  readonly members = new Set<number>();
  /** Bytes of its module's memory, as of its last load. */
  heap = 0;
  /** Number of its members' moves and long loads under way. */
  moves = 0;
  readonly #port: Port;
  /** Distributes the cores among the threads with moves under way. */
  readonly #shareCores: () => void;
  readonly #waiting = new Map<number, Waiting>();
  /** Number of helpers that may help now, if its memory can be shared with them. */
  #wanted: Int32Array<SharedArrayBuffer> | undefined;
  /** Number of helpers that were started. */
  #helpers = 0;
  #next = 0;
  /** Reason why it takes no more requests. */
  #why: string | undefined;
  #late: ReturnType<typeof setTimeout> | undefined;

  constructor(port: Port, shareCores: () => void) {
    this.#port = port;
    this.#shareCores = shareCores;
    port.onmessage = ({ data }) => {
      let reply: ThreadReply;
      try {
        reply = parseThreadReply(data);
      } catch (error) {
        return this.close(`it sent what it should not: ${String(error)}`);
      }
      this.#hear(reply);
    };
    port.onmessageerror = () => this.close("it sent what can't be read");
    port.onerror = (event) => {
      // Reported by the pending requests, not by the page as an uncaught error.
      event.preventDefault();
      this.close(event.message || "it could not be started");
    };
  }

  /** Starts its module; the first request to it. */
  start(start: ThreadStart): void {
    this.#late = setTimeout(
      () => this.close(`it did not start within ${startLimitMs / 60_000} minutes`),
      startLimitMs,
    );
    this.post({ type: "start", ...start });
  }

  get broken(): boolean {
    return this.#why !== undefined;
  }

  /** Whether its memory can be shared with helpers. */
  get shared(): boolean {
    return this.#wanted !== undefined;
  }

  /** Has it start those that are missing of so many helpers. */
  startHelpers(count: number): void {
    if (!this.#wanted || count <= this.#helpers) return;
    this.#helpers = count;
    this.post({ type: "startHelpers", count });
  }

  /** Sets its number of helpers, also for the pass under way. */
  share(helpers: number): void {
    if (!this.#wanted) return;
    this.startHelpers(helpers);
    // Helpers wait for a change only.
    if (Atomics.exchange(this.#wanted, 0, helpers) !== helpers) Atomics.notify(this.#wanted, 0);
  }

  post(request: ThreadRequest, transfer: Transferable[] = []): void {
    if (!this.broken) this.#port.postMessage(request, transfer);
  }

  /**
   * Has a member make a move, or load, with its share of the cores, which changes as other threads'
   * moves begin and end. Moves that begin in the same task are counted before the cores are shared.
   */
  async move<T>(make: () => Promise<T>): Promise<T> {
    this.moves++;
    try {
      await Promise.resolve();
      this.#shareCores();
      return await make();
    } finally {
      this.moves--;
      this.#shareCores();
    }
  }

  /**
   * Sends a request for `member` and waits for a reply of the type `expected`; `onStep` gets the
   * replies before it.
   */
  async ask<T extends Answer["type"]>(
    expected: T,
    member: string,
    request: Unnumbered<ThreadRequest>,
    {
      onStep = () => {},
      transfer = [],
    }: { onStep?: (step: Step) => void; transfer?: Transferable[] } = {},
  ): Promise<Extract<Answer, { type: T }>> {
    if (this.#why !== undefined) throw failed(member, this.#why);
    const id = this.#next++;
    const answer = await new Promise<Answer>((resolve, reject) => {
      this.#waiting.set(id, { member, onStep, resolve, reject });
      this.post({ ...request, id }, transfer);
    });
    if (answer.type !== expected)
      throw failed(member, `it answered ${answer.type} to ${request.type}`);
    return answer as Extract<Answer, { type: T }>;
  }

  #hear(reply: ThreadReply): void {
    if (reply.type === "started") return this.#started(reply.wanted);
    const waiting = this.#waiting.get(reply.id);
    if (reply.type === "loading" || reply.type === "reading" || reply.type === "thinking")
      return waiting?.onStep(reply);
    this.#waiting.delete(reply.id);
    if (reply.type !== "failed") return waiting?.resolve(reply);
    waiting?.reject(fromRecord(reply.error));
    // Its memory is free again, for the next engine.
    if (reply.ended) this.close(reply.error.message.replace(/\.$/, ""));
  }

  #started(wanted: Int32Array<SharedArrayBuffer> | undefined): void {
    clearTimeout(this.#late);
    this.#wanted = wanted;
    this.#shareCores();
  }

  /** Ends the worker; pending requests fail. */
  close(why: string): void {
    if (this.broken) return;
    this.#why = why;
    clearTimeout(this.#late);
    this.#port.terminate();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { member, reject } of waiting) reject(failed(member, why));
  }
}

function failed(member: string, why: string): EngineFailure {
  const error = new EngineFailure(
    `The thread of ${member} ended: ${why}. Remove ${member}, or reload the engine.`,
  );
  error.member = member;
  return error;
}

/** A member in a thread. Synchronous values are those of its last reply. */
class ThreadMember implements EngineMember {
  readonly name: string;
  readonly #thread: Thread;
  readonly #member: number;
  readonly #about: ModelAbout;
  readonly #leave: () => void;
  #counters: Counters = { prefix: 0, prefillTokens: 0, draftTokens: 0, verifyTokens: 0 };

  constructor(thread: Thread, member: number, about: ModelAbout, leave: () => void) {
    this.name = about.name;
    this.#thread = thread;
    this.#member = member;
    this.#about = about;
    this.#leave = leave;
  }

  about(): ModelAbout {
    return this.#about;
  }

  /** Asks its thread; a reply's counters are the member's. */
  async #ask<T extends Answer["type"]>(
    expected: T,
    request: MemberRequest,
    listening: Parameters<Thread["ask"]>[3] = {},
  ): Promise<Extract<Answer, { type: T }>> {
    const whole = { ...request, member: this.#member };
    const make = () => this.#thread.ask(expected, this.name, whole, listening);
    const answer = await (computes.has(request.type) ? this.#thread.move(make) : make());
    if ("counters" in answer) this.#counters = answer.counters;
    return answer;
  }

  async measure(messages: Message[], thinking: Thinking = "off"): Promise<number> {
    return (await this.#ask("measured", { type: "measure", messages, thinking })).tokens;
  }

  async systemKey(messages: Message[]): Promise<Uint8Array | undefined> {
    return (await this.#ask("given", { type: "systemKey", messages })).given;
  }

  async giveSystem(): Promise<Uint8Array | undefined> {
    return (await this.#ask("given", { type: "giveSystem" })).given;
  }

  async takePrefix(prefix: Uint8Array): Promise<void> {
    await this.#ask("taken", { type: "takePrefix", prefix });
  }

  async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    onReading: OnReading = () => true,
    form?: Form,
  ): Promise<Begun> {
    const listening = this.#listening(async (step) =>
      step.type === "reading" ? onReading(step.done, step.total) : true,
    );
    const request = { type: "begin", messages, sampling, stream, ...(form && { form }) } as const;
    const { begun } = await this.#ask("begun", request, listening);
    listening.rethrow();
    return begun;
  }

  async think(onThinking: OnThinking): Promise<Thought> {
    const listening = this.#listening(async (step) =>
      step.type === "thinking" ? onThinking(step.text) : true,
    );
    const { thought } = await this.#ask("thought", { type: "think" }, listening);
    listening.rethrow();
    return thought;
  }

  /**
   * A listener that answers each step with whether to continue; if it throws, the member stops, and
   * the error is rethrown at the end.
   */
  #listening(mayGoOn: (step: Step) => Promise<boolean>): {
    onStep: (step: Step) => void;
    rethrow: () => void;
  } {
    let thrown: { error: unknown } | undefined;
    const onStep = (step: Step): void => {
      const goOn = (goOn: boolean): void => this.#thread.post({ type: "goOn", id: step.id, goOn });
      void mayGoOn(step).then(goOn, (error: unknown) => {
        thrown = { error };
        goOn(false);
      });
    };
    const rethrow = (): void => {
      if (thrown) throw thrown.error;
    };
    return { onStep, rethrow };
  }

  async draft(maxTokens: number, branch = 0, novel = false): Promise<Draft> {
    return (await this.#ask("drafted", { type: "draft", maxTokens, branch, novel })).draft;
  }

  async verify(
    candidates: Candidate[],
    settings: Settings,
  ): Promise<(Score & { tokens: number })[]> {
    return (await this.#ask("verified", { type: "verify", candidates, settings })).scores;
  }

  async keep(winner: number): Promise<void> {
    await this.#ask("kept", { type: "keep", winner });
  }

  counters(): Counters {
    return { ...this.#counters };
  }

  release(): void {
    this.#counters = { ...this.#counters, prefix: 0 };
    this.#thread.post({ type: "release", member: this.#member });
  }

  free(): void {
    this.#thread.post({ type: "free", member: this.#member });
    this.#leave();
  }
}
