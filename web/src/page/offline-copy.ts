/** Registers the service worker that makes the page work offline, and reports new versions. */
import { takesRelaxedSimd } from "../protocol/relaxed-simd.ts";
import { mayShareMemory } from "../protocol/shared-memory.ts";
import { cachePrefix } from "./offline-caches.ts";

interface OfflineEvents {
  /** A newer version is ready; `take` activates it and reloads. */
  onUpdate: (take: () => void) => void;
}

/** Undefined over plain http; some browsers with storage disabled throw at the name. */
function serviceWorkers(): ServiceWorkerContainer | undefined {
  try {
    return navigator.serviceWorker;
  } catch {
    return undefined;
  }
}

/**
 * Whether the caches are of more than one version. A worker of the same version waits, too, if the
 * builds in its address have changed: where the host does not isolate the page, the worker does so
 * from the second visit on, and a hard reload passes by the worker. It takes over in silence, with
 * the same cache.
 */
async function hasOtherVersion({ scope }: ServiceWorkerRegistration): Promise<boolean> {
  const names = await caches.keys().catch((): string[] => []);
  return names.filter((name) => name.startsWith(cachePrefix(scope))).length > 1;
}

/** Without service workers the page needs the network, as before. */
export async function keepOffline({ onUpdate }: OfflineEvents): Promise<void> {
  const workers = serviceWorkers();
  if (!workers) return;
  let took = false;
  // The first worker also takes control, which changes nothing for the visitor.
  let controlled = workers.controller !== null;
  workers.addEventListener("controllerchange", () => {
    if (took) location.reload();
    // Another tab activated the new version; this one's files are gone.
    else if (controlled) onUpdate(() => location.reload());
    controlled = true;
  });
  // Makes it keep the engine build that this page starts.
  const builds = [
    ...(mayShareMemory() ? ["shared"] : []),
    ...(takesRelaxedSimd() ? ["relaxed"] : []),
  ];
  const worker = new URL(`./offline.js?${builds.join("&")}`, document.baseURI);
  // Deferred in favour of what the visitor waits for; a failure only costs the offline copy.
  const registration = await workers
    .register(worker, { updateViaCache: "none" })
    .catch(() => undefined);
  if (!registration) return;
  const offer = async (): Promise<void> => {
    // In WebKit the first worker may also wait a moment while it already controls the page; it
    // replaces none.
    if (!registration.waiting || !registration.active || !workers.controller) return;
    if (!(await hasOtherVersion(registration))) return;
    onUpdate(() => {
      took = true;
      // By now it may be another one, or have activated by itself.
      if (registration.waiting) registration.waiting.postMessage("activate");
      else location.reload();
    });
  };
  registration.addEventListener("updatefound", () => {
    registration.installing?.addEventListener("statechange", () => void offer());
  });
  await offer();
}

const toldUsed = new Set<string>();

/**
 * Keeps files that not every visit needs, by the beginnings of their names: a first visit may have
 * fetched them before the service worker was active.
 */
export async function keepUsed(...names: string[]): Promise<void> {
  const workers = serviceWorkers();
  const untold = names.filter((name) => !toldUsed.has(name));
  if (!workers || untold.length === 0) return;
  for (const name of untold) toldUsed.add(name);
  (await workers.ready).active?.postMessage({ keep: untold });
}

/** Whether an earlier visit kept the open core. */
export async function hasOpenCore(): Promise<boolean> {
  const module = new URL("./open-core.wasm", document.baseURI);
  try {
    const kept: CacheStorage | undefined = globalThis.caches;
    return (await kept?.match(module, { ignoreSearch: true })) !== undefined;
  } catch {
    return false;
  }
}
