/** Members on the CPU in workers of their own: the same answer as in one, at the same time. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { putBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Busy } from "./timed-member-worker.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");

interface Event {
  type: string;
  text?: string;
  ms?: unknown;
}
interface Library {
  Conclave: {
    load(options: object): Promise<{ threads: number; heapBytes: number; ask(messages: object[], options: object): AsyncIterable<Event>; remove(name: string): Promise<void>; close(): void }>;
  };
}

test("three members in three threads answer as in one, and draft and verify at the same time", async (context) => {
  await putBeforeWorker(stand.site, "timed-member-worker.ts", {}, "member-worker");
  const visitor = await Visitor.arrive(stand.browser, stand.site, { serviceWorkers: "block" });
  const { alone, apart, busy } = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(new URL("./conclave.js", document.baseURI).href)) as Library;
    const busy: Busy[] = [];
    const channel = new BroadcastChannel("busy");
    channel.onmessage = ({ data }) => void busy.push(data as Busy);
    const run = async (threads: number) => {
      const conclave = await Conclave.load({ backend: "cpu", threads });
      const heaps = [conclave.heapBytes];
      const events: Event[] = [];
      const messages = [{ role: "user", content: "Tell me a short story about a fox." }];
      for await (const event of conclave.ask(messages, { sampling: { seed: 11 }, settings: { maxRounds: 6 } })) events.push(event);
      const used = conclave.threads;
      await conclave.remove("Ada");
      heaps.push(conclave.heapBytes);
      conclave.close();
      return { threads: used, left: conclave.threads, heaps, events: events.filter(({ type }) => type !== "reading").map((event) => ({ ...event, ms: undefined })) };
    };
    const alone = await run(1);
    const quiet = busy.length;
    const apart = await run(3);
    return { alone, apart, busy: busy.slice(quiet) };
  });
  assert.deepEqual([alone.threads, alone.left, apart.threads, apart.left], [1, 1, 3, 2]);
  assert.ok(apart.heaps[1]! < apart.heaps[0]!, "a thread that ends gives its heap back");
  assert.ok(alone.events.some(({ type }) => type === "round"));
  assert.deepEqual(apart.events, alone.events);

  const threads = new Set(busy.map(({ thread }) => thread));
  assert.equal(threads.size, 3);
  for (const what of ["draft", "verify"]) {
    const all = busy.filter((interval) => interval.what === what);
    const overlap = all.filter((one) => all.some((other) => other.thread !== one.thread && one.from < other.to && other.from < one.to));
    context.diagnostic(`${overlap.length} of ${all.length} times a ${what} ran beside another member's`);
    // One after the other, none does.
    assert.ok(overlap.length > all.length / 2, `${overlap.length} of ${all.length}`);
  }
  visitor.clean();
  await visitor.leave();
  stand.site.overrides.delete("member-worker.js");
});

test("the page says on how many threads its members run", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const cores = await visitor.page.evaluate(() => navigator.hardwareConcurrency);
  const members = await visitor.page.locator(".member .name").count();
  const threads = Math.min(cores, members);
  assert.match((await visitor.page.locator("#engine").textContent()) ?? "", new RegExp(`^CPU, ${threads} thread`));
  visitor.clean();
  await visitor.leave();
});

test("a member's worker that fails is told by the member's name, and one press loads all again", async () => {
  // Fails in a later round, as a trap in the module would.
  const broken = `
    import "./plain-member-worker.js";
    let drafts = 0;
    addEventListener("message", ({ data }) => {
      if (data.type === "draft" && ++drafts === 3) Promise.reject(new Error("unreachable"));
    });`;
  stand.site.overrides.set("plain-member-worker.js", readFileSync(`${dist}member-worker.js`, "utf8"));
  stand.site.overrides.set("member-worker.js", broken);
  const visitor = await Visitor.arrive(stand.browser, stand.site, { serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("maxRounds", "6");
  await visitor.ask("Tell me a short story about a fox.");
  const alert = page.locator(".failure [role=alert]");
  await alert.waitFor();
  assert.match((await alert.textContent()) ?? "", /^(Ada|Quill|Juno): .*thread.*unreachable.*Remove .*reload/);
  assert.notEqual(await visitor.text(), "", "the text so far stays");
  stand.site.overrides.delete("member-worker.js");
  await page.locator(".failure button", { hasText: "CPU" }).click();
  await visitor.state("ready");
  assert.notEqual(await visitor.answer("What is 3 + 4?"), "");
  await visitor.leave();
});

test("closing the engine ends the members' workers with it", async () => {
  stand.site.overrides.set("plain-member-worker.js", readFileSync(`${dist}member-worker.js`, "utf8"));
  stand.site.overrides.set("member-worker.js", 'import "./plain-member-worker.js"; const channel = new BroadcastChannel("alive"); setInterval(() => channel.postMessage(0), 20);');
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "bench.html", loaded: false, serviceWorkers: "block" });
  await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(new URL("./conclave.js", document.baseURI).href)) as Library;
    const conclave = await Conclave.load({ backend: "cpu", threads: 2 });
    let last = 0;
    const channel = new BroadcastChannel("alive");
    channel.onmessage = () => void (last = performance.now());
    const heard = async (): Promise<void> => {
      while (performance.now() - last > 100) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    const silent = async (): Promise<void> => {
      while (performance.now() - last < 1000) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await heard();
    conclave.close();
    await silent();
  });
  for (const file of ["member-worker.js", "plain-member-worker.js"]) stand.site.overrides.delete(file);
  visitor.clean();
  await visitor.leave();
});
