/** Opening the engine, and adding members to it, through the real protocol. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { RememberedChoices } from "./remembered-choices.ts";
import { Conclave } from "../library/conclave.ts";
import { Download } from "../protocol/errors.ts";
import { MemoryShelf } from "../store/shelf.ts";
import { begun, collect, file, hello, open, stage, talker, settle } from "../testing/staged.ts";

test("a broken file leaves the member that it should replace in its place", async () => {
  const { conclave, journal } = await open({ Ada: talker });
  await assert.rejects(
    conclave.add({ name: "Broken", files: [new Blob([])] }, { replace: "Ada" }),
    { name: "ModelFile" },
  );
  assert.deepEqual(
    conclave.members.map((member) => member.name),
    ["Ada"],
  );
  assert.ok(!journal.includes("Ada free"));
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("who stops a load is answered while the engine builds; the member never joins", async () => {
  for (const cores of [1, 2]) {
    let built = (): void => {};
    const made = stage({ Ada: talker, Bo: talker }, cores, {
      building: new Promise((resolve) => (built = resolve)),
    });
    const conclave = await Conclave.open({ backend: "cpu" }, made.port);
    const controller = new AbortController();
    const adding = conclave.add({ name: "Ada", files: [file] }, { signal: controller.signal });
    await settle();
    controller.abort();
    await assert.rejects(adding, { name: "AbortError" });
    const next = conclave.add({ name: "Bo", files: [file] });
    await settle();
    assert.deepEqual([...made.members.keys()], [], "the engine has it in hand");
    built();
    await next;
    assert.ok(cores === 1 ? made.journal.includes("Ada free") : made.threads[0]!.terminated);
    const begun = (await collect(conclave.ask(hello))).find((event) => event.type === "begin");
    assert.deepEqual(begun?.type === "begin" && begun.members, ["Bo"]);
  }
});

test("an engine is not opened for who has stopped", async () => {
  const { port, journal } = stage({}, 1, { starting: new Promise(() => {}) });
  const controller = new AbortController();
  const opening = Conclave.open({ backend: "cpu", signal: controller.signal }, port);
  await settle();
  controller.abort();
  await assert.rejects(opening, { name: "AbortError" });
  assert.ok(journal.includes("terminate"));
  await assert.rejects(
    Conclave.open({ backend: "cpu", signal: AbortSignal.abort() }, stage({}).port),
    { name: "AbortError" },
  );
});

test("a ninth member is refused, unless it replaces one", async () => {
  const { conclave } = await open(
    Object.fromEntries([..."abcdefgh"].map((name) => [name, talker])),
  );
  await assert.rejects(conclave.add({ name: "ninth", files: [file] }), {
    name: "Settings",
    message: /8 members are the most/,
  });
  await assert.rejects(conclave.add({ name: "ninth", files: [file] }, { replace: "nobody" }), {
    name: "Settings",
    message: /no member called nobody/,
  });
  await conclave.add({ name: "a", files: [file] }, { replace: "a" });
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("two members of one name are refused", async () => {
  const { conclave } = await open({ Ada: talker });
  await assert.rejects(conclave.add({ name: "Ada", files: [file] }), { name: "Settings" });
});

test("kernels are chosen by measure with the first model, and remembered next time", async () => {
  const shelf = new MemoryShelf(true);
  const visit = async (
    names: string[],
    card?: string,
    backend: "webgpu" | "cpu" = "webgpu",
  ): Promise<string[]> => {
    const { port, journal } = stage({ Ada: talker, Bo: talker }, 1, {
      kept: shelf,
      ...(card === undefined ? {} : { card }),
    });
    const conclave = await Conclave.open({ backend }, port);
    for (const name of names) await conclave.add({ name, files: [file] });
    // Runs after the tasks that follow an answer.
    for (const name of names) await conclave.remove(name);
    return journal.filter((entry) => /^(measure|choose)/.test(entry));
  };
  const kept = new RememberedChoices(async () => shelf);
  assert.deepEqual(
    [await visit([]), await visit(["Ada"], "SwiftShader"), await visit(["Ada"], undefined, "cpu")],
    [[], [], []],
  );
  assert.deepEqual(await shelf.list(), [], "nothing is kept of what was not measured");
  assert.deepEqual(await visit(["Ada", "Bo"]), ["measure"]);
  assert.deepEqual(await visit(["Ada", "Bo"]), ['choose {"normInside":false,"asATile":20}']);
  assert.deepEqual(await visit(["Ada"], undefined, "cpu"), []);
  assert.deepEqual(await visit(["Ada"], "other card"), ["measure"]);
  await kept.keep("scripted card 0", { normInside: true });
  assert.deepEqual(await visit(["Ada"]), ["measure"], "those were other kernels");
  assert.deepEqual(await kept.recall("scripted card 1"), { normInside: false, asATile: 20 });
});

test("a removed member is freed and no longer takes part", async () => {
  const { conclave, journal } = await open({ Ada: talker, Bo: talker });
  await conclave.remove("Bo");
  assert.ok(journal.includes("Bo free"));
  const begin = begun(await collect(conclave.ask(hello)));
  assert.deepEqual(begin.members, ["Ada"]);
  await assert.rejects(conclave.remove("Bo"), {
    name: "Settings",
    message: /no member called Bo\. Loaded: Ada\./,
  });
});

test("members keep the order they are listed in, whatever download ends first", async (context) => {
  const { port, members } = stage({ Ada: talker, Bo: talker });
  context.mock.method(globalThis, "fetch", async (url: string) => {
    if (url.endsWith("ada.gguf")) await new Promise((resolve) => setTimeout(resolve, 30));
    return new Response("GGUF");
  });
  const sources = ["Ada", "Bo"].map((name) => ({
    name,
    url: `https://host.test/${name.toLowerCase()}.gguf`,
  }));
  const conclave = await Conclave.load({ backend: "cpu", members: sources }, port);
  assert.deepEqual([...members.keys()], ["Bo", "Ada"], "Bo was here first");
  const begin = begun(await collect(conclave.ask(hello)));
  assert.deepEqual(begin.members, ["Ada", "Bo"]);
});

/** A host that ends a fetch only by the caller's signal, and records the requests. */
function silentHost(context: TestContext): { asked: string[]; ended: string[] } {
  const host = { asked: [] as string[], ended: [] as string[] };
  context.mock.method(globalThis, "fetch", (url: string, { signal }: RequestInit = {}) => {
    host.asked.push(url);
    return new Promise((_, reject) =>
      signal?.addEventListener("abort", () => (host.ended.push(url), reject(signal.reason))),
    );
  });
  return host;
}

