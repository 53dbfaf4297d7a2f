/** A member behind a server: what its address may be, and what such a server can do. */
import { BadReference } from "./errors.ts";

/**
 * What a server can do, asked once when its member is added. `drafts only`: it tells no
 * log-probabilities of a given text, so that its rows stay empty. `judges only`: it chats, and
 * names the candidate that it likes best.
 */
export const capabilities = ["drafts and scores", "drafts only", "judges only"] as const;
export type Capability = (typeof capabilities)[number];

/**
 * How long a remote member may take for a draft or for its scores where nothing else is said, in
 * ms.
 */
export const usualTimeout = 10_000;

const onThisMachine = ["localhost", "127.0.0.1"];

/**
 * The address that an OpenAI-compatible server's paths begin with, without a slash at its end.
 * Throws Reference where it is none, holds a key, or would send what is asked over a network in the
 * clear.
 */
export function remoteAddress(text: string): URL {
  const url = URL.parse(text.trim());
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw new BadReference(
      "A remote member's address begins with https:// and ends with what its paths begin with, as in https://example.org/v1.",
    );
  // Never repeated in a message: what is in them may be secret.
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw new BadReference(
      "A remote member's address holds no key, no query and no fragment. Give the key by itself.",
    );
  if (url.protocol === "http:" && !onThisMachine.includes(url.hostname))
    throw new BadReference(
      `${url.host} would be asked in the clear. Plain http is for localhost and 127.0.0.1 alone: take https://${url.host}.`,
    );
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}
