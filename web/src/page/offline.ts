/**
 * The service worker: keeps the page's own files, so that it opens offline. The build inserts the
 * list of files with their SHA-256, so that any change makes a new worker. It only answers for
 * these files: models and requests to other hosts never pass through its cache. Files that not
 * every visitor needs (the open core, the grammars, the reader of PDFs) are kept from their first
 * use on; of the engine's builds only the one that the page starts, named in the
 * worker's query.
 *
 * Where the host does not isolate the page (HTML, “Cross-origin opener policies”), this worker
 * does, from the next visit on: threads beyond one a member need it. Then it keeps the builds for
 * both, since not every browser that isolates a page lets it share memory.
 *
 * A new version is fetched beside the running one and takes over when its last page has closed or a
 * page asks for it ("activate"), so that no page mixes files of two versions.
 */
import { cachePrefix } from "./offline-caches.ts";

/** Path relative to the worker to SHA-256 in hex; inserted by scripts/build.mjs. */
declare const OFFLINE_FILES: Record<string, string>;
/** The same, for files kept after their first use. */
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
/** Suffixes of the engine's optional builds: `engine-shared-relaxed.wasm`. */
const builds = /(-(?:shared|relaxed))+(?=\.(js|wasm)$)/;
const started = scope.location.search.slice(1).split("&");
/** Builds that this page would start if its permission to share memory changed. */
const otherwise = started.includes("shared")
  ? started.filter((build) => build !== "shared")
  : [...started, "shared"];
const mayStart = (path: string, builtFor: string[]): boolean =>
  (builds.exec(path)?.[0] ?? "")
    .split("-")
    .every((build) => build === "" || builtFor.includes(build));
/**
 * Whether the file belongs to a build that a page of the capabilities `builtFor` does not start. A
 * page starts the most specialised build that it may.
 */
const unused = (path: string, builtFor: string[]): boolean => {
  const others = Object.keys(digests).filter(
    (other) => other.replace(builds, "") === path.replace(builds, "") && mayStart(other, builtFor),
  );
  return !mayStart(path, builtFor) || others.some((other) => other.length > path.length);
};
const base = new URL(scope.registration.scope);
/** Prefix with the folder's name, since other pages of this origin may have caches. */
const prefix = cachePrefix(base.href);

const hex = (bytes: ArrayBuffer): string =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = async (bytes: BufferSource): Promise<string> =>
  hex(await crypto.subtle.digest("SHA-256", bytes));
const cacheName = async (): Promise<string> =>
  prefix + (await digest(new TextEncoder().encode(JSON.stringify(digests))));

/** Cache key by content, so that an unchanged file is not fetched again. */
const keyOf = (path: string): string => `${new URL(path, base).href}?sha256=${digests[path]}`;

/** Bypasses the HTTP cache, which may hold an older version. */
const fetched = (path: string): Promise<Response> =>
  fetch(new URL(path, base), { cache: "no-cache" });

async function keep(cache: Cache, path: string): Promise<void> {
  const key = keyOf(path);
  const known = await caches.match(key);
  if (known) return cache.put(key, known);
  await put(cache, path, await fetched(path));
}

/** Caches a response if it has this version's digest. */
async function put(cache: Cache, path: string, response: Response): Promise<void> {
  const body = await response.arrayBuffer();
  if (!response.ok || (await digest(body)) !== digests[path]) {
    throw new Error(`${path} is not of this version; the next visit tries again`);
  }
  // A new response: a redirected one may not answer a navigation.
  const headers = new Headers(response.headers);
  headers.delete("content-encoding"); // The body is already decoded.
  headers.delete("content-length");
  await cache.put(keyOf(path), new Response(body, { headers }));
}

/** Response headers of a cross-origin isolated page, and of the files that it may load. */
const isolation = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cross-origin-resource-policy": "same-origin",
};
const isIsolated = ({ headers }: Response): boolean =>
  Object.keys(isolation).every((name) => headers.has(name));

/** The response with the headers that the host left out. */
function isolated(response: Response): Response {
  // A redirect is the browser's to follow.
  if (response.status === 0 || isIsolated(response)) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(isolation))
    if (!headers.has(name)) headers.set(name, value);
  return new Response(response.body, { status, statusText, headers });
}

async function install(): Promise<void> {
  const cache = await caches.open(await cacheName());
  await keep(cache, "index.html");
  const page = await cache.match(keyOf("index.html"));
  const pages = page && isIsolated(page) ? [started] : [started, otherwise];
  for (const path of Object.keys(OFFLINE_FILES))
    if (pages.some((builtFor) => !unused(path, builtFor))) await keep(cache, path);
  for (const path of Object.keys(OFFLINE_ONCE_USED)) if (await used(path)) await keep(cache, path);
}

/** Whether an earlier version kept this file; then the new one keeps it from the start. */
const used = async (path: string): Promise<boolean> =>
  (await caches.match(new URL(path, base).href, { ignoreSearch: true })) !== undefined;

/** Keeps optional files, by the beginnings of their names, used before there was a worker. */
async function keepUsed(names: string[]): Promise<void> {
  const cache = await caches.open(await cacheName());
  for (const path of Object.keys(OFFLINE_ONCE_USED))
    if (names.some((name) => path.startsWith(name)) && !(await cache.match(keyOf(path))))
      await keep(cache, path);
}

async function activate(): Promise<void> {
  const present = await cacheName();
  const older = (await caches.keys()).filter((name) => name.startsWith(prefix) && name !== present);
  await Promise.all(older.map((name) => caches.delete(name)));
  await scope.clients.claim();
}

/** The page's own file that a request is for, if any. */
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
  // Caching runs beside the response, which streams to the page; a file with another digest is
  // fetched again at its next use.
  event.waitUntil(put(cache, path, response.clone()).catch(() => undefined));
  return response;
}

scope.addEventListener("install", (event) => event.waitUntil(install()));
scope.addEventListener("activate", (event) => event.waitUntil(activate()));
scope.addEventListener("message", (event) => {
  if (event.data === "activate") void scope.skipWaiting();
  const { keep } = event.data as { keep?: string[] };
  // The next use tries again.
  if (keep) event.waitUntil(keepUsed(keep).catch(() => undefined));
});
scope.addEventListener("fetch", (event) => {
  const path = own(event.request);
  if (path !== undefined) event.respondWith(answer(event, path).then(isolated));
});
