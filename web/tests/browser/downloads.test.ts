/**
 * Downloads in a real Chromium: kept in the origin's private files, resumed, shared by tabs, used
 * offline.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { chromium, type Browser, type BrowserContext } from "playwright-core";
import { survived, reported } from "../faults.ts";
import { Hub, type Fault } from "../hub.ts";
import { BareSite, Tab } from "./tab.ts";
import { launch, plainHost } from "./visitor.ts";

const chunkBytes = 64 << 10;
const weights = randomBytes(15.5 * chunkBytes);
const ref = "hf:owner/model/weights.gguf";
const whole = [
  {
    name: "weights.gguf",
    bytes: weights.length,
    sha256: createHash("sha256").update(weights).digest("hex"),
  },
];

let hub: Hub;
let site: BareSite;
let browser: Browser;
let context: BrowserContext;
before(async () => {
  hub = await Hub.start();
  await hub.put("owner/model/weights.gguf", weights);
  await hub.put("owner/empty/none.gguf", "");
  await hub.put("owner/folder/config.json", "{}");
  await hub.put("owner/folder/tokenizer.json", "{}");
  await hub.put("owner/folder/model.safetensors", weights);
  site = await BareSite.open();
  browser = await launch("none");
});
after(async () => {
  await browser?.close();
  site?.close();
  hub?.stop();
});
beforeEach(async (test) => {
  await hub.reset();
  context = await browser.newContext();
  (test as unknown as { after(task: () => Promise<void>): void }).after?.(() => context.close());
});

/** A tab whose stall timeout only acts with faults: a busy machine may stall, too. */
const arrive = (address = site.address, faults: Fault[] = []): Promise<Tab> =>
  Tab.open(context, address, {
    hub: hub.address,
    chunkBytes,
    stallMs: faults.some(({ kind }) => kind === "stall") ? 2000 : 3_600_000,
  });

test("a model is kept, and works with the network off after a reload", async () => {
  const tab = await arrive();
  assert.ok(tab.persistent, "in the origin's private files");
  assert.deepEqual(await tab.open(ref), whole);
  assert.equal(await hub.sent(), weights.length);
  // A lock may take a moment on a busy machine.
  const phases = new Set(
    (await tab.progress()).map(({ phase }) => phase).filter((phase) => phase !== "waiting"),
  );
  assert.deepEqual([...phases], ["checking", "downloading", "verifying"]);
  const seen = (await hub.seen()).length;
  await tab.reload();
  await context.setOffline(true);
  assert.deepEqual(await tab.open(ref), whole);
  assert.equal((await tab.plan(ref)).stored, weights.length);
  const { models, used } = await tab.list();
  assert.deepEqual(
    models.map(({ ref, complete, stored }) => ({ ref, complete, stored })),
    [{ ref, complete: true, stored: weights.length }],
  );
  assert.ok((used ?? 0) >= weights.length);
  assert.equal((await hub.seen()).length, seen, "no request at all");
  await tab.delete(ref);
  assert.deepEqual((await tab.list()).models, []);
  assert.equal((await tab.failure(ref)).kind, "Download", "it is gone");
});

test("a folder of safetensors is kept as well", async () => {
  const tab = await arrive();
  const files = await tab.open("hf:owner/folder");
  assert.deepEqual(
    files.map(({ name }) => name),
    ["config.json", "tokenizer.json", "model.safetensors"],
  );
  assert.equal(files[2]!.sha256, whole[0]!.sha256);
});

/**
 * Visits of an ordinary window, whose files are on the disk; those of the other tests are in
 * memory.
 */
async function withProfile(
  work: (visit: <T>(task: (tab: Tab) => Promise<T>) => Promise<T>) => Promise<void>,
): Promise<void> {
  const profile = mkdtempSync(join(tmpdir(), "conclave-profile-"));
  try {
    await work(async (task) => {
      const window = await chromium.launchPersistentContext(profile, {
        executablePath: process.env["CONCLAVE_CHROMIUM"] ?? "/usr/bin/chromium",
        args: ["--no-sandbox"],
      });
      try {
        return await task(
          await Tab.open(window, site.address, {
            hub: hub.address,
            chunkBytes,
            stallMs: 3_600_000,
          }),
        );
      } finally {
        await window.close();
      }
    });
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
  }
}

test("what was stored is there after the browser is closed", async () => {
  await withProfile(async (visit) => {
    assert.deepEqual(await visit((tab) => tab.open(ref)), whole);
    await hub.reset();
    assert.deepEqual(await visit((tab) => tab.open(ref)), whole);
    assert.deepEqual(await hub.seen(), []);
  });
});

/** Limits the page's storage; without a size removes the limit. */
async function limit(tab: Tab, quotaSize?: number): Promise<void> {
  const cdp = await tab.page.context().newCDPSession(tab.page);
  await cdp.send("Storage.overrideQuotaForOrigin", {
    origin: new URL(site.address).origin,
    ...(quotaSize === undefined ? {} : { quotaSize }),
  });
}

for (const { name, faults, extra, note } of survived) {
  test(`survived: ${name}`, async () => {
    const tab = await arrive(site.address, faults);
    await hub.break(...faults);
    assert.deepEqual(await tab.open(ref), whole);
    const notes = (await tab.progress()).map((step) => step.note ?? "");
    if (note)
      assert.ok(
        notes.some((said) => note.test(said)),
        `says ${String(note)}: ${[...new Set(notes)].join(" | ")}`,
      );
    if (extra !== undefined)
      assert.equal((await hub.sent()) - weights.length, extra * weights.length);
  });
}

