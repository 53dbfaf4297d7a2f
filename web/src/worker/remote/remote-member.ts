/**
 * A member behind an OpenAI-compatible server: it drafts and scores by requests, or only judges by letters. Where
 * it is late it abstains, and after three late rounds it fails, so that the others go on without it.
 */
import { optional, shape, text, whole } from "../../protocol/check.ts";
import type { Begun, Candidate, Counters, Draft, Form, Member, Message, ModelAbout, OnReading, RemoteAbout, Sampling, Settings, Thought, VerifiedScore } from "../../protocol/engine.ts";
import { BadSettings, ContextFull, RemoteFailure } from "../../protocol/errors.ts";
import type { MemberSource } from "../../protocol/messages.ts";
import { remoteAddress, usualTimeout } from "../../protocol/remote.ts";
import { nameLetter } from "./chat.ts";
import { Letters, orders } from "./letters.ts";
import { checked, choicesOf, echoed, endingBy, forced, forcing, scoresEnd } from "./logprobs.ts";
import { echoing, probe, type Found } from "./probe.ts";
import { ballot, pieces } from "./prompts.ts";
import { Late, Server, type Limit } from "./server.ts";

/** Rounds of an answer that it may be late in, less one. */
const lateRounds = 3;
/** A server that loads its model answers when that is there. */
const probingMs = 30_000;

const drafted = shape({ text, finish_reason: optional((data) => data) });
const used = shape({ usage: optional(shape({ completion_tokens: optional(whole(0, 2 ** 31)) })) });

export class RemoteMember implements Member {
  readonly name: string;
  readonly remote: RemoteAbout;
  readonly #server: Server;
  readonly #found: Found;
  readonly #timeoutMs: number;
  readonly #judge = new Letters();
  /** The answer is held to a form, which nobody here can hold its server's tokens to: what it drafts could break the document. */
  #formed = false;
  #messages: Message[] = [];
  #sampling: Sampling = { temperature: 0, topP: 1, topK: 0, seed: 0 };
  /** The conversation as the server reads it; it is rendered while the others read theirs. */
  #prompt: Promise<string> | undefined;
  #answer = "";
  /** What can be kept. */
  #verified: readonly Candidate[] = [];
  #tokens: readonly number[] = [];
  #round = 0;
  #late = 0;
  #lateNow = false;
  #counters: Counters = { prefix: 0, prefillTokens: 0, draftTokens: 0, verifyTokens: 0 };

  private constructor(name: string, server: Server, found: Found, timeoutMs: number) {
    this.name = name;
    this.#server = server;
    this.#found = found;
    this.#timeoutMs = timeoutMs;
    this.remote = { host: server.host, model: found.model, can: found.can, note: found.note };
  }

  /** Asks a server what it can, and makes a member of it. Throws Reference for its address, Remote for what it answers. */
  static async connect(source: MemberSource, signal: AbortSignal): Promise<RemoteMember> {
    const { name, remote = "", model, key, turn, judge, timeout = usualTimeout } = source;
    if (source.ref !== undefined || source.files !== undefined || source.url !== undefined) throw new BadSettings(`${name} is remote and has no files here. Leave out either.`);
    if (turn !== undefined && !turn.includes("{content}")) throw new BadSettings(`The turn of ${name} has no {content}. Write a whole turn, as in "<|im_start|>{role}\\n{content}<|im_end|>\\n".`);
    const server = new Server({ address: remoteAddress(remote), key, name });
    const found = await probe(server, { model, turn, judge }, { until: performance.now() + Math.max(probingMs, timeout), signal });
    return new RemoteMember(name, server, found, timeout);
  }

  get onlyJudges(): boolean {
    return this.#formed || !this.#found.renderer;
  }

  about(): ModelAbout {
    const { context, parameters, vocabulary } = this.#found;
    const memory = { weights: 0, kv: 0, scratch: 0 };
    return { name: this.name, architecture: "", parameters, quantisation: "", bytes: 0, context, vocabulary, layers: 0, hidden: 0, template: true, formats: [], memory };
  }

  /** An estimate, of some four characters a token: nothing is asked for it. */
  async measure(messages: Message[]): Promise<number> {
    const tokens = Math.ceil(messages.reduce((sum, { content }) => sum + content.length + 16, 0) / 4);
    const { context } = this.#found;
    if (context > 0 && tokens >= context)
      throw new ContextFull(`Some ${tokens} tokens do not fit the ${context} that ${this.name} has room for at ${this.#server.host}. Ask less, or begin a new conversation.`);
    return tokens;
  }

