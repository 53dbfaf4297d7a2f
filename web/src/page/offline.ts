/**
 * The service worker: keeps the page's own files, so that it opens with the network off. The build
 * writes in which files those are, each with its SHA-256; any change of one makes a new worker. It
 * answers for these files alone: models and requests to other hosts never pass through its cache.
 * What not every visitor needs, the open core and the grammars, is kept from its first use on, and
 * not asked for before; of the engine's builds the one that the page starts, as its query says.
 *
 * A new version is fetched beside the running one and takes over when its last page has closed, or
 * when a page asks for it ("activate"): one page never mixes files of two versions.
 */

/** Path relative to the worker to SHA-256 in hex, put in by scripts/build.mjs. */
declare const OFFLINE_FILES: Record<string, string>;
/** Likewise those that are kept once they were used. */
declare const OFFLINE_ONCE_USED: Record<string, string>;

/** The part of ServiceWorkerGlobalScope that is used here. */
interface Scope {
  readonly location: { readonly search: string };
  readonly registration: { readonly scope: string };
  readonly clients: { claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(
    type: "install" | "activate",
    listener: (event: { waitUntil(done: Promise<unknown>): void }) => void,
  ): void;
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void;
  addEventListener(
    type: "message",
    listener: (event: { data: unknown; waitUntil(done: Promise<unknown>): void }) => void,
  ): void;
}

interface Fetching {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
  waitUntil(done: Promise<unknown>): void;
}

const scope = globalThis as unknown as Scope;
const digests: Record<string, string> = { ...OFFLINE_FILES, ...OFFLINE_ONCE_USED };
/**
 * What files of builds that not every page starts have in their names:
 * `engine-shared-relaxed.wasm`.
 */
const builds = /(-(?:shared|relaxed))+(?=\.(js|wasm)$)/;
const started = scope.location.search.slice(1).split("&");
const mayStart = (path: string): boolean =>
  (builds.exec(path)?.[0] ?? "")
    .split("-")
    .every((build) => build === "" || started.includes(build));
/**
 * Files of builds that this page does not start: of those that it may it starts the most special
 * one.
 */
const unused = (path: string): boolean => {
  const others = Object.keys(digests).filter(
    (other) => other.replace(builds, "") === path.replace(builds, "") && mayStart(other),
  );
  return !mayStart(path) || others.some((other) => other.length > path.length);
};
const base = new URL(scope.registration.scope);
/** Other pages of this origin may have caches of their own: ours bear the folder's name. */
const prefix = `conclave ${base.pathname} `;

const hex = (bytes: ArrayBuffer): string =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes: BufferSource): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", bytes));
const cacheName = async (): Promise<string> =>
  prefix + (await digest(new TextEncoder().encode(JSON.stringify(digests))));

/** A file by its content: what an earlier version has is not fetched again. */
const keyOf = (path: string): string => `${new URL(path, base).href}?sha256=${digests[path]}`;

/** Past the browser's own cache, which may hold an older version of it. */
const fetched = (path: string): Promise<Response> =>
  fetch(new URL(path, base), { cache: "no-cache" });

async function keep(cache: Cache, path: string): Promise<void> {
  const key = keyOf(path);
  const known = await caches.match(key);
  if (known) return cache.put(key, known);
  await put(cache, path, await fetched(path));
}

/** Keeps what was fetched, if it is of this version. */
async function put(cache: Cache, path: string, response: Response): Promise<void> {
  const body = await response.arrayBuffer();
  if (!response.ok || (await digest(body)) !== digests[path]) {
    throw new Error(`${path} is not of this version; the next visit tries again`);
  }
  // A response of its own: one that came by a redirect may not answer a navigation.
  const headers = new Headers(response.headers);
  headers.delete("content-encoding"); // the body is unpacked already
  headers.delete("content-length");
  await cache.put(keyOf(path), new Response(body, { headers }));
}

async function install(): Promise<void> {
  const cache = await caches.open(await cacheName());
  for (const path of Object.keys(OFFLINE_FILES)) if (!unused(path)) await keep(cache, path);
  for (const path of Object.keys(OFFLINE_ONCE_USED)) if (await used(path)) await keep(cache, path);
}

/**
 * Whether an earlier version kept this file: whoever uses it has it in the new one from the start.
 */
const used = async (path: string): Promise<boolean> =>
  (await caches.match(new URL(path, base).href, { ignoreSearch: true })) !== undefined;

/** Keeps what was used before there was a worker that could have kept it. */
async function keepUsed(): Promise<void> {
  const cache = await caches.open(await cacheName());
  for (const path of Object.keys(OFFLINE_ONCE_USED))
    if (!(await cache.match(keyOf(path)))) await keep(cache, path);
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
  if (
    request.method !== "GET" ||
    url.origin !== base.origin ||
    !url.pathname.startsWith(base.pathname)
  )
    return undefined;
  const path = decodeURIComponent(url.pathname.slice(base.pathname.length)) || "index.html";
  return Object.hasOwn(digests, path) ? path : undefined;
}

async function answer(event: Fetching, path: string): Promise<Response> {
  const cache = await caches.open(await cacheName());
  const kept = await cache.match(keyOf(path));
  if (kept) return kept;
  if (!Object.hasOwn(OFFLINE_ONCE_USED, path)) return fetch(event.request);
  const response = await fetched(path);
  // Beside the answer, which goes to the page as it comes; what is not of this version the next use
  // fetches again.
  event.waitUntil(put(cache, path, response.clone()).catch(() => undefined));
  return response;
}

scope.addEventListener("install", (event) => event.waitUntil(install()));
scope.addEventListener("activate", (event) => event.waitUntil(activate()));
scope.addEventListener("message", (event) => {
  if (event.data === "activate") void scope.skipWaiting();
  // The next use tries again.
  if (event.data === "keep used") event.waitUntil(keepUsed().catch(() => undefined));
});
scope.addEventListener("fetch", (event) => {
  const path = own(event.request);
  if (path !== undefined) event.respondWith(answer(event, path));
});
