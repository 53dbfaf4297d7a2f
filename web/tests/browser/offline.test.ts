/** The page offline: its own files come from its service worker, and nothing else does. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { dist, stage } from "./stage.ts";

const stand = stage("none");

test("after one visit the page opens and answers with the network off", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.offlineCopy();
  await page.context().setOffline(true);
  await page.reload();
  await visitor.state("ready");
  await visitor.set("maxRounds", "1");
  assert.notEqual(await visitor.answer("What is 347 + 586?"), "");
  assert.equal(
    await page.evaluate(() =>
      fetch("./nowhere.json").then(
        () => "came",
        () => "failed",
      ),
    ),
    "failed",
  );
  visitor.complaints.length = 0; // The failed fetch.
  await visitor.leave();
});

test("only the page's own files are kept, under its own folder", async () => {
  const visitor = await stand.arrive();
  await visitor.offlineCopy();
  await visitor.page.evaluate(() => fetch("./members/nowhere.gguf").catch(() => undefined));
  const kept = await visitor.page.evaluate(async () => {
    const names = await caches.keys();
    return {
      names,
      addresses: (await (await caches.open(names[0]!)).keys()).map(({ url }) => url),
    };
  });
  assert.equal(kept.names.length, 1);
  for (const needed of [
    "index.html",
    "page.js",
    "engine-shared.js",
    "style.css",
    "catalogue.json",
    "engine-shared-relaxed.wasm",
    "members/members.json",
  ]) {
    assert.equal(
      kept.addresses.filter(
        (address) => new URL(address).pathname === new URL(needed, stand.site.address).pathname,
      ).length,
      1,
      needed,
    );
  }
  for (const address of kept.addresses)
    assert.ok(
      address.startsWith(stand.site.address) &&
        !/nowhere|pkg-burn|pkg\/conclave|engine-shared\.wasm/.test(address),
      address,
    );
  await visitor.leave();
});

test("a new version waits, is offered, and takes over whole; the old one is gone", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.offlineCopy();
  const html = (await readFile(`${dist}index.html`, "utf8")).replace(
    "<title>Conclave</title>",
    "<title>Conclave, newer</title>",
  );
  // A half-finished deployment: the worker is there, the file it names is not.
  stand.site.overrides.set("offline.js", stand.site.workerFor("index.html", html));
  await page.reload();
  await visitor.state("ready");
  await page.evaluate(
    async () => void (await (await navigator.serviceWorker.ready).update().catch(() => undefined)),
  );
  assert.equal(await page.title(), "Conclave");
  assert.equal(await page.locator('[data-key="update"]').count(), 0);

  stand.site.overrides.set("index.html", html);
  await page.reload();
  const notice = page.locator('[data-key="update"]');
  await notice.waitFor();
  assert.equal(await page.title(), "Conclave", "the running version stays until it is let go");
  // A worker is not replaced while it still serves files.
  await visitor.state("ready");
  await notice.getByRole("button", { name: "Reload" }).click();
  await page.waitForFunction(() => document.title === "Conclave, newer");
  await visitor.state("ready");
  assert.equal(await page.evaluate(async () => (await caches.keys()).length), 1);
  stand.site.overrides.clear();
  await visitor.leaveClean();
});

test("without headers the page is isolated from the second visit on, also offline", async () => {
  await stand.site.withoutIsolation(async () => {
    const visitor = await stand.arrive();
    const { page } = visitor;
    const isIsolated = (): Promise<boolean> => page.evaluate(() => crossOriginIsolated);
    assert.equal(await isIsolated(), false);
    await visitor.offlineCopy();
    await page.addInitScript(noteRegistration);
    for (const offline of [false, true]) {
      await page.context().setOffline(offline);
      await page.reload();
      await visitor.state("ready");
      assert.equal(await isIsolated(), true);
      assert.match(await visitor.answer("What is 347 + 586?"), /933/);
      // Only the worker's address has changed, not the version.
      await page.evaluate(async () => {
        const worker = (await (globalThis as Noted).registered)?.installing;
        while (worker?.state === "installing")
          await new Promise((resolve) => setTimeout(resolve, 50));
        // So long the page may take to look for another version.
        await caches.keys();
        await new Promise((resolve) => setTimeout(resolve, 100));
      });
      assert.equal(await page.locator('[data-key="update"]').count(), 0);
    }
    await visitor.leave();
  });
});

/** A page with its registration, undefined if that failed. */
type Noted = typeof globalThis & { registered?: Promise<ServiceWorkerRegistration | undefined> };

/** In the page, which asks for its registration some time after it has opened. */
function noteRegistration(): void {
  const { serviceWorker } = navigator;
  const register = serviceWorker.register.bind(serviceWorker);
  (globalThis as Noted).registered = new Promise((resolve) => {
    serviceWorker.register = (...asked) => {
      const registration = register(...asked);
      registration.then(resolve, () => resolve(undefined));
      return registration;
    };
  });
}
