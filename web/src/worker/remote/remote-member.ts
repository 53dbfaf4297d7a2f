/**
 * A member on an OpenAI-compatible server: it drafts and scores by requests, or only judges by
 * letters.
 */
import { optional, shape, text, whole } from "../../protocol/check.ts";
import type {
  Begun,
  Candidate,
  Draft,
  Form,
  Message,
  OnReading,
  Sampling,
  Settings,
  VerifiedScore,
} from "../../protocol/engine.ts";
import { BadSettings, RemoteFailure } from "../../protocol/errors.ts";
import type { MemberSource } from "../../protocol/messages.ts";
import { remoteAddress, usualTimeout } from "../../protocol/remote.ts";
import { byChat } from "./chat.ts";
import { joining, Judge } from "./judge.ts";
import { checked, choicesOf, echoed, endingBy, forced, forcing, scoresEnd } from "./logprobs.ts";
import { echoing, probe, type Found } from "./probe.ts";
import { pieces } from "./prompts.ts";
import { Server, type Limit } from "./server.ts";

const drafted = shape({ text, finish_reason: optional((data) => data) });
const used = shape({ usage: optional(shape({ completion_tokens: optional(whole(0, 2 ** 31)) })) });

/** Maximum characters of a draft: per token, and extra for a token that is a line of spaces. */
const [token, slack] = [32, 256];

export class RemoteMember extends Judge {
  readonly #server: Server;
  readonly #found: Found;
  readonly #timeoutMs: number;
  /**
   * Whether the answer has a form. The server's tokens can't be constrained to a form from here, so
   * that the member's drafts could break the document.
   */
  #formed = false;
  /** The conversation as rendered for the server, while the others read theirs. */
  #prompt: Promise<string> | undefined;

