/**
 * Another hub than huggingface.co, by the page's address (`?debug&hub=…`): for tests, and mirrors
 * on this machine. A link can't have the page fetch models from a host of its own under names that
 * are trusted.
 */
export function hubNamed(query: URLSearchParams): string | undefined {
  const address = query.has("debug") ? query.get("hub") : null;
  const host = address === null ? "" : (URL.parse(address)?.hostname ?? "");
  return ["localhost", "127.0.0.1", "[::1]"].includes(host) ? address! : undefined;
}
