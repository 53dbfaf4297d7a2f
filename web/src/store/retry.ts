/** When a request that failed is made again, and how long to wait before. */
import { Download } from "../protocol/errors.ts";

export interface SetbackOptions extends ErrorOptions {
  /** What the host asked to wait. */
  waitMs?: number | undefined;
  /** It asked to wait, where a page can't see how long: more patience than with a broken line. */
  slowDown?: boolean;
}

/** Something went wrong that may go right at the next try. */
export class Setback extends Error {
  readonly waitMs: number | undefined;
  readonly slowDown: boolean;

  constructor(message: string, { waitMs, slowDown = false, ...options }: SetbackOptions = {}) {
    super(message, options);
    this.waitMs = waitMs;
    this.slowDown = slowDown;
  }
}

export interface RetryPolicy {
  /** Tries in a row that bring no new byte, before giving up. */
  tries: number;
  /** The first wait; each next one is twice as long. */
  firstMs: number;
  /** Longer than this a host may not ask us to wait: that is for the visitor to decide. */
  patienceMs: number;
}

export const usualRetry: RetryPolicy = { tries: 6, firstMs: 500, patienceMs: 120_000 };

/**
 * Runs `attempt` until it succeeds. A {@link Setback} is waited out and tried again, for as long as
 * tries bring something (`gained` says whether the last one did); any other error ends it. Throws
 * Download when it gives up, or the signal's reason.
 */
export async function retrying<T>(
  attempt: () => Promise<T>,
  {
    policy,
    signal,
    gained,
    onWait,
  }: {
    policy: RetryPolicy;
    signal: AbortSignal;
    gained: () => boolean;
    onWait: (why: string | undefined) => void;
  },
): Promise<T> {
  for (let fruitless = 0; ; ) {
    try {
      return await attempt();
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof Setback)) throw thrown;
      fruitless = gained() ? 0 : fruitless + 1;
      if (fruitless >= policy.tries) {
        throw new Download(
          `${thrown.message} It was tried ${policy.tries} times. What arrived is kept: check the connection, then try again.`,
          { cause: thrown },
        );
      }
      const wait = waitAfter(thrown, fruitless, policy);
      if (wait > policy.patienceMs) {
        throw new Download(
          `${thrown.message} It asks to wait ${Math.ceil(wait / 60_000)} minutes. What arrived is kept: try again then.`,
          { cause: thrown },
        );
      }
      onWait(`${thrown.message} Trying again in ${Math.ceil(wait / 1000)} s.`);
      await pause(wait, signal);
      onWait(undefined);
    }
  }
}

/**
 * How long to wait after so many tries that brought nothing: as long as the host asks, and never
 * less than usual.
 */
export function waitAfter(
  { waitMs, slowDown }: Setback,
  fruitless: number,
  { firstMs, patienceMs }: RetryPolicy,
): number {
  const usual = Math.min(
    firstMs * 2 ** Math.max(0, fruitless - 1) * (slowDown && waitMs === undefined ? 10 : 1),
    patienceMs,
  );
  return Math.max(waitMs ?? 0, usual);
}

/**
 * Whole seconds or a date (RFC 9110, 10.2.3), as milliseconds; undefined if it is neither, or past.
 * A date is relative to the answer's own, or where a page may not see that to this machine's.
 */
export function retryAfter(headers: Headers): number | undefined {
  const said = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(said)) return Number(said) * 1000;
  if (!/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/.test(said)) return undefined;
  const date = headers.get("date");
  const wait = Date.parse(said) - (date === null ? Date.now() : Date.parse(date));
  return wait >= 0 ? wait : undefined;
}

/** Waits; throws the signal's reason when it is aborted meanwhile. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", settle);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(settle, ms);
    if (signal?.aborted) settle();
    else signal?.addEventListener("abort", settle);
  });
}
