/**
 * A hub other than huggingface.co, by the page's address (`?debug&hub=…`): for tests, and mirrors
 * on this machine. Other hosts are refused, so that a link can't load models of its own under
 * trusted names.
 */
export function hubNamed(query: URLSearchParams): string | undefined {
  const address = query.has("debug") ? query.get("hub") : null;
  const host = address === null ? "" : (URL.parse(address)?.hostname ?? "");
  return ["localhost", "127.0.0.1", "[::1]"].includes(host) ? address! : undefined;
}
