/** Members on the CPU in workers of their own: the same answer as in one, concurrently. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { ConclaveEvent } from "../../src/library/conclave.ts";
import { putBeforeWorker, putNothingBeforeWorker, runBeforeWorker } from "./before-worker.ts";
import { writeModel } from "./generated-model.ts";
import { stage } from "./stage.ts";
import type { Busy } from "./timed-member-worker.ts";

const stand = stage("none");

type Library = typeof import("../../src/library/conclave.ts");
type Events = (Omit<ConclaveEvent, "ms"> & { ms: undefined })[];

test("three members in three threads answer as in one, at the same time", async (context) => {
  await putBeforeWorker(stand.site, "timed-member-worker.ts", {}, "conclave member");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { alone, apart, busy } = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const busy: Busy[] = [];
    const channel = new BroadcastChannel("busy");
    channel.onmessage = ({ data }) => void busy.push(data as Busy);
    const run = async (threads: number) => {
      const conclave = await Conclave.load({ backend: "cpu", threads });
      const heaps = [conclave.heapBytes];
      const events: ConclaveEvent[] = [];
      const messages = [{ role: "user" as const, content: "Tell me a short story about a fox." }];
      for await (const event of conclave.ask(messages, {
        sampling: { seed: 11 },
        settings: { maxRounds: 6 },
      }))
        events.push(event);
      const used = conclave.threads;
      await conclave.remove("Ada");
      heaps.push(conclave.heapBytes);
      conclave.close();
      return {
        threads: used,
        left: conclave.threads,
        heaps,
        events: events
          .filter(({ type }) => type !== "reading")
          .map((event) => ({ ...event, ms: undefined })),
      };
    };
    const alone = await run(1);
    const quiet = busy.length;
    const apart = await run(3);
    return { alone, apart, busy: busy.slice(quiet) };
  });
  // The thread of a removed member helps another.
  assert.deepEqual([alone.threads, alone.left, apart.threads, apart.left], [1, 1, 3, 3]);
  assert.ok(apart.heaps[1]! < apart.heaps[0]!, "a thread that ends gives its heap back");
  assert.ok(alone.events.some(({ type }) => type === "round"));
  assert.deepEqual(apart.events, alone.events);

  const threads = new Set(busy.map(({ thread }) => thread));
  assert.equal(threads.size, 3);
  for (const what of ["draft", "verify"]) {
    const all = busy.filter((interval) => interval.what === what);
    const overlap = all.filter((one) =>
      all.some(
        (other) => other.thread !== one.thread && one.from < other.to && other.from < one.to,
      ),
    );
    context.diagnostic(
      `${overlap.length} of ${all.length} times a ${what} ran beside another member's`,
    );
    // In turn there is no overlap.
    assert.ok(overlap.length > all.length / 2, `${overlap.length} of ${all.length}`);
  }
  await visitor.leaveClean();
  putNothingBeforeWorker(stand.site);
});

/** Large enough that threads share its work. */
const shape = {
  layers: 4,
  hidden: 512,
  heads: 8,
  kvHeads: 4,
  feedForward: 1536,
  vocabulary: 24_576,
};

