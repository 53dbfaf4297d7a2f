/**
 * A member on an OpenAI-compatible server, or the browser's own language model: it drafts and
 * scores by requests, or only judges by letters. Its protocol is in a wasm module of its own
 * (crates/remote); this is the module's member as the rounds know members.
 */
import type {
  Begun,
  Candidate,
  Counters,
  Draft,
  Form,
  Member,
  Message,
  ModelAbout,
  OnReading,
  RemoteAbout,
  RemoteConversation,
  RemoteModule,
  Sampling,
  Settings,
  Thought,
  VerifiedScore,
  Wire,
} from "../../protocol/engine.ts";
import { BadSettings, ContextFull, RemoteFailure, typed } from "../../protocol/errors.ts";
import { requestNames } from "../../protocol/generated-settings.ts";
import type { MemberSource } from "../../protocol/messages.ts";
import { remoteAddress, usualTimeout } from "../../protocol/remote.ts";
import { unlessAborted } from "../../protocol/unless-aborted.ts";
import { requests } from "./requests.ts";

/** Facts that a server reports of itself; numbers are 0 where it reports none. */
interface Found extends Omit<RemoteAbout, "host"> {
  context: number;
  parameters: number;
  vocabulary: number;
}

/** A server, and how it is asked. `host` is empty for the browser's own model. */
interface Elsewhere {
  host: string;
  base: string;
  /** Its name in messages, if not the host. */
  place?: string;
  /** Size of its context in tokens, if it does not report that. */
  context?: number;
  wire: (signal: AbortSignal) => Wire;
  /** Called when the member is freed, or there is none. */
  close?: () => void;
}

export class RemoteMember implements Member {
  readonly name: string;
  readonly remote: RemoteAbout;
  readonly #found: Found;
  readonly #conversation: RemoteConversation;
  readonly #elsewhere: Elsewhere;
  readonly #spent: Counters = { prefix: 0, prefillTokens: 0, draftTokens: 0, verifyTokens: 0 };
  /**
   * Whether the answer has a form. The server's tokens can't be constrained to a form from here, so
   * that the member's drafts could break the document.
   */
  #formed = false;
  /** Ends the requests of the present conversation. */
  #over = new AbortController();
  /** The conversation's rendering by the server, while the others read theirs. */
  #reading: Promise<void> = Promise.resolve();
  /** Candidates verified last, with their tokens. */
  #verified: { text: string; tokens: number }[] = [];

  private constructor(name: string, elsewhere: Elsewhere, at: RemoteConversation) {
    const { host, context = 0 } = elsewhere;
    this.#found = JSON.parse(at.about()) as Found;
    this.#found.context ||= context;
    const { model, can, note } = this.#found;
    this.name = name;
    this.remote = { host, model, can, note };
    this.#conversation = at;
    this.#elsewhere = elsewhere;
  }

  /**
   * Probes a server, and makes a member of it. Throws Reference for its address, Settings for
   * others of its options, Remote for its responses.
   */
  static async connect(
    source: MemberSource,
    module: RemoteModule,
    signal: AbortSignal,
  ): Promise<RemoteMember> {
    const { name, remote = "", ref, files, url } = source;
    if (ref !== undefined || files !== undefined || url !== undefined)
      throw new BadSettings(`${name} is remote and has no files here. Leave out either.`);
    const { host, href } = remoteAddress(remote);
    return RemoteMember.at({ host, base: href, wire: requests }, source, module, signal);
  }

  /** As `connect`, with a server that is asked in any way. */
  static async at(
    elsewhere: Elsewhere,
    { name, model, key, turn, judge, timeout = usualTimeout }: MemberSource,
    { RemoteMember: joins }: RemoteModule,
    signal: AbortSignal,
  ): Promise<RemoteMember> {
    const { base, place, wire } = elsewhere;
    const options = { name, base, model, key, turn, judge, timeout, place };
    try {
      const connected = await joins.connect(JSON.stringify(options), wire(signal));
      return new RemoteMember(name, elsewhere, connected);
    } catch (error) {
      elsewhere.close?.();
      signal.throwIfAborted();
      throw failure(error);
    }
  }

  get onlyJudges(): boolean {
    return this.#formed || this.remote.can === "judges only";
  }

  about(): ModelAbout {
    const { context, parameters, vocabulary } = this.#found;
    return {
      name: this.name,
      architecture: "",
      parameters,
      quantisation: "",
      bytes: 0,
      context,
      vocabulary,
      layers: 0,
      hidden: 0,
      template: true,
      formats: [],
      memory: { weights: 0, kv: 0, scratch: 0 },
    };
  }

