/** Serves the bench's models to other engines, and runs their page in a browser. */
import { build } from "esbuild";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import type { Browser } from "playwright-core";
import { emptySeries, leftAt, type PeerNews } from "../../src/bench/peers.ts";
import type { PeerSeries } from "../../src/bench/report.ts";
import type { PeerPlan } from "./peer-page.ts";

const html =
  '<!doctype html><title>Peer</title><link rel="icon" href="data:,">' +
  '<script type="module" src="./peer-page.js"></script>';
const types: Record<string, string> = {
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
  ".json": "application/json",
};
/** WebAssembly threads need a cross-origin isolated page. */
const isolated = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cache-control": "no-store",
};

export class Peer {
  readonly #server: Server;
  readonly #browser: Browser;
  address = "";

  private constructor(server: Server, browser: Browser) {
    this.#server = server;
    this.#browser = browser;
  }

  /**
   * `folder` holds `node_modules` with transformers.js and wllama, and `models` for the former;
   * `gguf` beside it and `files` are for the latter.
   */
  static async open(browser: Browser, folder: string, files: string): Promise<Peer> {
    const source = `${process.env["CONCLAVE_WEB"] ?? "./"}tests/browser/peer-page.ts`;
    const { outputFiles } = await build({
      entryPoints: [source],
      bundle: true,
      format: "esm",
      target: "es2022",
      write: false,
    });
    const made = new Map([
      ["", ["text/html", html]],
      ["peer-page.js", ["text/javascript", outputFiles[0]!.text]],
    ]);
    const places: [string, string][] = [
      [
        "transformers.min.js",
        join(folder, "node_modules/@huggingface/transformers/dist/transformers.min.js"),
      ],
      ["ort/", join(folder, "node_modules/onnxruntime-web/dist/")],
      ["models/", join(folder, "models/")],
      ["wllama/", join(folder, "node_modules/@wllama/wllama/esm/")],
      ["gguf/", join(folder, "../gguf/")],
      ["files/", join(files, "/")],
    ];
    const server = createServer((request, response) => {
      void (async () => {
        const path = normalize(
          decodeURIComponent(new URL(request.url ?? "/", "http://host").pathname),
        ).slice(1);
        const [type, body] = made.get(path) ?? [];
        if (body !== undefined)
          return response.writeHead(200, { "content-type": type, ...isolated }).end(body);
        const [from, to] = places.find(([prefix]) => path.startsWith(prefix)) ?? [];
        const file = from === undefined ? "" : to + path.slice(from.length);
        const found = await stat(file).catch(() => undefined);
        if (!found?.isFile()) return response.writeHead(404, isolated).end();
        response.writeHead(200, {
          "content-type": types[extname(file)] ?? "application/octet-stream",
          "content-length": found.size,
          ...isolated,
        });
        return createReadStream(file).pipe(response);
      })();
    });
    const peer = new Peer(server, browser);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    peer.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    return peer;
  }

  /**
   * One run in its own page. A page without news for twice the limit, plus a minute for loading, is
   * closed; its measurements so far are kept.
   */
  async measure(plan: PeerPlan): Promise<PeerSeries[]> {
    const context = await this.#browser.newContext();
    let watching: NodeJS.Timeout | undefined;
    try {
      const page = await context.newPage();
      page.setDefaultTimeout(0);
      page.on("pageerror", (error) => console.error(String(error)));
      const patienceMs = 2000 * plan.limitSeconds + 60_000;
      let news: PeerNews = {
        series: plan.prefixes.map(emptySeries),
        doing: { prefix: plan.prefixes[0]!, what: "load" },
      };
      let [begun, heard] = [Date.now(), Date.now()];
      await page.exposeFunction("tellPeer", (now: PeerNews) => {
        heard = Date.now();
        if (JSON.stringify(now.doing) !== JSON.stringify(news.doing)) begun = heard;
        news = now;
      });
      const silent = new Promise<PeerSeries[]>((resolve) => {
        watching = setInterval(() => {
          if (Date.now() - heard > patienceMs) resolve(leftAt(news, Date.now() - begun));
        }, 1000);
      });
      await page.goto(this.address);
      await page.waitForFunction(() => "measurePeer" in globalThis);
      const whole = page.evaluate(
        (asked) =>
          (
            globalThis as unknown as { measurePeer(plan: PeerPlan): Promise<PeerSeries[]> }
          ).measurePeer(asked),
        plan,
      );
      // If cut off, closing its page ends it with an uninformative error.
      whole.catch(() => undefined);
      return await Promise.race([whole, silent]);
    } finally {
      clearInterval(watching);
      await context.close();
    }
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