const ada = { name: "Ada", url: "https://host.test/ada.gguf" };

/** An engine that opens at `start`, and a host that has every file; `asked` are its requests. */
function waitingEngine(context: TestContext) {
  let start = (): void => {};
  const { port } = stage({ Ada: talker }, 1, {
    starting: new Promise((resolve) => (start = resolve)),
  });
  const asked: string[] = [];
  context.mock.method(
    globalThis,
    "fetch",
    async (url: string) => (asked.push(url), new Response("GGUF")),
  );
  return { port, asked, start: (): void => start() };
}

test("files are fetched while the engine opens", async (context) => {
  const { port, asked, start } = waitingEngine(context);
  let open = false;
  const loading = Conclave.load({ backend: "cpu", members: [ada] }, port).finally(
    () => (open = true),
  );
  await settle();
  assert.deepEqual({ asked, open }, { asked: [ada.url], open: false });
  start();
  assert.equal((await collect((await loading).ask(hello))).at(-1)?.type, "end");
});

test("members can join an engine just started; what it runs on is known later", async (context) => {
  const { port, asked, start } = waitingEngine(context);
  const conclave = Conclave.start({ backend: "cpu" }, port);
  const adding = conclave.add(ada);
  await settle();
  assert.deepEqual(asked, [ada.url]);
  assert.throws(() => conclave.backend, { name: "Engine", message: /not open yet/ });
  start();
  assert.equal((await conclave.ready).backend, "cpu");
  assert.equal((await adding).name, "Ada");
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("where the engine can't open, fetching ends, and that is what is told", async (context) => {
  let fail = (_error: Error): void => {};
  const { port, journal } = stage({ Ada: talker }, 1, {
    starting: new Promise((_, reject) => (fail = reject)),
  });
  const host = silentHost(context);
  const loading = Conclave.load({ backend: "cpu", members: [ada] }, port);
  await settle();
  assert.deepEqual(host, { asked: [ada.url], ended: [] });
  fail(new Download("There is no pkg/. Build it."));
  await assert.rejects(loading, { name: "Download", message: /no pkg/ });
  await settle();
  assert.deepEqual(host.ended, [ada.url]);
  assert.ok(journal.includes("terminate"));
});

test("who adds to an engine that can't open hears why, then and later", async (context) => {
  let fail = (_error: Error): void => {};
  const { port, journal } = stage({ Ada: talker }, 1, {
    starting: new Promise((_, reject) => (fail = reject)),
  });
  const host = silentHost(context);
  const conclave = Conclave.start({ backend: "cpu" }, port);
  const adding = assert.rejects(conclave.add(ada), { name: "Download", message: /no pkg/ });
  await settle();
  fail(new Download("There is no pkg/. Build it."));
  await adding;
  await assert.rejects(conclave.ready, { name: "Download" });
  await assert.rejects(conclave.add(ada), { name: "Download", message: /no pkg/ });
  assert.deepEqual(host.asked, [ada.url], "nothing is fetched for it any more");
  await assert.rejects(collect(conclave.ask(hello)), { name: "Download", message: /no pkg/ });
  conclave.close();
  assert.ok(journal.includes("terminate"));
});

test("models are planned, listed and asked about even if no engine can open", async (context) => {
  let fail = (_error: Error): void => {};
  const { port } = stage({}, 1, { starting: new Promise((_, reject) => (fail = reject)) });
  const sha = "a".repeat(40);
  let answer = (): void => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  context.mock.method(
    globalThis,
    "fetch",
    async () => (
      await answered, Response.json({ sha, siblings: [{ rfilename: "m.gguf", size: 5 }] })
    ),
  );
  const conclave = Conclave.start({ backend: "cpu" }, port);
  const ref = "hf:o/r/m.gguf";
  const under = conclave.plan(ref);
  await settle();
  fail(new Download("There is no pkg/. Build it."));
  await assert.rejects(conclave.ready, { name: "Download" });
  await settle();
  answer();
  for (const plan of [await under, await conclave.plan(ref)])
    assert.deepEqual([plan.bytes, plan.commit], [5, sha]);
  assert.equal(await conclave.latestCommit(ref), sha);
  assert.deepEqual((await conclave.models()).models, []);
  await conclave.deleteModel(ref);
  conclave.close();
  await assert.rejects(conclave.plan(ref), { name: "Engine", message: /closed/ });
});

test("a load that is aborted while the engine opens fetches no further", async (context) => {
  const { port, journal } = stage({ Ada: talker }, 1, { starting: new Promise(() => {}) });
  const host = silentHost(context);
  const controller = new AbortController();
  const loading = Conclave.load(
    { backend: "cpu", members: [ada], signal: controller.signal },
    port,
  );
  await settle();
  controller.abort();
  await assert.rejects(loading, { name: "AbortError" });
  await settle();
  assert.deepEqual(host, { asked: [ada.url], ended: [ada.url] });
  assert.ok(journal.includes("terminate"));
});
