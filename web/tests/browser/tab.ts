/** A tab of a bare page with only the store in a worker, and the host that serves it. */
import { build } from "esbuild";
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "playwright-core";
import type { Plan, Progress, Stored } from "../../src/protocol/messages.ts";
import { patience } from "./visitor.ts";

/** Runs in the page: matches replies to calls. */
const script = `
  const worker = new Worker("./worker.js", { type: "module" });
  const waiting = new Map();
  let next = 1;
  window.progress = [];
  window.call = (message) => new Promise((resolve) => {
    const id = next++;
    waiting.set(id, resolve);
    if (message.method === "open") {
      window.opening = id;
      window.progress.length = 0;
    }
    worker.postMessage({ ...message, id });
  });
  window.stop = (other) => worker.postMessage({ id: 0, method: "stop", other });
  worker.onmessage = ({ data }) =>
    data.progress ? window.progress.push(data.progress) : waiting.get(data.id)?.(data);
`;

export class BareSite {
  readonly #server: Server;
  address = "";

  private constructor(worker: string) {
    const html =
      '<!doctype html><title>Store</title><link rel="icon" href="data:,">' +
      `<script type="module">${script}</script>`;
    this.#server = createServer((request, response) => {
      const isWorker = request.url === "/worker.js";
      response.writeHead(200, {
        "content-type": isWorker ? "text/javascript" : "text/html",
        "cache-control": "no-store",
      });
      response.end(isWorker ? worker : html);
    });
  }

  static async open(): Promise<BareSite> {
    const source = `${process.env["CONCLAVE_WEB"] ?? "./"}tests/browser/store-worker.ts`;
    const { outputFiles } = await build({
      entryPoints: [source],
      bundle: true,
      format: "esm",
      target: "es2022",
      write: false,
    });
    const site = new BareSite(outputFiles[0]!.text);
    await new Promise<void>((resolve) => site.#server.listen(0, "127.0.0.1", resolve));
    site.address = `http://127.0.0.1:${(site.#server.address() as AddressInfo).port}/`;
    return site;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

interface Answer<T> {
  result?: T;
  error?: { kind: string; message: string };
}
interface OpenedFile {
  name: string;
  bytes: number;
  sha256: string;
}
interface Driven {
  call(message: object): Promise<Answer<unknown>>;
  stop(id: number): void;
  /** The last call that opens a model, and its progress. */
  opening: number;
  progress: Progress[];
}

/** Options of a tab's store. */
interface Start {
  hub: string;
  chunkBytes: number;
  /** A connection is stalled after this long without a byte. */
  stallMs: number;
}

export class Tab {
  readonly page: Page;
  readonly #start: Start;

  private constructor(page: Page, start: Start) {
    this.page = page;
    this.#start = start;
  }

  static async open(context: BrowserContext, address: string, start: Start): Promise<Tab> {
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    await page.goto(address);
    const tab = new Tab(page, start);
    await tab.#started();
    return tab;
  }

  async reload(): Promise<void> {
    await this.page.reload();
    await this.#started();
  }

  persistent = true;
  async #started(): Promise<void> {
    await this.page.waitForFunction(() => "call" in globalThis);
    ({ persistent: this.persistent } = await this.#result<{ persistent: boolean }>({
      method: "start",
      ...this.#start,
    }));
  }

  plan = (ref: string): Promise<Plan> => this.#result({ method: "plan", ref });
  list = (): Promise<Stored> => this.#result({ method: "list" });
  delete = (ref: string): Promise<void> => this.#result({ method: "delete", ref });
  open = (ref: string): Promise<OpenedFile[]> => this.#result({ method: "open", ref });

  /** The error of opening a model. */
  async failure(ref: string): Promise<{ kind: string; message: string }> {
    const { error } = await this.#call({ method: "open", ref });
    assert.ok(error, "it should have failed");
    return error;
  }

  /** Aborts the opening of a model. */
  stop(): Promise<void> {
    return this.page.evaluate(() => {
      const driven = globalThis as unknown as Driven;
      driven.stop(driven.opening);
    });
  }

  /**
   * Waits until so many bytes of a model are written and recorded; progress reports may come
   * earlier or later.
   */
  async keeps(bytes: number): Promise<void> {
    const enough = AbortSignal.timeout(patience);
    while (((await this.list()).models[0]?.stored ?? 0) < bytes) {
      enough.throwIfAborted();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  progress(): Promise<Progress[]> {
    return this.page.evaluate(() => (globalThis as unknown as Driven).progress);
  }

  /** Waits until a progress report matches. */
  async reaches(what: Partial<Progress>): Promise<void> {
    await this.page.waitForFunction(
      ({ phase, loaded }) =>
        (globalThis as unknown as Driven).progress.some(
          (step) =>
            (phase === undefined || step.phase === phase) &&
            (loaded === undefined || step.loaded >= loaded),
        ),
      what,
    );
  }

  #call(message: object): Promise<Answer<unknown>> {
    return this.page.evaluate((sent) => (globalThis as unknown as Driven).call(sent), message);
  }

  async #result<T>(message: object): Promise<T> {
    const { result, error } = await this.#call(message);
    assert.equal(error, undefined);
    return result as T;
  }
}
