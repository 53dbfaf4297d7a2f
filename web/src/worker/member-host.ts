/**
 * A member thread's end of the connection to the worker that runs the rounds: an engine of either
 * core, and its members.
 */
import type { BurnModule, Engine, EngineMember, EngineModule } from "../protocol/engine.ts";
import type { StartedModule } from "./engine-module.ts";
import { EngineFailure, toRecord, type ConclaveError } from "../protocol/errors.ts";
import { FormedMember, Grammars, type StartGrammar } from "./grammars.ts";
import { Helpers } from "./helpers.ts";
import { soonest } from "./handle-files.ts";
import { loadedBytes } from "../protocol/loaded-bytes.ts";
import { lackOfMemory, loadError, refuseTooLarge } from "./out-of-memory.ts";
import { diagnosed, lossOf } from "./lost-device.ts";
import { isShared } from "../protocol/shared-memory.ts";
import type { StartThread } from "./member-threads.ts";
import { PortFiles } from "./port-files.ts";
import { Traps } from "./traps.ts";
import {
  parseThreadRequest,
  type ThreadReply,
  type ThreadRequest,
  type ThreadStart,
} from "./thread-messages.ts";

type Asked = Extract<
  ThreadRequest,
  {
    type:
      | "load"
      | "measure"
      | "systemKey"
      | "giveSystem"
      | "takePrefix"
      | "begin"
      | "think"
      | "draft"
      | "verify"
      | "keep";
  }
>;

/** Starts this worker's core from the compiled module. */
type StartModule = (
  compiled: WebAssembly.Module,
) => Promise<StartedModule<EngineModule | BurnModule>>;

interface Started {
  engine: Engine;
  memory: WebAssembly.Memory;
  /** Its helpers, if its memory is shared. */
  helpers: Helpers | undefined;
}

export class MemberHost {
  readonly #startModule: StartModule;
  readonly #post: (reply: ThreadReply) => void;
  readonly #grammars: Grammars;
  readonly #traps: Traps;
  readonly #startHelper: StartThread | undefined;
  readonly #members = new Map<number, EngineMember>();
  /** Their names, which members can't tell after a trap. */
  readonly #names = new Map<number, string>();
  /** Members that are reading or thinking and wait for `goOn`, by the request's id. */
  readonly #readers = new Map<number, (goOn: boolean) => void>();
  #started: Promise<Started> | undefined;
  /** The engine, once created. */
  #engine: Engine | undefined;
  #memory: WebAssembly.Memory | undefined;
  /** Error of a trap in its module, which is in an unknown state and not used again. */
  #trapped: ConclaveError | undefined;

  constructor(
    startModule: StartModule,
    post: (reply: ThreadReply) => void,
    startGrammar: StartGrammar,
    traps = new Traps(),
    startHelper?: StartThread,
  ) {
    this.#startModule = startModule;
    this.#post = post;
    this.#grammars = new Grammars(startGrammar);
    this.#traps = traps;
    this.#startHelper = startHelper;
  }

  /** Handles one message; rejects only for an invalid message. */
  async receive(data: unknown): Promise<void> {
    const request = parseThreadRequest(data);
    switch (request.type) {
      case "start":
        this.#started = this.#start(request);
        // Reported by the first load.
        return void this.#started.catch(() => undefined);
      case "startHelpers":
        return void this.#started
          ?.then(({ helpers }) => helpers?.start(request.count))
          .catch(() => undefined);
      case "goOn":
        this.#readers.get(request.id)?.(request.goOn);
        return void this.#readers.delete(request.id);
      case "release":
        return this.#member(request.member).release();
      case "free":
        this.#member(request.member).free();
        return void this.#members.delete(request.member);
      default:
        this.#post(await this.#outcome(request));
    }
  }

  async #start({ compiled, worker, backend }: ThreadStart): Promise<Started> {
    const { module, memory } = await this.#startModule(compiled);
    this.#memory = memory;
    this.#engine = await module.Engine.create(backend);
    const startHelper = this.#startHelper;
    const helpers =
      startHelper && "help" in module && isShared(memory)
        ? new Helpers(() => startHelper(worker), { compiled, memory })
        : undefined;
    this.#post({ type: "started", ...(helpers && { wanted: helpers.wanted }) });
    return { engine: this.#engine, memory, helpers };
  }

