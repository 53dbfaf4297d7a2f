/**
 * One request for bytes of a file: the response is checked before a byte is accepted, and a stalled
 * connection is aborted. Headers that need a CORS preflight (such as If-Range) are avoided: whether
 * the file is unchanged is seen from the response's headers.
 */
import { Download, isAbort } from "../protocol/errors.ts";
import { retryAfter, RetryableError } from "./retry.ts";

/** The host sends the whole file for any range, or refuses ranges. */
export class NoRanges extends RetryableError {
  readonly refused: boolean;

  constructor(message: string, refused = false) {
    super(message);
    this.refused = refused;
  }
}

/** The host does not have the file. */
export class NotThere extends Download {}

/** The host's file is not the one that the download began with. */
export class Changed extends Error {}

export interface RequestOptions {
  signal: AbortSignal;
  /** A connection is stalled after this long without a byte. */
  stallMs: number;
}

/** Facts about a file in the headers of a response. */
export interface Answered {
  /** Offset in the file where the body ends, if known. */
  end: number | undefined;
  /** Size of the whole file; undefined if the headers can't be read or lack it. */
  total: number | undefined;
  validator: string | undefined;
  body: ReadableStream<Uint8Array>;
}

const contentRange = /^bytes (\d+)-(\d+)\/(\d+|\*)$/;

/** GET without cookies, referrer or HTTP cache, which would keep gigabytes twice. */
async function get(
  url: string,
  { signal, stallMs }: RequestOptions,
  range?: string,
): Promise<Response> {
  const { host } = new URL(url);
  const silence = new AbortController();
  const watch = watchdog(stallMs, () => silence.abort());
  try {
    return await fetch(url, {
      signal: AbortSignal.any([signal, silence.signal]),
      credentials: "omit",
      referrerPolicy: "no-referrer",
      cache: "no-store",
      ...(range === undefined ? {} : { headers: { range } }),
    });
  } catch (error) {
    signal.throwIfAborted();
    if (isAbort(error)) throw new RetryableError(`${host} did not answer.`, { cause: error });
    throw new RetryableError(`${host} can't be reached (${String(error)}).`, { cause: error });
  } finally {
    watch.stop();
  }
}

/**
 * Throws a {@link RetryableError} for a failure that may be temporary, a Download for a permanent
 * one.
 */
async function refuse(response: Response, url: string, what: string): Promise<void> {
  if (response.ok) return;
  const { status, headers } = response;
  await response.body?.cancel().catch(() => undefined);
  const host = new URL(response.url).host;
  const code = headers.get("x-error-code");
  // Signed addresses of the hub's store expire; the next try gets a new one.
  if (status === 403 && new URL(response.url).origin !== new URL(url).origin)
    throw new RetryableError(`${host} refuses the address that ${what} was asked for by.`);
  switch (status) {
    case 401:
    case 403:
      if (code === "RepoNotFound")
        throw new Download(
          `${host} has no repository for ${what}, or a private one. Check its name.`,
        );
      throw new Download(
        `${host} gives ${what} only to those who are signed in and have accepted its terms. ` +
          "Accept them there, download it, and choose the file here; " +
          "or take a copy that is open to all.",
      );
    case 404:
    case 410:
      if (code === "RevisionNotFound")
        throw new NotThere(`${host} has no such revision of ${what}. Check what follows the @.`);
      throw new NotThere(`${host} has no ${what}. Check its name.`);
    case 416:
      throw new NoRanges(`${host} says that ${what} is shorter than it was listed.`, true);
    case 429:
      throw new RetryableError(`${host} gets too many requests.`, {
        waitMs: retryAfter(headers),
        slowDown: true,
      });
    case 408:
    case 425:
    case 500:
    case 502:
    case 503:
    case 504:
      throw new RetryableError(`${host} is busy (${status}).`, { waitMs: retryAfter(headers) });
    default:
      throw new Download(
        `${host} answered ${status} for ${what}. Check the name, or try again later.`,
      );
  }
}

