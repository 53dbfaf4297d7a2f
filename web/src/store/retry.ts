/** When to retry a failed request, and how long to wait before. */
import { Download } from "../protocol/errors.ts";

export interface SetbackOptions extends ErrorOptions {
  /** Wait requested by the host. */
  waitMs?: number | undefined;
  /**
   * The host asked to wait, for a time that a page can't see: wait longer than after a broken
   * connection.
   */
  slowDown?: boolean;
}

/** A failure that may succeed at the next try. */
export class RetryableError extends Error {
  readonly waitMs: number | undefined;
  readonly slowDown: boolean;

  constructor(message: string, { waitMs, slowDown = false, ...options }: SetbackOptions = {}) {
    super(message, options);
    this.waitMs = waitMs;
    this.slowDown = slowDown;
  }
}

export interface RetryPolicy {
  /** Limit on consecutive tries without a new byte. */
  tries: number;
  /** The first wait; each next one is twice as long. */
  firstMs: number;
  /** Longest wait that a host may request; beyond it the visitor decides. */
  patienceMs: number;
}

const keptAdvice = "What arrived is kept: check the connection, then try again.";

export const usualRetry: RetryPolicy = { tries: 6, firstMs: 500, patienceMs: 120_000 };

/**
 * Runs `attempt` until it succeeds. Waits and retries after a {@link RetryableError}; tries that
 * make progress (by `gained`) reset the count. Any other error is rethrown. Throws Download when it
 * gives up, with `advice` on what to do next, or the signal's reason.
 */
export async function retrying<T>(
  attempt: () => Promise<T>,
  {
    policy,
    signal,
    gained,
    onWait,
    advice = keptAdvice,
  }: {
    policy: RetryPolicy;
    signal: AbortSignal;
    gained: () => boolean;
    onWait: (why: string | undefined) => void;
    advice?: string;
  },
): Promise<T> {
  for (let fruitless = 0; ; ) {
    try {
      return await attempt();
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof RetryableError)) throw thrown;
      fruitless = gained() ? 0 : fruitless + 1;
      if (fruitless >= policy.tries) {
        throw new Download(`${thrown.message} It was tried ${policy.tries} times. ${advice}`, {
          cause: thrown,
        });
      }
      const wait = waitAfter(thrown, fruitless, policy);
      if (wait > policy.patienceMs) {
        throw new Download(
          `${thrown.message} It asks to wait ${Math.ceil(wait / 60_000)} minutes. ` +
            "What arrived is kept: try again then.",
          { cause: thrown },
        );
      }
      onWait(`${thrown.message} Trying again in ${Math.ceil(wait / 1000)} s.`);
      await pause(wait, signal);
      onWait(undefined);
    }
  }
}

/** Wait after so many tries without progress: as long as the host asks, at least the usual time. */
export function waitAfter(
  { waitMs, slowDown }: RetryableError,
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
 * Parses Retry-After, whole seconds or a date (RFC 9110, 10.2.3), into milliseconds; undefined if
 * invalid or past. A date is relative to the response's own, or to this machine's clock if the page
 * may not see that.
 */
export function retryAfter(headers: Headers): number | undefined {
  const said = headers.get("retry-after")?.trim() ?? "";
  if (/^\d+$/.test(said)) return Number(said) * 1000;
  if (!/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/.test(said)) return undefined;
  const date = headers.get("date");
  const wait = Date.parse(said) - (date === null ? Date.now() : Date.parse(date));
  return wait >= 0 ? wait : undefined;
}

/** Waits; throws the signal's reason when aborted. */
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