  /**
   * Estimates the tokens of a conversation at some four characters each, without a request. Throws
   * ContextFull if they do not fit the member's context.
   */
  async measure(messages: Message[]): Promise<number> {
    const tokens = Math.ceil(
      messages.reduce((sum, { content }) => sum + content.length + 16, 0) / 4,
    );
    const { context } = this.#found;
    const where = this.remote.host === "" ? "" : ` at ${this.remote.host}`;
    if (context > 0 && tokens >= context)
      throw new ContextFull(
        `Some ${tokens} tokens do not fit the ${context} that ${this.name} has room for` +
          `${where}. Ask less, or begin a new conversation.`,
      );
    return tokens;
  }

  /** No key: system prompts are not kept here, since the member's own server may cache them. */
  systemKey(): undefined {}

  async giveSystem(): Promise<undefined> {}

  takePrefix(): void {}

  /**
   * Begins a conversation without waiting for a server. If the server refuses the conversation, the
   * first draft reports it.
   */
  async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    _onReading?: OnReading,
    form?: Form,
  ): Promise<Begun> {
    this.release();
    this.#formed = form !== undefined;
    const named = Object.entries(requestNames) as [keyof typeof requestNames, string][];
    const drawing = {
      options: Object.fromEntries(named.map(([name, asked]) => [asked, sampling[name]])),
      seed: sampling.seed + 1_000_003 * stream,
    };
    this.#conversation.begin(JSON.stringify(messages), JSON.stringify(drawing), this.#formed);
    this.#reading = this.#conversation
      .read(this.#elsewhere.wire(this.#over.signal))
      .catch(() => undefined);
    const prefix = await this.measure(messages);
    this.#spent.prefix = prefix;
    this.#spent.prefillTokens += prefix;
    return { prefix, run: prefix, stopped: false };
  }

  /** Its thoughts stay on its server. */
  async think(): Promise<Thought> {
    return { text: "", tokens: 0, stopped: false };
  }

  /** Undefined if it only judges, or abstains. */
  async draft(
    maxTokens: number,
    _branch?: number,
    _novel?: boolean,
    signal?: AbortSignal,
  ): Promise<Draft | undefined> {
    if (this.onlyJudges) return undefined;
    const draft = await this.#move<Draft>(signal, (wire) =>
      this.#conversation.draft(maxTokens, wire),
    );
    this.#spent.draftTokens += draft?.tokens ?? 0;
    return draft;
  }

  /** Empty if it reports no scores, or abstains. */
  async verify(
    candidates: Candidate[],
    { scoreEnd }: Settings,
    signal?: AbortSignal,
  ): Promise<VerifiedScore[]> {
    const asked = JSON.stringify(candidates.map(({ text, ended }) => ({ text, ended })));
    const row = await this.#move<VerifiedScore[]>(signal, (wire) =>
      this.#conversation.verify(asked, scoreEnd, wire),
    );
    this.#verified = candidates.map(({ text }, place) => ({
      text,
      tokens: row?.[place]?.tokens ?? Math.ceil(text.length / 4),
    }));
    for (const { tokens } of row ?? []) this.#spent.verifyTokens += tokens;
    return row ?? [];
  }

  async keep(winner: number): Promise<void> {
    this.#conversation.keep(winner);
    this.#spent.prefix += this.#verified[winner]?.tokens ?? 0;
  }

  /** Appends a segment that was accepted earlier. */
  take(text: string): void {
    this.#conversation.take(text);
    this.#spent.prefix += Math.ceil(text.length / 4);
  }

  counters(): Counters {
    return { ...this.#spent };
  }

  release(): void {
    this.#over.abort();
    this.#over = new AbortController();
    this.#conversation.release();
    this.#spent.prefix = 0;
  }

  free(): void {
    this.release();
    this.#conversation.free();
    this.#elsewhere.close?.();
  }

  /** Result of a move; undefined if it is stopped, or the member abstains. */
  async #move<T>(
    signal: AbortSignal | undefined,
    make: (wire: Wire) => Promise<string | undefined>,
  ): Promise<T | undefined> {
    const over = this.#over.signal;
    const stop = signal ? AbortSignal.any([signal, over]) : over;
    try {
      await unlessAborted(this.#reading, stop);
      const made = await make(this.#elsewhere.wire(stop));
      return made === undefined ? undefined : (JSON.parse(made) as T);
    } catch (error) {
      if (stop.aborted) return undefined;
      throw failure(error);
    }
  }
}

/** The module's error; a trap of it is no fault of the engine. */
const failure = (error: unknown): Error =>
  error instanceof WebAssembly.RuntimeError
    ? new RemoteFailure(`What asks servers broke down (${error.message}). Reload the page.`)
    : typed(error);
