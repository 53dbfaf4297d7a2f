/**
 * The service worker against a simulated host and cache storage: what it fetches when, and what it
 * keeps.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { build } from "esbuild";
import { cachePrefix } from "./offline-caches.ts";

const base = "https://host.test/some/where/";
const page = { "index.html": "a page" };
const openCore = { "open-core.js": "a script" };

const isolation = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cross-origin-resource-policy": "same-origin",
};

type Files = Record<string, string>;
type Listener = (event: {
  data?: unknown;
  request?: Request;
  waitUntil(done: Promise<unknown>): void;
  respondWith(response: Promise<Response>): void;
}) => void;

/** A browser, its caches and its network. */
class Browser {
  /** Files on the host now. */
  host: Files = { ...page, ...openCore };
  /** Whether the host isolates the page. */
  isolates = true;
  /** Paths requested from the host. */
  asked: string[] = [];
  readonly #caches = new Map<string, Map<string, Response>>();

  /** Names of the caches. */
  get kept(): string[] {
    return [...this.#caches.keys()];
  }

  /** Installs and activates the worker of a build with these files. */
  async visit(files: Files, onceUsed: Files, search = ""): Promise<Worker> {
    const listeners = new Map<string, Listener>();
    const digests = (files: Files): string =>
      JSON.stringify(
        Object.fromEntries(
          Object.entries(files).map(([path, content]) => [
            path,
            createHash("sha256").update(content).digest("hex"),
          ]),
        ),
      );
    const { outputFiles } = await build({
      entryPoints: [`${process.env["CONCLAVE_WEB"] ?? "./"}src/page/offline.ts`],
      bundle: true,
      format: "iife",
      write: false,
      define: { OFFLINE_FILES: digests(files), OFFLINE_ONCE_USED: digests(onceUsed) },
    });
    runInNewContext(outputFiles[0]!.text, {
      registration: { scope: base },
      location: { search },
      clients: { claim: async () => undefined },
      addEventListener: (type: string, listener: Listener) => listeners.set(type, listener),
      caches: {
        open: async (name: string) => this.#open(name),
        keys: async () => [...this.#caches.keys()],
        delete: async (name: string) => this.#caches.delete(name),
        match: async (key: string, options?: { ignoreSearch: boolean }) =>
          this.#match(key, options),
      },
      fetch: async (address: URL | Request) =>
        this.#fetch(new URL("url" in address ? address.url : address)),
      crypto,
      URL,
      TextEncoder,
      Headers,
      Response,
    });
    const worker = new Worker(listeners);
    await worker.hear("install");
    await worker.hear("activate");
    return worker;
  }

  #open(name: string): object {
    const kept = this.#caches.get(name) ?? new Map<string, Response>();
    this.#caches.set(name, kept);
    return {
      match: async (key: string) => kept.get(key)?.clone(),
      put: async (key: string, response: Response) => void kept.set(key, response),
    };
  }

  #match(key: string, { ignoreSearch = false } = {}): Response | undefined {
    const same = (other: string): boolean =>
      ignoreSearch ? other.split("?")[0] === key.split("?")[0] : other === key;
    return [...this.#caches.values()]
      .flatMap((kept) => [...kept])
      .find(([other]) => same(other))?.[1]
      .clone();
  }

  #fetch(address: URL): Response {
    const path = address.href.slice(base.length);
    this.asked.push(path);
    const content = this.host[path];
    const headers = this.isolates ? isolation : {};
    return content === undefined
      ? new Response("", { status: 404 })
      : new Response(content, { headers });
  }
}

class Worker {
  readonly #listeners: Map<string, Listener>;

  constructor(listeners: Map<string, Listener>) {
    this.#listeners = listeners;
  }

  /** Dispatches an event and returns the response, once all its work is done. */
  async hear(
    type: string,
    event: { data?: unknown; request?: Request } = {},
  ): Promise<Response | undefined> {
    const under: Promise<unknown>[] = [];
    let answer: Promise<Response> | undefined;
    this.#listeners.get(type)!({
      ...event,
      waitUntil: (done) => void under.push(done),
      respondWith: (response) => void (answer = response),
    });
    const response = await answer;
    await Promise.all(under);
    return response;
  }

  /** A file as the page gets it; undefined if the worker leaves it to the browser. */
  async get(path: string): Promise<string | undefined> {
    return (await this.hear("fetch", { request: new Request(base + path) }))?.text();
  }
}

const [burn] = Object.keys(openCore) as [string];

