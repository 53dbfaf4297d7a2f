/**
 * Serves a built folder as a strict file host would: from a sub-path, with the documented headers;
 * below it other folders by name, such as the package. A test may override a file's content, and
 * omit the headers for cross-origin isolation.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

/**
 * The page's own policy, with the directives that need a header: the headers that `cargo xtask
 * dist` recommends.
 */
function policyOf(folder: string): string {
  const html = readFileSync(join(folder, "index.html"), "utf8");
  const policy = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html)?.[1];
  if (!policy) throw new Error("index.html states no Content-Security-Policy");
  return `${policy}; frame-ancestors 'self'`;
}

const types: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".wasm": "application/wasm",
  ".woff2": "font/woff2",
};

const isolation = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cross-origin-resource-policy": "same-origin",
};

export class Site {
  readonly #server: Server;
  readonly #folder: string;
  readonly #subPath: string;
  /** Contents that override a file, by its path in the folder. */
  readonly overrides = new Map<string, Buffer | string>();
  /** Those that are foreign pages, served without this page's policy. */
  readonly strangers = new Set<string>();
  /** Files of which only the first half arrives, until the host closes. */
  readonly halved = new Set<string>();
  /** Every requested file, in order, by its path in the folder. */
  readonly asked: string[] = [];
  /** The page's address, with a trailing slash. */
  address = "";

  #isolates = true;

  /** `below`: other folders by their names. */
  constructor(folder: string, subPath = "/some/where/", below: Record<string, string> = {}) {
    this.#folder = folder;
    const policy = policyOf(folder);
    this.#subPath = subPath;
    const placeOf = (inside: string): string => {
      const [name = "", ...rest] = inside.split("/");
      return rest.length > 0 && below[name] !== undefined
        ? join(below[name], ...rest)
        : join(folder, inside);
    };
    this.#server = createServer((request, response) => {
      void (async () => {
        const path = decodeURIComponent(new URL(request.url ?? "/", "http://host").pathname);
        const inside = normalize(path.slice(subPath.length) || "index.html");
        this.asked.push(inside);
        try {
          if (!path.startsWith(subPath) || inside.startsWith("..")) throw new Error("outside");
          const body = this.overrides.get(inside) ?? (await readFile(placeOf(inside)));
          response.writeHead(200, {
            "content-type": types[extname(inside)] ?? "application/octet-stream",
            ...(this.strangers.has(inside) ? {} : { "content-security-policy": policy }),
            "x-content-type-options": "nosniff",
            "cache-control": "no-store",
            ...(this.#isolates ? isolation : {}),
          });
          if (this.halved.has(inside)) response.write(body.slice(0, body.length / 2));
          else response.end(body);
        } catch {
          response.writeHead(404, { "content-security-policy": policy }).end();
        }
      })();
    });
  }

  /** Disables isolation while `during` runs. */
  async withoutIsolation<T>(during: () => Promise<T>): Promise<T> {
    this.#isolates = false;
    try {
      return await during();
    } finally {
      this.#isolates = true;
    }
  }

  /** The service worker of a build with this content of a file. */
  workerFor(file: string, contents: string): string {
    const worker = String(
      this.overrides.get("offline.js") ?? readFileSync(join(this.#folder, "offline.js"), "utf8"),
    );
    const known = new RegExp(`("${file.replaceAll(".", "\\.")}":")[0-9a-f]{64}`);
    if (!known.test(worker)) throw new Error(`offline.js does not know ${file}`);
    return worker.replace(known, `$1${createHash("sha256").update(contents).digest("hex")}`);
  }

  /** Serves another content, as after a build with it. */
  rebuild(file: string, contents: string): void {
    this.overrides.set("offline.js", this.workerFor(file, contents));
    this.overrides.set(file, contents);
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo;
    this.address = `http://127.0.0.1:${port}${this.#subPath}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
