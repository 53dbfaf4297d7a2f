/**
 * One OpenAI-compatible server: requests with a time limit, retried within it if that may help. Its
 * responses are bounded and hostile until checked, and its key is in a request's header and nowhere
 * else.
 */
import { optional, shape, text } from "../../protocol/check.ts";
import { ContextFull, isAbort, RemoteFailure } from "../../protocol/errors.ts";
import { pause, retryAfter, RetryableError, waitAfter } from "../../store/retry.ts";

/** No response, or no good one, within the time limit. */
export class Late extends RemoteFailure {}

/** A refusal that would recur. */
export class Refused extends RemoteFailure {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface ServerOptions {
  /** Base of its paths: `https://host/v1`. */
  address: URL;
  key?: string | undefined;
  /** The member's name, for messages. */
  name: string;
}

/** Time limit of a request. */
export interface Limit {
  /** End of the time, by `performance.now()`. */
  until: number;
  signal?: AbortSignal | undefined;
}

/** An echo of eight long prompts with a log-probability per token has some megabytes. */
const mostBytes = 32 * 1024 * 1024;
const retries = { tries: 6, firstMs: 200, patienceMs: 60_000 };

export class Server {
  readonly host: string;
  readonly #address: string;
  readonly #key: string | undefined;
  readonly #name: string;

  constructor({ address, key, name }: ServerOptions) {
    this.host = address.host;
    this.#address = address.href.replace(/\/$/, "");
    this.#key = key;
    this.#name = name;
  }

  /**
   * Sends a request below the address, or with `beside` to the server's own paths beside its `/v1`.
   * GET without a `body`. Throws Late, Refused, ContextFull, or the signal's reason.
   */
  async ask(
    path: string,
    body: object | undefined,
    limit: Limit,
    beside = false,
  ): Promise<unknown> {
    const { until, signal } = limit;
    const url = `${beside ? this.#address.replace(/\/v1$/, "") : this.#address}/${path}`;
    for (let fruitless = 1; ; fruitless++) {
      try {
        return await this.#once(url, body, limit);
      } catch (thrown) {
        signal?.throwIfAborted();
        if (!(thrown instanceof RetryableError)) throw thrown;
        const wait = waitAfter(thrown, fruitless, retries);
        if (fruitless >= retries.tries || performance.now() + wait >= until)
          throw new Late(`${thrown.message} Go on without ${this.#name}, or see after the server.`);
        await pause(wait, signal);
      }
    }
  }

  async #once(url: string, body: object | undefined, { until, signal }: Limit): Promise<unknown> {
    const time = AbortSignal.timeout(Math.max(0, Math.ceil(until - performance.now())));
    try {
      const response = await fetch(url, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: signal === undefined ? time : AbortSignal.any([signal, time]),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        // The key and the question must not reach another address.
        redirect: "error",
      });
      const text = await bounded(response, this.host);
      if (!response.ok) this.#refuse(response, text);
      return parsed(text, this.host);
    } catch (error) {
      signal?.throwIfAborted();
      if (time.aborted)
        throw new Late(
          `${this.host} did not answer ${this.#name} in time. ` +
            "Give it a longer `timeout`, or see after the server.",
        );
      if (isAbort(error) || !(error instanceof TypeError)) throw error;
      // A page learns no more than that: network, CORS and the page's own policy look alike.
      throw new RetryableError(
        `${this.host} can't be reached: check that it runs, ` +
          "that it lets this page's origin ask it (CORS), " +
          "and that the page's policy allows it (connect-src).",
      );
    }
  }

  #refuse({ status, headers }: Response, text: string): never {
    const { host } = this;
    if (status === 401 || status === 403) {
      const wish = this.#key === undefined ? "asks for a key" : "refuses the key";
      throw new Refused(status, `${host} ${wish}. Add ${this.#name} again with one that it takes.`);
    }
    if (status === 429)
      throw new RetryableError(`${host} gets too many requests.`, { waitMs: retryAfter(headers) });
    if (status === 408 || status === 425 || status >= 500)
      throw new RetryableError(`${host} answered ${status}.`, { waitMs: retryAfter(headers) });
    const why = this.#told(text);
    if (status === 400 && /context|maximum.{0,20}length|too long/i.test(messageIn(text)))
      throw new ContextFull(
        `The conversation is longer than ${this.#name} has room for at ${host}. ` +
          "Ask less, or begin a new conversation.",
      );
    if (status === 404 || status === 405)
      throw new Refused(
        status,
        `${host} has no such path or model${why}. ` +
          "Check the address, which usually ends with /v1, and the model's name.",
      );
    throw new Refused(
      status,
      `${host} answered ${status}${why}. Check what it runs, and the model's name.`,
    );
  }

  /** A server's refusal in one short line, without the key that some repeat. */
  #told(text: string): string {
    const plain = messageIn(text).replace(/[\p{Cc}\p{Cf}\s]+/gu, " ");
    const kept = (this.#key ? plain.split(this.#key).join("…") : plain).trim().slice(0, 160);
    return kept === "" ? "" : ` (${kept})`;
  }
}

const refusal = shape({
  error: optional(shape({ message: optional(text) })),
  message: optional(text),
  detail: optional(text),
});

/** The message of a refusal, in the protocol's format or another common one. */
function messageIn(body: string): string {
  try {
    const { error, message, detail } = refusal(JSON.parse(body.slice(0, 65_536)), "");
    return error?.message ?? message ?? detail ?? "";
  } catch {
    return "";
  }
}

/** Reads the body, up to the size limit. */
async function bounded(response: Response, host: string): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  let bytes = 0;
  for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) {
    bytes += step.value.length;
    text += decoder.decode(step.value, { stream: true });
    if (bytes <= mostBytes) continue;
    await reader?.cancel();
    throw new RemoteFailure(
      `${host} answered with more than ${mostBytes >> 20} MB. Remove its member.`,
    );
  }
  return text + decoder.decode();
}

function parsed(text: string, host: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new RemoteFailure(
      `${host} answered with what is no JSON. Check the address, which usually ends with /v1.`,
    );
  }
}