test("the open core is not asked for before it is used, and kept from then on", async () => {
  const browser = new Browser();
  const worker = await browser.visit(page, openCore);
  assert.deepEqual(browser.asked, ["index.html"]);
  assert.equal(await worker.get(burn), "a script");
  browser.host = {};
  assert.equal(await worker.get(burn), "a script");
  assert.equal(await worker.get("index.html"), "a page");
  assert.deepEqual(browser.asked, ["index.html", burn]);
  assert.equal(await worker.get("members/other.gguf"), undefined);
});

const engines = {
  "index.html": "a page",
  "engine.js": "alone",
  "engine.wasm": "plain and alone",
  "engine-relaxed.wasm": "alone",
  "engine-shared.js": "shared",
  "engine-shared.wasm": "plain and shared",
  "engine-shared-relaxed.wasm": "shared",
};

test("of the engine's builds the one is kept that the page starts", async () => {
  for (const [search, ...kept] of [
    ["?", "engine.js", "engine.wasm"],
    ["?relaxed", "engine-relaxed.wasm", "engine.js"],
    ["?shared", "engine-shared.js", "engine-shared.wasm"],
    ["?shared&relaxed", "engine-shared-relaxed.wasm", "engine-shared.js"],
  ] as const) {
    const browser = new Browser();
    browser.host = engines;
    await browser.visit(engines, {}, search);
    assert.deepEqual(browser.asked.sort(), [...kept, "index.html"]);
  }
});

test("what is not of this version reaches the page, and is not kept", async () => {
  const browser = new Browser();
  const worker = await browser.visit(page, openCore);
  browser.host[burn] = "a newer script";
  assert.equal(await worker.get(burn), "a newer script");
  browser.host[burn] = "a script";
  assert.equal(await worker.get(burn), "a script");
  assert.deepEqual(browser.asked, ["index.html", burn, burn]);
});

test("what was used before there was a worker is kept when the page says so, once", async () => {
  const browser = new Browser();
  const worker = await browser.visit(page, openCore);
  for (let time = 0; time < 2; time++)
    await worker.hear("message", { data: { keep: ["open-core"] } });
  assert.deepEqual(browser.asked, ["index.html", burn]);
  browser.host = {};
  assert.equal(await worker.get(burn), "a script");
});

test("a new version has what its visitor used before, fetched only where it changed", async () => {
  const browser = new Browser();
  await (await browser.visit(page, openCore)).get(burn);
  browser.asked = [];
  browser.host["index.html"] = "a newer page";
  await browser.visit({ "index.html": "a newer page" }, openCore);
  assert.deepEqual(browser.asked, ["index.html"]);
  browser.asked = [];
  browser.host[burn] = "a newer script";
  const newest = await browser.visit(
    { "index.html": "a newer page" },
    { [burn]: "a newer script" },
  );
  assert.deepEqual(browser.asked, [burn]);
  browser.host = {};
  assert.equal(await newest.get(burn), "a newer script");
});

test("a version has one cache, whatever builds are kept in it; the next has another", async () => {
  const browser = new Browser();
  browser.host = engines;
  browser.isolates = false;
  for (const search of ["?relaxed", "?shared&relaxed", "?shared"])
    await browser.visit(engines, {}, search);
  const [first, ...others] = browser.kept;
  assert.ok(first?.startsWith(cachePrefix(base)));
  assert.deepEqual(others, []);
  browser.host = { ...engines, "index.html": "a newer page" };
  await browser.visit(browser.host, {});
  assert.equal(browser.kept.length, 1);
  assert.notEqual(browser.kept[0], first);
});

test("a page not isolated by its host is isolated by the worker, with both builds", async () => {
  const relaxed = ["engine-relaxed.wasm", "engine-shared-relaxed.wasm"];
  const plain = ["engine.wasm", "engine-shared.wasm"];
  const scripts = ["engine.js", "engine-shared.js", "index.html"];
  for (const [search, ...kept] of [
    ["?", ...plain],
    ["?relaxed", ...relaxed],
    // The next visit, in a browser that shares memory then.
    ["?shared&relaxed", ...relaxed],
  ] as const) {
    const browser = new Browser();
    browser.host = engines;
    browser.isolates = false;
    const worker = await browser.visit(engines, openCore, search);
    assert.deepEqual(browser.asked.sort(), [...kept, ...scripts].sort());
    browser.host = openCore;
    for (const path of ["index.html", burn]) {
      const response = await worker.hear("fetch", { request: new Request(base + path) });
      assert.deepEqual(Object.fromEntries(response!.headers), {
        "content-type": "text/plain;charset=UTF-8",
        ...isolation,
      });
      assert.equal(await response!.text(), { ...engines, ...openCore }[path]);
    }
  }
});