  /** What it makes of a system prompt its server keeps, or nobody. */
  systemKey(): undefined {}

  async giveSystem(): Promise<undefined> {}

  takePrefix(): void {}

  /** Waits for nothing: what the server has against the conversation is told by the first draft. */
  async begin(messages: Message[], sampling: Sampling, stream: number, _onReading?: OnReading, form?: Form): Promise<Begun> {
    this.#messages = messages;
    this.#formed = form !== undefined;
    this.#sampling = { ...sampling, seed: sampling.seed + 1_000_003 * stream };
    this.#answer = "";
    this.#verified = [];
    this.#late = this.#round = 0;
    this.#lateNow = false;
    this.#prompt = this.#found.renderer?.render(messages, { until: performance.now() + this.#timeoutMs });
    this.#prompt?.catch(() => undefined);
    const prefix = await this.measure(messages);
    this.#counters = { ...this.#counters, prefix, prefillTokens: this.#counters.prefillTokens + prefix };
    return { prefix, run: prefix, stopped: false };
  }

  /** What it thinks stays on its server. */
  async think(): Promise<Thought> {
    return { text: "", tokens: 0, stopped: false };
  }

  /** Undefined where it only judges, or abstains. */
  async draft(maxTokens: number, signal?: AbortSignal): Promise<Draft | undefined> {
    if (this.onlyJudges) return undefined;
    // Where nobody has drafted a round is begun anew: late again, it is late once more.
    this.#lateNow = false;
    return this.#inTime(signal, async (limit) => {
      const { temperature, topP, topK, seed } = this.#sampling;
      const { kind, renderer } = this.#found;
      const body = {
        prompt: await this.#prefix(limit),
        max_tokens: maxTokens,
        temperature,
        top_p: topP,
        seed: (seed + this.#round) % 2 ** 31,
        // Its own defaults are other than the ensemble's; who knows nothing of them may refuse them.
        ...(kind === "llama.cpp" ? { top_k: topK, min_p: 0 } : kind === "vLLM" ? { top_k: topK || -1, min_p: 0, repetition_penalty: 1 } : {}),
        ...(renderer?.end ? { stop: [renderer.end] } : {}),
      };
      const answer = await this.#complete(body, limit);
      const [choice] = choicesOf(answer, 1, this.#server.host);
      const { text, finish_reason: why } = checked(() => drafted(choice, "choice"), this.#server.host);
      const tokens = Math.min(maxTokens, checked(() => used(answer, "answer"), this.#server.host).usage?.completion_tokens ?? maxTokens);
      this.#counters.draftTokens += tokens;
      const ended = why === "stop";
      // The token that ends an answer is counted there, and half a character at the end is for the next round.
      return { text: text.replace(/\ufffd+$/, ""), ended, tokens: Math.max(0, tokens - Number(ended)) };
    });
  }

  /** Empty where it tells no scores, or abstains. */
  async verify(candidates: Candidate[], settings: Settings, signal?: AbortSignal): Promise<VerifiedScore[]> {
    this.#verified = candidates;
    this.#tokens = [];
    const { can, scores } = this.#found;
    if (can === "drafts only") return [];
    const row = await this.#inTime(signal, (limit) =>
      can === "judges only" ? this.#prefer(candidates, limit) : scores === "echo" ? this.#echo(candidates, settings, limit) : this.#force(candidates, settings, limit),
    );
    if (!row) return [];
    this.#tokens = row.map(({ tokens }) => tokens);
    this.#counters.verifyTokens += this.#tokens.reduce((sum, tokens) => sum + tokens, 0);
    return row;
  }

  async keep(winner: number): Promise<void> {
    this.take(this.#verified[winner]?.text ?? "", this.#tokens[winner]);
  }

  /** Puts a segment behind the answer so far. */
  take(text: string, tokens = Math.ceil(text.length / 4)): void {
    this.#answer += text;
    this.#counters = { ...this.#counters, prefix: this.#counters.prefix + tokens };
    this.#verified = [];
    this.#round++;
    this.#lateNow = false;
  }

  counters(): Counters {
    return { ...this.#counters };
  }

  release(): void {
    this.#prompt = undefined;
    this.#counters = { ...this.#counters, prefix: 0 };
  }

  free(): void {
    this.release();
  }

  /** What comes of it in time; undefined where it is stopped or late. Throws where it was late too often. */
  async #inTime<T>(signal: AbortSignal | undefined, work: (limit: Limit) => Promise<T | undefined>): Promise<T | undefined> {
    try {
      return await work({ until: performance.now() + this.#timeoutMs, signal });
    } catch (error) {
      if (signal?.aborted) return undefined;
      if (!(error instanceof Late)) throw error;
      if (!this.#lateNow) this.#late++;
      this.#lateNow = true;
      if (this.#late < lateRounds) return undefined;
      throw new RemoteFailure(`${this.name} was late in ${lateRounds} rounds. ${error.message}`, { cause: error });
    }
  }

  /** The text so far as the server reads it. Rendered anew where that failed. */
  async #prefix(limit: Limit): Promise<string> {
    const { renderer } = this.#found;
    if (!renderer) throw new RemoteFailure(`${this.name} only judges.`);
    this.#prompt = (this.#prompt ?? Promise.reject(new Error("released"))).catch(() => renderer.render(this.#messages, limit));
    return (await this.#prompt) + this.#answer;
  }

  #complete(body: object, limit: Limit): Promise<unknown> {
    const { model, renderer, kind } = this.#found;
    // A whole prompt has its first token already.
    return this.#server.ask("completions", { model, ...body, ...(renderer?.whole && kind === "vLLM" ? { add_special_tokens: false } : {}) }, limit);
  }

  /** All candidates in one request, which gives them back with the log-probabilities of their tokens. */
  async #echo(candidates: readonly Candidate[], { scoreEnd }: Settings, limit: Limit): Promise<VerifiedScore[]> {
    const prefix = await this.#prefix(limit);
    const { host } = this.#server;
    const ends = candidates.map((candidate) => (scoresEnd(candidate, scoreEnd) ? this.#found.renderer?.end || "\n" : ""));
    const prompt = candidates.map(({ text }, place) => prefix + text + ends[place]!);
    const answer = await this.#complete({ prompt, ...echoing(this.#found.kind) }, limit);
    return choicesOf(answer, candidates.length, host).map((choice, place) => echoed(choice, prefix, candidates[place]!.text, ends[place]!, host));
  }

  /** Each candidate in a request of its own, which can write nothing else; side by side. Undefined where a token is a part of a character: no grammar can name it, and the server trips over it. */
  async #force(candidates: readonly Candidate[], { scoreEnd }: Settings, limit: Limit): Promise<VerifiedScore[] | undefined> {
    const prompt = await this.#prefix(limit);
    const { host } = this.#server;
    const tokensOf = async (text: string): Promise<{ id: number; piece: unknown }[]> => {
      if (text === "") return [];
      const there = await this.#server.ask("tokenize", { content: text, add_special: false, parse_special: false, with_pieces: true }, limit, true);
      return checked(() => pieces(there, "answer"), host).tokens;
    };
    const force = async (candidate: Candidate, tokens: number[]): Promise<VerifiedScore> => {
      const ends = scoresEnd(candidate, scoreEnd);
      const ending = ends ? endingBy(this.#found.endToken) : {};
      const answer = await this.#complete({ prompt, max_tokens: tokens.length + 1, temperature: 0, logprobs: 1, grammar: forcing(tokens), ...ending }, limit);
      return forced(choicesOf(answer, 1, host)[0]!, tokens, ends, host);
    };
    const all = await Promise.all(candidates.map(({ text }) => tokensOf(text)));
    if (all.some((tokens) => tokens.some(({ piece }) => typeof piece !== "string"))) return undefined;
    return Promise.all(
      candidates.map((candidate, place) =>
        force(
          candidate,
          all[place]!.map(({ id }) => id),
        ),
      ),
    );
  }

  /** Names the best of the candidates twice, in two orders; those of the same words are shown as one. */
  async #prefer(candidates: readonly Candidate[], limit: Limit): Promise<VerifiedScore[] | undefined> {
    const kinds = [...new Map(candidates.map((candidate) => [JSON.stringify(candidate), candidate])).values()];
    const kindOf = candidates.map((candidate) => kinds.findIndex(({ text, ended }) => text === candidate.text && ended === candidate.ended));
    let shares: number[] | undefined = [1];
    if (kinds.length > 1) {
      const shown = orders(kinds.length, this.#sampling.seed + this.#round);
      const name = (order: number[]): Promise<number | undefined> =>
        nameLetter(this.#server, this.#found, [{ role: "user", content: ballot(this.#messages, this.#answer, kinds, order) }], kinds.length, limit);
      shares = this.#judge.hear(shown, await Promise.all(shown.map(name)));
    }
    return shares && kindOf.map((kind) => ({ preference: shares[kind]!, tokens: 0 }));
  }
}
