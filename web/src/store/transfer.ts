/**
 * One request for bytes of a file: what the host answers is checked before a byte of it is taken,
 * and a line that goes silent is cut. No header is sent that a page would have to ask leave for
 * (If-Range, say): whether the file is still the same is seen from the answer's own headers.
 */
import { Download, isAbort } from "../protocol/errors.ts";
import { retryAfter, Setback } from "./retry.ts";

/** The host sends the whole file whatever range it is asked for, or refuses ranges. */
export class NoRanges extends Setback {
  readonly refused: boolean;

  constructor(message: string, refused = false) {
    super(message);
    this.refused = refused;
  }
}

/** The host has no such file, or none any more. */
export class NotThere extends Download {}

/** The file at the host is not the one the download began with. */
export class Changed extends Error {}

export interface RequestOptions {
  signal: AbortSignal;
  /** A line is silent when no byte comes for this long. */
  stallMs: number;
}

/** What a host says of a file in the headers of an answer. */
export interface Answered {
  /** Where in the file the body ends, as far as the headers tell. */
  end: number | undefined;
  /** Size of the whole file; undefined where the headers can't be read or don't tell. */
  total: number | undefined;
  validator: string | undefined;
  body: ReadableStream<Uint8Array>;
}

const contentRange = /^bytes (\d+)-(\d+)\/(\d+|\*)$/;

/** GET, without cookies, referrer or the browser's own cache, which would keep gigabytes twice. */
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
    if (isAbort(error)) throw new Setback(`${host} did not answer.`, { cause: error });
    throw new Setback(`${host} can't be reached (${String(error)}).`, { cause: error });
  } finally {
    watch.stop();
  }
}

/**
 * Throws a {@link Setback} for an answer that may be better next time, a Download for one that
 * won't.
 */
async function refuse(response: Response, url: string, what: string): Promise<void> {
  if (response.ok) return;
  const { status, headers } = response;
  await response.body?.cancel().catch(() => undefined);
  const host = new URL(response.url).host;
  const code = headers.get("x-error-code");
  // Signed addresses of the hub's store expire; the next try gets a new one.
  if (status === 403 && new URL(response.url).origin !== new URL(url).origin)
    throw new Setback(`${host} refuses the address that ${what} was asked for by.`);
  switch (status) {
    case 401:
    case 403:
      if (code === "RepoNotFound")
        throw new Download(
          `${host} has no repository for ${what}, or a private one. Check its name.`,
        );
      throw new Download(
        `${host} gives ${what} only to those who are signed in and have accepted its terms. Accept them there, download it, and choose the file here; or take a copy that is open to all.`,
      );
    case 404:
    case 410:
      if (code === "RevisionNotFound")
        throw new NotThere(`${host} has no such revision of ${what}. Check what follows the @.`);
      throw new NotThere(`${host} has no ${what}. Check its name.`);
    case 416:
      throw new NoRanges(`${host} says that ${what} is shorter than it was listed.`, true);
    case 429:
      throw new Setback(`${host} gets too many requests.`, {
        waitMs: retryAfter(headers),
        slowDown: true,
      });
    case 408:
    case 425:
    case 500:
    case 502:
    case 503:
    case 504:
      throw new Setback(`${host} is busy (${status}).`, { waitMs: retryAfter(headers) });
    default:
      throw new Download(
        `${host} answered ${status} for ${what}. Check the name, or try again later.`,
      );
  }
}

/**
 * What tells one state of a file from another: its ETag, or where a page may not see that, its
 * date.
 */
const validatorOf = (headers: Headers): string | undefined =>
  headers.get("etag") ?? headers.get("last-modified") ?? undefined;

const sizeOf = (text: string | null | undefined): number | undefined => {
  const size = text ? Number(text) : Number.NaN;
  return Number.isSafeInteger(size) && size >= 0 ? size : undefined;
};

/**
 * Asks for `start` to `end` (exclusive), or as far as the host sends at once. Throws NoRanges when
 * all of the file comes instead.
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
  if (!response.body) return give(new Setback(`${host} answered nothing for ${name}.`));
  if (response.status !== 206) return give(new NoRanges(`${host} can't send parts of a file.`));
  // A page sees this header of another origin only where that origin lets it.
  const said = response.headers.get("content-range");
  const [, from, to, total] = (said && contentRange.exec(said)) || [];
  const until = said === null ? end : Number(to) + 1;
  if (said !== null && (Number(from) !== start || !(start < until && until <= end))) {
    return give(
      new Setback(`${host} sent another part of ${name} than it was asked for (${said}).`),
    );
  }
  return {
    end: until,
    total: sizeOf(total),
    validator: validatorOf(response.headers),
    body: response.body,
  };
}

/** Asks for all of a file. */
export async function askForAll(
  url: string,
  name: string,
  options: RequestOptions,
): Promise<Answered> {
  const response = await get(url, options);
  await refuse(response, url, name);
  if (!response.body) throw new Setback(`${new URL(url).host} answered nothing for ${name}.`);
  // Where the host compresses, the length is that of the compressed bytes.
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
 * Hands a body over piece by piece until `take` says that it has enough. Throws a {@link Setback}
 * when the line breaks or is silent for too long.
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
      if (silent) throw new Setback(`${host} sent nothing for ${Math.ceil(stallMs / 1000)} s.`);
      if (step.done) return;
      watch.feed();
      if (!(await take(step.value))) return;
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TypeError || isAbort(error))
      throw new Setback(`The line to ${host} broke.`, { cause: error });
    throw error;
  } finally {
    watch.stop();
    await reader.cancel().catch(() => undefined);
  }
}

/**
 * Calls `bark` when it was not fed for `ms`. It counts ticks and looks at no clock: a worker that
 * was busy with an answer, or a machine that slept, has not waited for the line.
 */
function watchdog(ms: number, bark: () => void): { feed: () => void; stop: () => void } {
  const ticks = 8;
  let left = ticks;
  const timer = setInterval(() => {
    if (--left === 0) bark();
  }, ms / ticks);
  return { feed: () => (left = ticks), stop: () => clearInterval(timer) };
}
