/** Valid addresses and capabilities of a server that runs a member. */
import { BadReference } from "./errors.ts";

export const capabilities = ["drafts and scores", "drafts only", "judges only"] as const;
/**
 * Capability of a server, determined once when its member is added. `drafts only`: it returns no
 * log-probabilities of a given text, so that its rows stay empty. `judges only`: it chats, and
 * names the candidate it prefers.
 *
 * @useDeclaredType
 */
export type Capability = (typeof capabilities)[number];

/** Default timeout of a remote member for a draft or scores, in ms. */
export const usualTimeout = 10_000;

const onThisMachine = ["localhost", "127.0.0.1"];

/**
 * Base address of an OpenAI-compatible server, without a final slash. Throws Reference if it is
 * invalid, contains a key, or would send questions unencrypted over a network.
 */
export function remoteAddress(text: string): URL {
  const url = URL.parse(text.trim());
  if (!url || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw new BadReference(
      "A remote member's address begins with https:// " +
        "and ends with the base path of its interface, as in https://example.org/v1.",
    );
  // Never repeated in a message, as they may contain secrets.
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw new BadReference(
      "A remote member's address holds no key, no query and no fragment. Give the key by itself.",
    );
  if (url.protocol === "http:" && !onThisMachine.includes(url.hostname))
    throw new BadReference(
      `${url.host} would be asked in the clear. ` +
        `Plain http is for localhost and 127.0.0.1 alone: take https://${url.host}.`,
    );
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}