/** Version of a file: its ETag, or its date if a page may not see that. */
const validatorOf = (headers: Headers): string | undefined =>
  headers.get("etag") ?? headers.get("last-modified") ?? undefined;

const sizeOf = (text: string | null | undefined): number | undefined => {
  const size = text ? Number(text) : Number.NaN;
  return Number.isSafeInteger(size) && size >= 0 ? size : undefined;
};

/**
 * Requests `start` to `end` (exclusive), or as far as the host sends at once. Throws NoRanges if
 * the whole file comes instead.
 */
export async function askForRange(
  url: string,
  name: string,
  start: number,
  end: number,
  options: RequestOptions,
): Promise<Answered> {
  const response = await get(url, options, `bytes=${start}-${end - 1}`);
  await refuse(response, url, name);
  const { host } = new URL(url);
  const give = async (error: Error): Promise<never> => {
    await response.body?.cancel().catch(() => undefined);
    throw error;
  };
  if (!response.body) return give(new RetryableError(`${host} answered nothing for ${name}.`));
  if (response.status !== 206) return give(new NoRanges(`${host} can't send parts of a file.`));
  // Visible only if the other origin allows it.
  const said = response.headers.get("content-range");
  const [, from, to, total] = (said && contentRange.exec(said)) || [];
  const until = said === null ? end : Number(to) + 1;
  if (said !== null && (Number(from) !== start || !(start < until && until <= end))) {
    return give(
      new RetryableError(`${host} sent another part of ${name} than it was asked for (${said}).`),
    );
  }
  return {
    end: until,
    total: sizeOf(total),
    validator: validatorOf(response.headers),
    body: response.body,
  };
}

/** Requests a whole file. */
export async function askForAll(
  url: string,
  name: string,
  options: RequestOptions,
): Promise<Answered> {
  const response = await get(url, options);
  await refuse(response, url, name);
  if (!response.body)
    throw new RetryableError(`${new URL(url).host} answered nothing for ${name}.`);
  // If the host compresses, the length is that of the compressed bytes.
  const length = response.headers.has("content-encoding")
    ? undefined
    : sizeOf(response.headers.get("content-length"));
  return {
    end: length,
    total: length,
    validator: validatorOf(response.headers),
    body: response.body,
  };
}

/**
 * Passes a body to `take` in pieces until it has enough. Throws a {@link RetryableError} when the
 * connection breaks or stalls.
 */
export async function drain(
  body: ReadableStream<Uint8Array>,
  host: string,
  { signal, stallMs }: RequestOptions,
  take: (piece: Uint8Array) => boolean | Promise<boolean>,
): Promise<void> {
  // A reader, since not every browser iterates streams.
  const reader = body.getReader();
  let silent = false;
  const watch = watchdog(stallMs, () => {
    silent = true;
    void reader.cancel().catch(() => undefined);
  });
  try {
    for (;;) {
      const step = await reader.read();
      signal.throwIfAborted();
      if (silent)
        throw new RetryableError(`${host} sent nothing for ${Math.ceil(stallMs / 1000)} s.`);
      if (step.done) return;
      watch.feed();
      if (!(await take(step.value))) return;
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TypeError || isAbort(error))
      throw new RetryableError(`The line to ${host} broke.`, { cause: error });
    throw error;
  } finally {
    watch.stop();
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * Calls `bark` when not fed for `ms`. Counts ticks instead of reading a clock, so that a busy
 * worker or a sleeping machine does not count as waiting.
 */
function watchdog(ms: number, bark: () => void): { feed: () => void; stop: () => void } {
  const ticks = 8;
  let left = ticks;
  const timer = setInterval(() => {
    if (--left === 0) bark();
  }, ms / ticks);
  return { feed: () => (left = ticks), stop: () => clearInterval(timer) };
}
