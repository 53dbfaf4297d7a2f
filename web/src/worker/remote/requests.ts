/**
 * Requests to a server: with a time limit, bounded, without credentials, and not redirected. The
 * key is in a request's header and nowhere else. What is asked, and retried, is the module's matter
 * (crates/remote).
 */
import type { Sent, Wire } from "../../protocol/engine.ts";
import { pause, retryAfter } from "../../store/retry.ts";

/** Status of a redirect, of which a browser tells nothing else. */
const redirected = 307;

/** A page learns no more than that: network, CORS and the page's own policy look alike. */
const unreached =
  "it can't be reached; check that it runs, that it lets this page's origin ask it (CORS), " +
  "and that the page's policy allows it (connect-src)";

/** Requests of one move, until the signal. */
export const requests = (signal: AbortSignal): Wire => ({
  async send(url, body, authorization, ms, mostBytes): Promise<Sent> {
    const time = AbortSignal.timeout(Math.ceil(ms));
    try {
      const response = await fetch(url, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(authorization === undefined ? {} : { authorization }),
        },
        ...(body === undefined ? {} : { body }),
        signal: AbortSignal.any([signal, time]),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        // The key and the question must not reach another address.
        redirect: "manual",
      });
      const bytes = await bounded(response, mostBytes);
      if (!bytes) return { failed: "large" };
      const status = response.type === "opaqueredirect" ? redirected : response.status;
      return { status, retryAfter: retryAfter(response.headers), body: bytes };
    } catch (error) {
      if (signal.aborted) return { failed: "stopped" };
      if (time.aborted) return { failed: "late" };
      return { failed: "passing", why: error instanceof TypeError ? unreached : String(error) };
    }
  },
  pause: (ms) => pause(ms, signal),
});

/** The body; undefined if it has more bytes. */
async function bounded(response: Response, mostBytes: number): Promise<Uint8Array | undefined> {
  const reader = response.body?.getReader();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) {
    parts.push(step.value);
    bytes += step.value.length;
    if (bytes <= mostBytes) continue;
    await reader?.cancel();
    return undefined;
  }
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