  private constructor(name: string, server: Server, found: Found, timeoutMs: number) {
    const remote = { host: server.host, model: found.model, can: found.can, note: found.note };
    super({ ...found, name, remote, timeoutMs }, byChat(server, found));
    this.#server = server;
    this.#found = found;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Probes a server, and makes a member of it. Throws Reference for its address, Remote for its
   * responses.
   */
  static async connect(source: MemberSource, signal: AbortSignal): Promise<RemoteMember> {
    const { name, remote = "", model, key, turn, judge, timeout = usualTimeout } = source;
    if (source.ref !== undefined || source.files !== undefined || source.url !== undefined)
      throw new BadSettings(`${name} is remote and has no files here. Leave out either.`);
    if (turn !== undefined && !turn.includes("{content}"))
      throw new BadSettings(
        `The turn of ${name} has no {content}. ` +
          'Write a whole turn, as in "<|im_start|>{role}\\n{content}<|im_end|>\\n".',
      );
    const server = new Server({ address: remoteAddress(remote), key, name });
    const found = await probe(server, { model, turn, judge }, joining(timeout, signal));
    return new RemoteMember(name, server, found, timeout);
  }

  override get onlyJudges(): boolean {
    return this.#formed || !this.#found.renderer;
  }

  /** If the server refuses the conversation, the first draft reports it. */
  override async begin(
    messages: Message[],
    sampling: Sampling,
    stream: number,
    _onReading?: OnReading,
    form?: Form,
  ): Promise<Begun> {
    this.#formed = form !== undefined;
    this.#prompt = this.#found.renderer?.render(messages, {
      until: performance.now() + this.#timeoutMs,
    });
    this.#prompt?.catch(() => undefined);
    return super.begin(messages, sampling, stream);
  }

  /** Undefined if it only judges, or abstains. */
  override async draft(
    maxTokens: number,
    _branch?: number,
    _novel?: boolean,
    signal?: AbortSignal,
  ): Promise<Draft | undefined> {
    if (this.onlyJudges) return undefined;
    this.roundAnew();
    return this.inTime(signal, async (limit) => {
      const { temperature, topP, topK, seed } = this.sampling;
      const { kind, renderer } = this.#found;
      const body = {
        prompt: await this.#prefix(limit),
        max_tokens: maxTokens,
        temperature,
        top_p: topP,
        seed: (seed + this.round) % 2 ** 31,
        // Its defaults differ from the ensemble's; servers that don't know these options may refuse
        // them.
        ...(kind === "llama.cpp"
          ? { top_k: topK, min_p: 0 }
          : kind === "vLLM"
            ? { top_k: topK || -1, min_p: 0, repetition_penalty: 1 }
            : {}),
        ...(renderer?.end ? { stop: [renderer.end] } : {}),
      };
      const answer = await this.#complete(body, limit);
      const [choice] = choicesOf(answer, 1, this.#server.host);
      const { text, finish_reason: why } = checked(
        () => drafted(choice, "choice"),
        this.#server.host,
      );
      // All members have to read it: a draft without limit would fill their contexts.
      if (text.length > maxTokens * token + slack)
        throw new RemoteFailure(
          `${this.#server.host} drafted more tokens than ${this.name} was asked for. ` +
            "Remove its member, or let it only judge.",
        );
      const tokens = Math.min(
        maxTokens,
        checked(() => used(answer, "answer"), this.#server.host).usage?.completion_tokens ??
          maxTokens,
      );
      this.spent.draftTokens += tokens;
      const ended = why === "stop";
      // The server counts the token that ends an answer, and half a character at the end is left to
      // the next round.
      return {
        text: text.replace(/\ufffd+$/, ""),
        ended,
        tokens: Math.max(0, tokens - Number(ended)),
      };
    });
  }

  override release(): void {
    this.#prompt = undefined;
    super.release();
  }

  protected override async score(
    candidates: readonly Candidate[],
    settings: Settings,
    limit: Limit,
  ): Promise<VerifiedScore[] | undefined> {
    const { can, scores } = this.#found;
    if (can === "drafts only") return undefined;
    if (can === "judges only") return super.score(candidates, settings, limit);
    return scores === "echo"
      ? this.#echo(candidates, settings, limit)
      : this.#force(candidates, settings, limit);
  }

  /**
   * The conversation as rendered for the server, followed by the answer so far. The conversation is
   * rendered again if that failed before.
   */
  async #prefix(limit: Limit): Promise<string> {
    const { renderer } = this.#found;
    if (!renderer) throw new RemoteFailure(`${this.name} only judges.`);
    this.#prompt = (this.#prompt ?? Promise.reject(new Error("released"))).catch(() =>
      renderer.render(this.messages, limit),
    );
    return (await this.#prompt) + this.answer;
  }

  #complete(body: object, limit: Limit): Promise<unknown> {
    const { model, renderer, kind } = this.#found;
    // A whole prompt already has its first token.
    return this.#server.ask(
      "completions",
      {
        model,
        ...body,
        ...(renderer?.whole && kind === "vLLM" ? { add_special_tokens: false } : {}),
      },
      limit,
    );
  }

  /**
   * All candidates in one request, which returns them with the log-probabilities of their tokens.
   */
  async #echo(
    candidates: readonly Candidate[],
    { scoreEnd }: Settings,
    limit: Limit,
  ): Promise<VerifiedScore[]> {
    const prefix = await this.#prefix(limit);
    const { host } = this.#server;
    const ends = candidates.map((candidate) =>
      scoresEnd(candidate, scoreEnd) ? this.#found.renderer?.end || "\n" : "",
    );
    const prompt = candidates.map(({ text }, place) => prefix + text + ends[place]!);
    const answer = await this.#complete({ prompt, ...echoing(this.#found.kind) }, limit);
    return choicesOf(answer, candidates.length, host).map((choice, place) =>
      echoed(choice, prefix, candidates[place]!.text, ends[place]!, host),
    );
  }

  /**
   * Each candidate in its own request, which can write nothing else; in parallel. Undefined if a
   * token is part of a character: no grammar can name it, and the server fails on it.
   */
  async #force(
    candidates: readonly Candidate[],
    { scoreEnd }: Settings,
    limit: Limit,
  ): Promise<VerifiedScore[] | undefined> {
    const prompt = await this.#prefix(limit);
    const { host } = this.#server;
    const tokensOf = async (text: string): Promise<{ id: number; piece: unknown }[]> => {
      if (text === "") return [];
      const there = await this.#server.ask(
        "tokenize",
        { content: text, add_special: false, parse_special: false, with_pieces: true },
        limit,
        true,
      );
      return checked(() => pieces(there, "answer"), host).tokens;
    };
    const force = async (candidate: Candidate, tokens: number[]): Promise<VerifiedScore> => {
      const ends = scoresEnd(candidate, scoreEnd);
      const ending = ends ? endingBy(this.#found.endToken) : {};
      const answer = await this.#complete(
        {
          prompt,
          max_tokens: tokens.length + 1,
          temperature: 0,
          logprobs: 1,
          grammar: forcing(tokens),
          ...ending,
        },
        limit,
      );
      return forced(choicesOf(answer, 1, host)[0]!, tokens, ends, host);
    };
    const all = await Promise.all(candidates.map(({ text }) => tokensOf(text)));
    if (all.some((tokens) => tokens.some(({ piece }) => typeof piece !== "string")))
      return undefined;
    return Promise.all(
      candidates.map((candidate, place) =>
        force(
          candidate,
          all[place]!.map(({ id }) => id),
        ),
      ),
    );
  }
}