test("on shared memory a member computes on several threads, and answers as on one", async () => {
  const folder = await mkdtemp(join(tmpdir(), "conclave-threads-"));
  const path = join(folder, "member.gguf");
  await writeModel(path, shape);
  const lines = `const helps = new BroadcastChannel("helps");
    helps.onmessage = ({ data }) => data === "there?" && helps.postMessage("there");
    helps.postMessage("here");`;
  runBeforeWorker(stand.site, lines, "conclave helper");
  const run = async (
    threads: number,
  ): Promise<{
    isolated: boolean;
    threads: number;
    helpers: number;
    modules: string[];
    events: Events;
  }> => {
    const visitor = await stand.arrive({
      search: "bench.html",
      loaded: false,
      serviceWorkers: "block",
    });
    const modules: string[] = [];
    visitor.page.on(
      "request",
      (request) =>
        void (
          request.url().endsWith(".wasm") && modules.push(/[^/]+\/[^/]+$/.exec(request.url())![0])
        ),
    );
    await visitor.offer(path);
    const told = await visitor.page.evaluate(async (threads) => {
      const { Conclave } = (await import(
        new URL("./library/conclave.js", document.baseURI).href
      )) as Library;
      const said: string[] = [];
      const helps = new BroadcastChannel("helps");
      helps.onmessage = ({ data }) => void said.push(data as string);
      const conclave = await Conclave.open({ backend: "cpu", threads });
      await conclave.add(
        {
          name: "One",
          files: [...(document.querySelector("#offered") as HTMLInputElement).files!],
        },
        { contextTokens: 512 },
      );
      const used = conclave.threads;
      const eachSays = async (word: string): Promise<void> => {
        while (said.filter((each) => each === word).length < used - 1)
          await new Promise((resolve) => setTimeout(resolve, 20));
      };
      await eachSays("here");
      const events: ConclaveEvent[] = [];
      const messages = [
        { role: "user" as const, content: "Tell me a short story about a fox. ".repeat(3) },
      ];
      for await (const event of conclave.ask(messages, {
        sampling: { temperature: 0, seed: 3 },
        settings: { maxRounds: 4 },
      }))
        events.push(event);
      // Without a pass their event loops run, which a service worker waits for in Firefox.
      helps.postMessage("there?");
      await eachSays("there");
      conclave.close();
      return {
        isolated: crossOriginIsolated,
        threads: used,
        helpers: said.filter((word) => word === "here").length,
        events: events
          .filter(({ type }) => type !== "reading")
          .map((event) => ({ ...event, ms: undefined })),
      };
    }, threads);
    await visitor.leaveClean();
    return { ...told, modules };
  };
  try {
    const [apart, alone] = [await run(3), await run(1)];
    const plain = await stand.site.withoutIsolation(() => run(3));
    const how = ({ isolated, threads, helpers, modules }: typeof apart): unknown[] => [
      isolated,
      threads,
      helpers,
      modules,
    ];
    assert.deepEqual(how(apart), [true, 3, 2, ["library/engine-shared-relaxed.wasm"]]);
    assert.deepEqual(how(alone), [true, 1, 0, ["library/engine-shared-relaxed.wasm"]]);
    assert.deepEqual(how(plain), [false, 1, 0, ["library/engine-relaxed.wasm"]]);
    assert.ok(apart.events.filter(({ type }) => type === "round").length === 4);
    assert.deepEqual(apart.events, alone.events);
    assert.deepEqual(apart.events, plain.events);
  } finally {
    putNothingBeforeWorker(stand.site);
    await rm(folder, { recursive: true });
  }
});

test("the page says on how many threads its members run", async () => {
  const visitor = await stand.arrive();
  const cores = await visitor.page.evaluate(() => navigator.hardwareConcurrency);
  const members = await visitor.page.locator(".member .name").count();
  const threads = Math.min(cores, members);
  assert.match(
    (await visitor.page.locator("#engine").textContent()) ?? "",
    new RegExp(`^CPU, ${threads} thread`),
  );
  await visitor.leaveClean();
});

test("a worker that fails is told by its member's name, and one press loads all", async () => {
  // Fails in a later round, like a trap in the module.
  const broken = `
    let drafts = 0;
    addEventListener("message", ({ data }) => {
      if (data.type === "draft" && ++drafts === 3) Promise.reject(new Error("unreachable"));
    });`;
  runBeforeWorker(stand.site, broken, "conclave member");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const { page } = visitor;
  await visitor.set("seed", "11");
  await visitor.set("maxRounds", "6");
  await visitor.ask("Tell me a short story about a fox.");
  const alert = page.locator(".failure [role=alert]");
  await alert.waitFor();
  assert.match(
    (await alert.textContent()) ?? "",
    /^(Ada|Quill|Juno): .*thread.*unreachable.*Remove .*reload/,
  );
  assert.notEqual(await visitor.text(), "", "the text so far stays");
  putNothingBeforeWorker(stand.site);
  await page.locator(".failure button", { hasText: "CPU" }).click();
  await visitor.state("ready");
  assert.notEqual(await visitor.answer("What is 3 + 4?"), "");
  await visitor.leave();
});

test("closing the engine ends the members' workers with it", async () => {
  runBeforeWorker(
    stand.site,
    'const channel = new BroadcastChannel("alive"); setInterval(() => channel.postMessage(0), 20);',
    "conclave member",
  );
  const visitor = await stand.arrive({
    search: "bench.html",
    loaded: false,
    serviceWorkers: "block",
  });
  await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu", threads: 2 });
    let last = 0;
    const channel = new BroadcastChannel("alive");
    channel.onmessage = () => void (last = performance.now());
    const heard = async (): Promise<void> => {
      while (performance.now() - last > 100)
        await new Promise((resolve) => setTimeout(resolve, 20));
    };
    const silent = async (): Promise<void> => {
      while (performance.now() - last < 1000)
        await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await heard();
    conclave.close();
    await silent();
  });
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});