  /** The reply, which may be a failure. */
  async #outcome(request: Asked): Promise<ThreadReply> {
    try {
      if (this.#trapped) throw this.#trapped;
      const answer = await (request.type === "load"
        ? this.#load(request)
        : this.#traps.heard(this.#answer(request)));
      if (this.#engine?.lost() !== undefined) throw new EngineFailure("The device was lost.");
      return answer;
    } catch (thrown) {
      if (thrown instanceof WebAssembly.RuntimeError)
        this.#trapped = this.#faultOf(thrown, request.member);
      const error = diagnosed(this.#trapped ?? thrown, lossOf(this.#engine));
      const ended = this.#trapped ? { ended: true } : {};
      return { type: "failed", id: request.id, error: toRecord(error), ...ended };
    }
  }

  async #answer(request: Exclude<Asked, { type: "load" }>): Promise<ThreadReply> {
    const { id } = request;
    const member = this.#member(request.member);
    switch (request.type) {
      case "measure":
        return {
          type: "measured",
          id,
          tokens: await member.measure(request.messages, request.thinking),
        };
      case "systemKey":
        return given(id, await member.systemKey(request.messages));
      case "giveSystem":
        return given(id, await member.giveSystem());
      case "takePrefix":
        await member.takePrefix(request.prefix);
        return { type: "taken", id };
      case "begin": {
        const onReading = (done: number, total: number): Promise<boolean> =>
          this.#mayGoOn({ type: "reading", id, done, total });
        const begun = await member.begin(
          request.messages,
          request.sampling,
          request.stream,
          onReading,
          request.form,
        );
        return { type: "begun", id, begun, counters: member.counters() };
      }
      case "think": {
        const thought = await member.think((text) => this.#mayGoOn({ type: "thinking", id, text }));
        return { type: "thought", id, thought, counters: member.counters() };
      }
      case "draft": {
        const draft = await member.draft(request.maxTokens, request.branch, request.novel);
        return { type: "drafted", id, draft, counters: member.counters() };
      }
      case "verify": {
        const scores = await member.verify(request.candidates, request.settings);
        return { type: "verified", id, scores, counters: member.counters() };
      }
      case "keep":
        await member.keep(request.winner);
        return { type: "kept", id, counters: member.counters() };
    }
  }

  /** Reports a member's progress, and waits for the reply whether to continue. */
  #mayGoOn(step: Extract<ThreadReply, { type: "reading" | "thinking" }>): Promise<boolean> {
    return new Promise((resolve) => {
      this.#readers.set(step.id, resolve);
      this.#post(step);
    });
  }

  async #load({
    id,
    member: number,
    name,
    files,
    handles,
    port,
    options,
  }: Extract<Asked, { type: "load" }>): Promise<ThreadReply> {
    const ranges = await soonest(new PortFiles(files, port, handles));
    try {
      if (!this.#started) throw new EngineFailure("The engine of this thread was not started.");
      const { engine, memory } = await this.#started;
      const need = loadedBytes(ranges.files, options.quantise);
      refuseTooLarge(name, need, memory);
      const told = (loaded: number, total: number): void =>
        this.#post({ type: "loading", id, loaded, total });
      const loading = this.#traps.heard(engine.load(name, ranges, options, told));
      const member = await loading.catch((thrown: unknown) => {
        if (lossOf(engine) !== undefined) throw thrown;
        const error = loadError(thrown, name, need, { memory, alone: this.#members.size === 0 });
        if (thrown instanceof WebAssembly.RuntimeError) this.#trapped = error;
        throw error;
      });
      this.#members.set(number, new FormedMember(member, this.#grammars));
      this.#names.set(number, name);
      return {
        type: "loaded",
        id,
        about: member.about(),
        heap: memory.buffer.byteLength,
      };
    } finally {
      ranges.close();
    }
  }

  /** The error of a trap in a member's step. */
  #faultOf(trap: WebAssembly.RuntimeError, member: number): ConclaveError {
    const name = this.#names.get(member) ?? "a member";
    return (
      (this.#memory && lackOfMemory(trap, name, this.#memory)) ??
      new EngineFailure(
        `A fault of the engine ended its thread (${trap.message}). ` +
          "It is started again with the next question.",
        { cause: trap },
      )
    );
  }

  #member(number: number): EngineMember {
    const member = this.#members.get(number);
    if (!member) throw new EngineFailure(`There is no member number ${number} in this thread.`);
    return member;
  }
}

const given = (id: number, bytes: Uint8Array | undefined): ThreadReply => ({
  type: "given",
  id,
  ...(bytes ? { given: bytes } : {}),
});
