/**
 * Registers the service worker that lets the page open with the network off, and tells of new
 * versions.
 */
import { takesRelaxedSimd } from "../protocol/relaxed-simd.ts";
import { mayShareMemory } from "../protocol/shared-memory.ts";

export interface OfflineEvents {
  /** A newer version of the page lies ready; `take` puts it in place and reloads. */
  onUpdate: (take: () => void) => void;
}

/**
 * Undefined over plain http; where a visitor lets pages store nothing some browsers throw at the
 * name.
 */
function serviceWorkers(): ServiceWorkerContainer | undefined {
  try {
    return navigator.serviceWorker;
  } catch {
    return undefined;
  }
}

/** Where there are no service workers the page works as it did, with the network on. */
export async function keepOffline({ onUpdate }: OfflineEvents): Promise<void> {
  const workers = serviceWorkers();
  if (!workers) return;
  let took = false;
  // The first worker also takes control: nothing changed for the visitor then.
  let controlled = workers.controller !== null;
  workers.addEventListener("controllerchange", () => {
    if (took) location.reload();
    // Another tab took the new version; this one's files are gone.
    else if (controlled) onUpdate(() => location.reload());
    controlled = true;
  });
  // It keeps the engine that this page starts.
  const builds = [
    ...(mayShareMemory() ? ["shared"] : []),
    ...(takesRelaxedSimd() ? ["relaxed"] : []),
  ];
  const worker = new URL(`./offline.js?${builds.join("&")}`, document.baseURI);
  // Out of the way of what the visitor waits for; a failure costs only the offline copy.
  const registration = await workers
    .register(worker, { updateViaCache: "none" })
    .catch(() => undefined);
  if (!registration) return;
  const offer = (): void => {
    // In WebKit the first one may wait a moment as well, and control the page already: it takes the
    // place of none.
    if (!registration.waiting || !registration.active || !workers.controller) return;
    onUpdate(() => {
      took = true;
      // By now it may be another one, or have taken over by itself.
      if (registration.waiting) registration.waiting.postMessage("activate");
      else location.reload();
    });
  };
  offer();
  registration.addEventListener("updatefound", () => {
    registration.installing?.addEventListener("statechange", offer);
  });
}

let toldUsed = false;

/**
 * Has the open core kept as well. A first visit may have fetched it before there was a service
 * worker to see it.
 */
export async function keepOpenCore(): Promise<void> {
  const workers = serviceWorkers();
  if (!workers || toldUsed) return;
  toldUsed = true;
  (await workers.ready).active?.postMessage("keep used");
}

/** Whether an earlier visit has kept the open core. */
export async function hasOpenCore(): Promise<boolean> {
  const module = new URL("./open-core.wasm", document.baseURI);
  try {
    const kept: CacheStorage | undefined = globalThis.caches;
    return (await kept?.match(module, { ignoreSearch: true })) !== undefined;
  } catch {
    return false;
  }
}
