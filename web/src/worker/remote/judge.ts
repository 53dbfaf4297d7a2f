/**
 * A member outside the engine that judges by letters: it can chat, but reports no scores. If it is
 * late it abstains, and after three late rounds it fails, so that the others continue without it.
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
  Sampling,
  Settings,
  Thought,
  VerifiedScore,
} from "../../protocol/engine.ts";
import { ContextFull, RemoteFailure } from "../../protocol/errors.ts";
import { Letters, orders, type NameLetter } from "./letters.ts";
import { ballot } from "./prompts.ts";
import { Late, type Limit } from "./server.ts";

/** Late round of an answer at which it fails. */
const lateRounds = 3;
/** Time in ms that a server has to load the model before it answers. */
const joiningMs = 30_000;

/** Time limit for probing its capabilities. */
export const joining = (timeoutMs: number, signal: AbortSignal): Limit => ({
  until: performance.now() + Math.max(joiningMs, timeoutMs),
  signal,
});

/** A member that is not run by this engine: on a server, or the browser's own model. */
export interface Elsewhere {
  name: string;
  remote: RemoteAbout;
  /** Its context size in tokens; 0 if unknown. */
  context: number;
  parameters: number;
  vocabulary: number;
  /** Timeout of a draft, or of its scores. */
  timeoutMs: number;
}

export class Judge implements Member {
  readonly name: string;
  readonly remote: RemoteAbout;
  readonly #known: Elsewhere;
  readonly #nameLetter: NameLetter;
  readonly #letters = new Letters();
  protected messages: Message[] = [];
  protected sampling: Sampling = { temperature: 0, topP: 1, topK: 0, seed: 0 };
  protected answer = "";
  protected round = 0;
  protected readonly spent: Counters = {
    prefix: 0,
    prefillTokens: 0,
    draftTokens: 0,
    verifyTokens: 0,
  };
  /** Candidates verified last, of which one can be kept. */
  #verified: readonly Candidate[] = [];
  #tokens: readonly number[] = [];
  #late = 0;
  #lateNow = false;

  constructor(known: Elsewhere, nameLetter: NameLetter) {
    this.name = known.name;
    this.remote = known.remote;
    this.#known = known;
    this.#nameLetter = nameLetter;
  }

  get onlyJudges(): boolean {
    return true;
  }

  about(): ModelAbout {
    const { context, parameters, vocabulary } = this.#known;
    const memory = { weights: 0, kv: 0, scratch: 0 };
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
      memory,
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
    const { context, remote } = this.#known;
    const where = remote.host === "" ? "" : ` at ${remote.host}`;
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

  /** Begins a conversation without waiting for a server. */
  async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    _onReading?: OnReading,
    _form?: Form,
  ): Promise<Begun> {
    this.messages = messages;
    this.sampling = { ...sampling, seed: sampling.seed + 1_000_003 * stream };
    this.answer = "";
    this.#verified = [];
    this.#late = this.round = 0;
    this.#lateNow = false;
    const prefix = await this.measure(messages);
    this.spent.prefix = prefix;
    this.spent.prefillTokens += prefix;
    return { prefix, run: prefix, stopped: false };
  }

  /** Its thoughts stay on its server. */
  async think(): Promise<Thought> {
    return { text: "", tokens: 0, stopped: false };
  }

  /** Undefined: it does not draft. */
  async draft(
    _maxTokens: number,
    _branch?: number,
    _novel?: boolean,
    _signal?: AbortSignal,
  ): Promise<Draft | undefined> {
    return undefined;
  }

  /** Empty if it reports no scores, or abstains. */
  async verify(
    candidates: Candidate[],
    settings: Settings,
    signal?: AbortSignal,
  ): Promise<VerifiedScore[]> {
    this.#verified = candidates;
    const row =
      (await this.inTime(signal, (limit) => this.score(candidates, settings, limit))) ?? [];
    this.#tokens = row.map(({ tokens }) => tokens);
    this.spent.verifyTokens += this.#tokens.reduce((sum, tokens) => sum + tokens, 0);
    return row;
  }

  async keep(winner: number): Promise<void> {
    this.take(this.#verified[winner]?.text ?? "", this.#tokens[winner]);
  }

  /** Appends a segment to the answer so far. */
  take(text: string, tokens = Math.ceil(text.length / 4)): void {
    this.answer += text;
    this.spent.prefix += tokens;
    this.#verified = [];
    this.round++;
    this.#lateNow = false;
  }

  counters(): Counters {
    return { ...this.spent };
  }

  release(): void {
    this.spent.prefix = 0;
  }

  free(): void {
    this.release();
  }

  /**
   * Asks for the best of the candidates twice, in two orders; candidates with the same words are
   * shown as one.
   */
  protected async score(
    candidates: readonly Candidate[],
    _settings: Settings,
    limit: Limit,
  ): Promise<VerifiedScore[] | undefined> {
    const kinds = [
      ...new Map(candidates.map((candidate) => [JSON.stringify(candidate), candidate])).values(),
    ];
    const kindOf = candidates.map((candidate) =>
      kinds.findIndex(({ text, ended }) => text === candidate.text && ended === candidate.ended),
    );
    let shares: number[] | undefined = [1];
    if (kinds.length > 1) {
      const shown = orders(kinds.length, this.sampling.seed + this.round);
      const name = (order: number[]): Promise<number | undefined> =>
        this.#nameLetter(ballot(this.messages, this.answer, kinds, order), kinds.length, limit);
      shares = this.#letters.hear(shown, await Promise.all(shown.map(name)));
    }
    return shares && kindOf.map((kind) => ({ preference: shares[kind]!, tokens: 0 }));
  }

  /**
   * Records that the round is repeated, since no member has drafted in time. Another delay counts
   * as another late round.
   */
  protected roundAnew(): void {
    this.#lateNow = false;
  }

  /**
   * Result of a task if it is in time; undefined if it is stopped or late. Throws after too many
   * late rounds.
   */
  protected async inTime<T>(
    signal: AbortSignal | undefined,
    work: (limit: Limit) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    try {
      return await work({ until: performance.now() + this.#known.timeoutMs, signal });
    } catch (error) {
      if (signal?.aborted) return undefined;
      if (!(error instanceof Late)) throw error;
      if (!this.#lateNow) this.#late++;
      this.#lateNow = true;
      if (this.#late < lateRounds) return undefined;
      throw new RemoteFailure(`${this.name} was late in ${lateRounds} rounds. ${error.message}`, {
        cause: error,
      });
    }
  }
}

/** Whether it names a letter when asked for one. */
export async function knowsLetters(nameLetter: NameLetter, limit: Limit): Promise<boolean> {
  return (
    (await nameLetter(
      "Which is a fruit?\n\nA: an apple\nB: a stone\n\nReply with A or B and nothing else.",
      2,
      limit,
    )) !== undefined
  );
}
