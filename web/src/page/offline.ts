/**
 * The service worker: keeps the page's own files, so that it opens with the network off. The build
 * writes in which files those are, each with its SHA-256; any change of one makes a new worker. It
 * answers for these files alone: models and requests to other hosts never pass through its cache.
 *
 * A new version is fetched beside the running one and takes over when its last page has closed, or
 * when a page asks for it ("activate"): one page never mixes files of two versions.
 */

/** Path relative to the worker to SHA-256 in hex, put in by scripts/build.mjs. */
declare const OFFLINE_FILES: Record<string, string>;

/** The part of ServiceWorkerGlobalScope that is used here. */
interface Scope {
  readonly registration: { readonly scope: string };
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: { waitUntil(done: Promise<unknown>): void }) => void): void;
  addEventListener(type: "fetch", listener: (event: { request: Request; respondWith(response: Promise<Response>): void }) => void): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
}

const scope = globalThis as unknown as Scope;
const base = new URL(scope.registration.scope);
/** Other pages of this origin may have caches of their own: ours bear the folder's name. */
const prefix = `conclave ${base.pathname} `;

const hex = (bytes: ArrayBuffer): string => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes: BufferSource): Promise<string> => hex(await crypto.subtle.digest("SHA-256", bytes));
const cacheName = async (): Promise<string> => prefix + (await digest(new TextEncoder().encode(JSON.stringify(OFFLINE_FILES))));

/** A file by its content: what an earlier version has is not fetched again. */
const keyOf = (path: string): string => `${new URL(path, base).href}?sha256=${OFFLINE_FILES[path]}`;

async function keep(cache: Cache, path: string): Promise<void> {
  const key = keyOf(path);
  const known = await caches.match(key);
  if (known) return cache.put(key, known);
  // Past the browser's own cache, which may hold an older version of it.
  const response = await fetch(new URL(path, base), { cache: "no-cache" });
  const body = await response.arrayBuffer();
  if (!response.ok || (await digest(body)) !== OFFLINE_FILES[path]) {
    throw new Error(`${path} is not of this version; the next visit tries again`);
  }
  // A response of its own: one that came by a redirect may not answer a navigation.
  const headers = new Headers(response.headers);
  headers.delete("content-encoding"); // the body is unpacked already
  headers.delete("content-length");
  await cache.put(key, new Response(body, { headers }));
}

async function install(): Promise<void> {
  const cache = await caches.open(await cacheName());
  for (const path of Object.keys(OFFLINE_FILES)) await keep(cache, path);
}

async function activate(): Promise<void> {
  const present = await cacheName();
  const older = (await caches.keys()).filter((name) => name.startsWith(prefix) && name !== present);
  await Promise.all(older.map((name) => caches.delete(name)));
  await scope.clients.claim();
}

/** The file a request is for, or undefined where it is none of the page's own. */
function own(request: Request): string | undefined {
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return undefined;
  const path = decodeURIComponent(url.pathname.slice(base.pathname.length)) || "index.html";
  return Object.hasOwn(OFFLINE_FILES, path) ? path : undefined;
}

async function answer(request: Request, path: string): Promise<Response> {
  const kept = await (await caches.open(await cacheName())).match(keyOf(path));
  return kept ?? fetch(request);
}

scope.addEventListener("install", (event) => event.waitUntil(install()));
scope.addEventListener("activate", (event) => event.waitUntil(activate()));
scope.addEventListener("message", ({ data }) => {
  if (data === "activate") void scope.skipWaiting();
});
scope.addEventListener("fetch", (event) => {
  const path = own(event.request);
  if (path !== undefined) event.respondWith(answer(event.request, path));
});
