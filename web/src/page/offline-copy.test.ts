import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { cachePrefix } from "./offline-caches.ts";
import { hasOpenCore, keepOffline } from "./offline-copy.ts";

type Registration = Pick<ServiceWorkerRegistration, "waiting" | "active">;

const before = {
  navigator: Object.getOwnPropertyDescriptor(globalThis, "navigator"),
  document: Object.getOwnPropertyDescriptor(globalThis, "document"),
};
afterEach(() => {
  for (const [name, had] of Object.entries(before)) {
    if (had) Object.defineProperty(globalThis, name, had);
    else Reflect.deleteProperty(globalThis, name);
  }
  Reflect.deleteProperty(globalThis, "caches");
});

const scope = "http://host/some/where/";
const cachesOf = (...versions: string[]): string[] =>
  versions.map((version) => cachePrefix(scope) + version);

/** Whether a newer version is offered for a service worker registration in this state. */
async function isOffered(
  registration: Registration,
  controlled: boolean,
  kept = cachesOf("older", "newer"),
): Promise<boolean> {
  const workers = Object.assign(new EventTarget(), {
    controller: controlled ? {} : null,
    register: async () =>
      Object.assign(new EventTarget(), { installing: null, scope, ...registration }),
  });
  Object.defineProperty(globalThis, "caches", {
    value: { keys: async () => kept },
    configurable: true,
  });
  Object.defineProperty(globalThis, "navigator", {
    value: { serviceWorker: workers },
    configurable: true,
  });
  Object.defineProperty(globalThis, "document", {
    value: { baseURI: "http://host/" },
    configurable: true,
  });
  let offered = false;
  await keepOffline({ onUpdate: () => void (offered = true) });
  return offered;
}

const worker = {} as ServiceWorker;

test("a newer version is offered if it waits for the one in use", async () => {
  assert.ok(await isOffered({ waiting: worker, active: worker }, true));
});

test("a worker of the same version that waits is no newer one", async () => {
  const both = { waiting: worker, active: worker };
  assert.equal(await isOffered(both, true, cachesOf("this one")), false);
  const elsewhere = "conclave /some/where/else/ older";
  assert.equal(await isOffered(both, true, [elsewhere, ...cachesOf("this one")]), false);
});

test("the first version is no newer one, even if it waits and controls the page", async () => {
  assert.equal(await isOffered({ waiting: worker, active: null }, true), false);
  assert.equal(await isOffered({ waiting: null, active: worker }, true), false);
  assert.equal(await isOffered({ waiting: worker, active: null }, false), false);
});

test("where pages may store nothing there is no offline copy, and no failure", async () => {
  const refused = (): never => {
    throw new DOMException("not here", "SecurityError");
  };
  Object.defineProperty(globalThis, "navigator", {
    value: Object.defineProperty({}, "serviceWorker", { get: refused }),
    configurable: true,
  });
  Object.defineProperty(globalThis, "document", {
    value: { baseURI: "http://host/" },
    configurable: true,
  });
  Object.defineProperty(globalThis, "caches", { get: refused, configurable: true });
  await keepOffline({ onUpdate: () => assert.fail("there is nothing to offer") });
  assert.equal(await hasOpenCore(), false);
});