for (const { name, faults, what = ref, says } of reported.filter(({ hidden }) => !hidden)) {
  test(`told: ${name}`, async () => {
    const tab = await arrive(site.address, faults);
    await hub.break(...faults);
    const { kind, message } = await tab.failure(what);
    assert.equal(kind, "Download");
    assert.match(message, says);
    await hub.reset();
    assert.deepEqual(await tab.open(ref), whole, "the next try is not spoilt by it");
  });
}

test("a download goes on after a reload, and fetches no finished chunk again", async () => {
  const tab = await arrive();
  await hub.break({ kind: "stall", skip: 7, times: 0 });
  void tab.open(ref).catch(() => undefined);
  await tab.keeps(7 * chunkBytes);
  await tab.reload();
  assert.equal((await tab.list()).models[0]!.stored, 7 * chunkBytes);
  await hub.reset();
  assert.deepEqual(await tab.open(ref), whole);
  assert.equal(await hub.sent(), weights.length - 7 * chunkBytes);
});

test("a second tab waits, says so, and uses what the first one fetched", async () => {
  const [first, second] = [await arrive(), await arrive()];
  // They would take ten seconds.
  await hub.break({ kind: "slow", bytesPerSecond: 25_000, times: 0 });
  const one = first.open(ref);
  await first.reaches({ phase: "downloading" });
  const two = second.open(ref);
  await second.reaches({ phase: "waiting" });
  await hub.mend();
  assert.deepEqual(await one, whole);
  assert.deepEqual(await two, whole);
  assert.equal(await hub.sent(), weights.length);
  assert.deepEqual([...new Set((await second.progress()).map(({ phase }) => phase))], ["waiting"]);
});

test("a tab that waits takes over where a closed one stopped", async () => {
  const [first, second] = [await arrive(), await arrive()];
  await hub.break({ kind: "stall", skip: 7, times: 0 });
  void first.open(ref).catch(() => undefined);
  await first.keeps(7 * chunkBytes);
  const two = second.open(ref);
  await second.reaches({ phase: "waiting" });
  // The first tab's connections stay stalled, and it requests no others.
  await hub.reset();
  await first.page.close();
  assert.deepEqual(await two, whole);
  assert.equal(
    await hub.sent(),
    weights.length - 7 * chunkBytes,
    "finished chunks were not fetched again",
  );
});

test("a model that another tab downloads can't be deleted", async () => {
  const [first, second] = [await arrive(), await arrive()];
  await hub.break({ kind: "stall", skip: 3, times: 0 });
  const failure = first.failure(ref);
  await first.keeps(chunkBytes);
  await assert.rejects(second.delete(ref), /being downloaded or loaded/);
  await first.stop();
  assert.equal((await failure).kind, "AbortError");
  await second.delete(ref);
});

test("an abort ends at once, keeps finished chunks, and lets go of the files", async () => {
  const tab = await arrive();
  await hub.break({ kind: "stall", skip: 7, times: 0 });
  const failure = tab.failure(ref);
  await tab.keeps(7 * chunkBytes);
  await tab.stop();
  assert.equal((await failure).kind, "AbortError");
  assert.equal((await tab.list()).models[0]!.stored, 7 * chunkBytes);
  assert.equal((await tab.plan(ref)).toReserve, 0, "it has the room for the rest");
  await hub.reset();
  assert.deepEqual(await tab.open(ref), whole);
  assert.equal(await hub.sent(), weights.length - 7 * chunkBytes);
});

test("a file with the wrong digest is never used and never kept", async () => {
  const tab = await arrive();
  await hub.break({ kind: "flip", after: 77, times: 0 });
  const { kind, message } = await tab.failure(ref);
  assert.equal(kind, "Download");
  assert.match(message, /SHA-256.*Nothing of it was kept/);
  const sizes = await tab.page.evaluate(async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(
      "conclave-models",
    );
    const found: number[] = [];
    for await (const folder of root.values()) {
      const part = await (folder as FileSystemDirectoryHandle).getFileHandle("0");
      found.push((await part.getFile()).size);
    }
    return found;
  });
  assert.deepEqual(sizes, []);
});

test("what does not fit is said before a byte comes, whatever the browser promised", async () => {
  await withProfile((visit) =>
    visit(async (tab) => {
      await limit(tab, 500_000);
      const { kind, message } = await tab.failure(ref);
      assert.equal(kind, "Storage");
      assert.match(message, /needs 1\.0 MB more on this machine, and .*Delete stored models/);
      assert.equal(await hub.sent(), 0);
      const { used } = await tab.list();
      assert.ok((used ?? 0) < 10_000, `what was reserved is given back: ${used}`);
      await limit(tab);
      assert.deepEqual(await tab.open(ref), whole);
    }),
  );
});

test("a quota full in mid-download keeps what arrived, and says what is missing", async () => {
  // A private window's files are in memory, and reserve nothing.
  const tab = await arrive();
  await limit(tab, 500_000);
  const { kind, message } = await tab.failure(ref);
  assert.equal(kind, "Storage");
  assert.match(message, /What arrived is kept\. Delete stored models/);
  await limit(tab);
  const { stored } = (await tab.list()).models[0]!;
  assert.ok(stored > 0);
  await hub.reset();
  assert.deepEqual(await tab.open(ref), whole);
  assert.equal(await hub.sent(), weights.length - stored);
});

test("a page without https keeps small models in memory for one loading", async () => {
  const address = new URL(site.address);
  address.hostname = plainHost;
  const tab = await arrive(address.href);
  assert.equal(tab.persistent, false);
  assert.deepEqual(await tab.open(ref), whole);
  assert.deepEqual((await tab.list()).models, []);
});
