/**
 * Constrains members of this thread to a form: grammars over their vocabularies, from a separate
 * module that is started for the first answer with a form.
 */
import type {
  Begun,
  Candidate,
  Constraint,
  Counters,
  Draft,
  EngineMember,
  Form,
  GrammarModule,
  MaybePromise,
  Message,
  ModelAbout,
  ModuleMember,
  OnReading,
  OnThinking,
  Sampling,
  Settings,
  Thinking,
  Thought,
  VerifiedScore,
  Vocabulary,
} from "../protocol/engine.ts";
import { BadSettings, EngineFailure } from "../protocol/errors.ts";

/** Starts the compiled module in this thread. */
export type StartGrammar = (compiled: WebAssembly.Module) => Promise<GrammarModule>;

export class Grammars {
  readonly #start: StartGrammar;
  #started: Promise<GrammarModule> | undefined;
  /**
   * Trap of the module, if any. After it the module's memory is undefined, and its script can start
   * no second module.
   */
  #broken: Error | undefined;

  constructor(start: StartGrammar) {
    this.#start = start;
  }

  /** Throws Settings for an unsupported form. */
  async check({ compiled, schema }: Form): Promise<void> {
    const { check } = await this.#module(compiled);
    this.guarded(() => check(schema));
  }

  /** Vocabulary of a member, cached as long as the member exists. */
  async vocabulary(member: ModuleMember, { compiled }: Form): Promise<Vocabulary> {
    const { Vocabulary } = await this.#module(compiled);
    return this.guarded(() => new Vocabulary(member.vocabulary()));
  }

  /**
   * Calls the module. A trap is the module's own, not a fault of the engine; further calls need
   * another engine.
   */
  guarded<T>(ask: () => T): T {
    if (this.#broken)
      throw new EngineFailure(
        "What holds answers to a schema broke down over an earlier one. Open the engine anew.",
        { cause: this.#broken },
      );
    try {
      return ask();
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) throw error;
      this.#broken = error;
      throw new BadSettings(
        `The schema is too involved to be followed (${error.message}). Simplify it.`,
        { cause: error },
      );
    }
  }

  /** Frees an object of the module, unless that has trapped: then it is freed with the engine. */
  free(held: { free(): void } | undefined): void {
    if (!this.#broken) held?.free();
  }

  async #module(compiled: WebAssembly.Module): Promise<GrammarModule> {
    this.#started ??= this.#start(compiled);
    try {
      return await this.#started;
    } catch (error) {
      this.#started = undefined;
      throw error;
    }
  }
}

/** A member of an engine in this thread, which can be constrained to a form. */
export class FormedMember implements EngineMember {
  readonly #member: ModuleMember;
  readonly #grammars: Grammars;
  #vocabulary: Vocabulary | undefined;
  #document: (Constraint & { free(): void }) | undefined;

  constructor(member: ModuleMember, grammars: Grammars) {
    this.#member = member;
    this.#grammars = grammars;
  }

  get name(): string {
    return this.#member.name;
  }

  about(): ModelAbout {
    return this.#member.about();
  }

  measure(messages: Message[], thinking?: Thinking): Promise<number> {
    return this.#member.measure(messages, thinking);
  }

  systemKey(messages: Message[]): MaybePromise<Uint8Array | undefined> {
    return this.#member.systemKey(messages);
  }

  giveSystem(): Promise<Uint8Array | undefined> {
    return this.#member.giveSystem();
  }

  takePrefix(prefix: Uint8Array): MaybePromise<void> {
    return this.#member.takePrefix(prefix);
  }

  async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    onReading?: OnReading,
    form?: Form,
  ): Promise<Begun> {
    if (form || this.#document) await this.#hold(form);
    return this.#member.begin(messages, sampling, stream, onReading);
  }

  /** Sets or removes the constraint of the next answer. */
  async #hold(form: Form | undefined): Promise<void> {
    this.#member.constrain();
    this.#grammars.free(this.#document);
    this.#document = undefined;
    if (!form) return;
    const vocabulary = (this.#vocabulary ??= await this.#grammars.vocabulary(this.#member, form));
    const document = (this.#document = this.#grammars.guarded(() =>
      vocabulary.document(form.schema),
    ));
    this.#member.constrain({
      mask: (drawn) => this.#grammars.guarded(() => document.mask(drawn)),
      accept: (text) => this.#grammars.guarded(() => document.accept(text)),
    });
  }

  think(onThinking: OnThinking): Promise<Thought> {
    return this.#member.think(onThinking);
  }

  draft(maxTokens: number, branch?: number, novel?: boolean): Promise<Draft> {
    return this.#member.draft(maxTokens, branch, novel);
  }

  verify(candidates: Candidate[], settings: Settings): Promise<VerifiedScore[]> {
    return this.#member.verify(candidates, settings);
  }

  keep(winner: number): Promise<void> {
    return this.#member.keep(winner);
  }

  counters(): Counters {
    return this.#member.counters();
  }

  release(): void {
    this.#member.release();
  }

  free(): void {
    this.#member.free();
    this.#grammars.free(this.#document);
    this.#grammars.free(this.#vocabulary);
  }
}
