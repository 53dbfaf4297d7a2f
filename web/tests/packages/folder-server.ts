/** Serves folders like plain file hosts: no rewriting, and by default a strict policy. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import sirv from "sirv";

interface FolderOptions {
  /** Headers of every response, beside those of the file. */
  headers?: Record<string, string>;
  /** Called before the file is looked up. */
  before?: (request: IncomingMessage) => Promise<void>;
}

/**
 * The policy of a page that loads nothing from elsewhere; `also`: an origin that it may load from.
 * Workers that import from there start from a blob.
 */
export function policy(also?: string): Record<string, string> {
  const own = also === undefined ? "'self'" : `'self' ${also}`;
  const workers = also === undefined ? own : `${own} blob:`;
  const rules = [
    `default-src ${own}`,
    `script-src ${own} 'unsafe-inline' 'wasm-unsafe-eval'`,
    `worker-src ${workers}`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
  ];
  return { "content-security-policy": rules.join("; ") };
}

/** Serves a folder until the test is over, and returns its address. */
export async function serveFolder(
  context: TestContext,
  folder: string,
  { headers = policy(), before }: FolderOptions = {},
): Promise<string> {
  const files = sirv(folder, { etag: true, dotfiles: true });
  const server = createServer((request, response) => {
    void (async () => {
      await before?.(request);
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      files(request, response);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
