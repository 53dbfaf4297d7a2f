/**
 * Members in threads of their own: the rounds are the same, and an error in one names its member.
 */
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Conclave, type ConclaveEvent } from "../library/conclave.ts";
import { OutOfMemory } from "../protocol/errors.ts";
import { BlobFiles } from "../protocol/model-files.ts";
import { PortFiles, serveFiles } from "./port-files.ts";
import { settings, type Script } from "../testing/scripted.ts";
import { begun, collect, endless, file, hello, open, stage, talker } from "../testing/staged.ts";

const three = { Ada: talker, Bo: { ...talker, step: 2 }, Cy: talker };

/** Events of an answer without its times. */
const told = (events: ConclaveEvent[]): unknown[] =>
  events.filter(({ type }) => type !== "reading").map((event) => ({ ...event, ms: undefined }));

test("three members on two cores live in two threads, and answer as in one", async () => {
  const alone = await open(three, 1);
  const apart = await open(three, 2);
  assert.equal(alone.threads.length, 0);
  assert.deepEqual(
    apart.threads.map(({ members }) => members),
    [["Ada", "Cy"], ["Bo"]],
  );
  assert.deepEqual([alone.conclave.threads, apart.conclave.threads], [1, 2]);
  assert.equal(apart.conclave.heapBytes, 3 * alone.conclave.heapBytes, "the heaps of all");
  assert.deepEqual(apart.conclave.members, alone.conclave.members);
  for (const question of [hello, hello]) {
    const [one, other] = await Promise.all(
      [alone, apart].map(({ conclave }) =>
        collect(conclave.ask(question, { sampling: { seed: 3 } })),
      ),
    );
    assert.deepEqual(told(other!), told(one!));
  }
  for (const member of apart.members.values())
    assert.deepEqual(member.settings, settings, "a verifier in a thread is told all settings");
});

/** Waits until all queued messages have arrived. */
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

test("where memory is shared, helpers start with their members", async () => {
  const { conclave, threads } = await open(three, 8, { shared: true });
  await settled();
  const helping = threads.map(({ helpers }) => helpers.size);
  assert.deepEqual(helping, [7, 3, 1], "a share of eight threads at the load of each");
  assert.equal(conclave.threads, 8);
  await conclave.remove("Bo");
  assert.equal(conclave.threads, 8, "its cores help the others");
});

test("members that move together share the cores; one that moves alone has all", async () => {
  const { conclave, threads } = await open(three, 8, { shared: true });
  const wanted = async (members: string[]): Promise<number[][]> => {
    await settled();
    for (const thread of threads) thread.wanted.length = 0;
    await collect(conclave.ask(hello, { members }));
    return threads.map(({ wanted }) => [...new Set(wanted)].sort());
  };
  assert.deepEqual(await wanted(["Ada"]), [[7], [], []]);
  // The others' moves end after Ada's, and get her cores meanwhile.
  assert.deepEqual(await wanted(["Ada", "Bo"]), [[3], [3, 7], []]);
  assert.deepEqual(await wanted(["Ada", "Bo", "Cy"]), [[2], [2, 3, 7], [1, 3, 7]]);
});

test("where it is not, nobody helps", async () => {
  const { conclave, threads } = await open(three, 8);
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
  assert.deepEqual([threads.map(({ helpers }) => helpers.size), conclave.threads], [[0, 0, 0], 3]);
});

test("a helper that fails is not started anew, and its member answers", async () => {
  const { conclave, threads } = await open({ Ada: talker }, 4, { shared: true });
  await settled();
  const [thread] = threads as [(typeof threads)[0]];
  assert.equal(thread.helpers.size, 3);
  const [broken] = thread.helpers;
  broken!.onerror?.({ message: "no such file", preventDefault: () => undefined } as ErrorEvent);
  assert.deepEqual([thread.helpers.size, thread.terminated], [2, false]);
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("a thread ends with its last member; what is left runs on", async () => {
  const { conclave, threads, journal } = await open(three, 2);
  await conclave.remove("Bo");
  assert.deepEqual(
    threads.map(({ terminated }) => terminated),
    [false, true],
  );
  assert.equal(conclave.threads, 1);
  await conclave.remove("Ada");
  assert.ok(journal.includes("Ada free"), "the thread of two lives on, and its memory is free");
  assert.deepEqual(
    threads.map(({ terminated }) => terminated),
    [false, true],
  );
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("a file that is no model is a typed error, and leaves no thread behind", async () => {
  const { conclave, threads } = await open({ Ada: talker }, 4);
  await assert.rejects(conclave.add({ name: "Broken", files: [new Blob(["none"])] }), {
    name: "ModelFile",
    message: /begins with none/,
  });
  assert.deepEqual(
    threads.map(({ terminated }) => terminated),
    [false, true],
  );
});

test("errors in mid-answer keep their kind and name the member", async () => {
  const broken = Object.assign(new Error("There is no memory left."), { name: "OutOfMemory" });
  const failing = (call: number): Script => ({
    ...endless,
    failure: { move: "verify", call, error: broken },
  });
  const { conclave } = await open({ Ada: failing(3), Bo: failing(2) }, 2);
  const left: unknown[] = [];
  await assert.rejects(
    async () => {
      for await (const event of conclave.ask(hello))
        if (event.type === "left") left.push([event.member, event.error.kind, event.error.member]);
    },
    { name: "OutOfMemory", member: "Ada", partial: "la " },
  );
  assert.deepEqual(left, [["Bo", "OutOfMemory", "Bo"]]);
});

test("a thread that crashes fails its members' calls by name; the others go on", async () => {
  const { conclave, threads } = await open({ Ada: endless, Bo: endless }, 2);
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { settings: { maxRounds: 8 } })) {
    events.push(event);
    if (event.type === "round" && event.round === 2)
      threads[1]!.port.onerror?.({
        message: "unreachable",
        preventDefault: () => undefined,
      } as ErrorEvent);
  }
  const left = events.find((event) => event.type === "left");
  assert.equal(left?.member, "Bo");
  assert.equal(left?.error.kind, "Engine");
  assert.match(left?.error.message ?? "", /Bo.*unreachable.*Remove Bo, or reload/);
  const end = events.at(-1);
  assert.deepEqual(end?.type === "end" && [end.stop, end.text], ["rounds", "la ".repeat(8)]);
  assert.ok(threads[1]!.terminated);
  await assert.rejects(collect(conclave.ask(hello)), { member: "Bo" });
  const alone = await collect(
    conclave.ask(hello, { members: ["Ada"], settings: { maxRounds: 2 } }),
  );
  assert.equal(alone.at(-1)?.type, "end");
});

test("a trap in a thread is told by the member's name; its module is not used again", async () => {
  const trap = new WebAssembly.RuntimeError("unreachable");
  const { conclave, threads } = await open(
    { Ada: endless, Bo: { ...endless, failure: { move: "draft", call: 2, error: trap } } },
    2,
  );
  const asked = { settings: { maxRounds: 4 } };
  const events = await collect(conclave.ask(hello, asked));
  const left = events.find((event) => event.type === "left");
  assert.equal(left?.member, "Bo");
  assert.equal(left?.error.kind, "Engine");
  assert.match(left?.error.message ?? "", /fault of the engine.*unreachable.*next question/);
  const end = events.at(-1);
  assert.equal(end?.type === "end" && end.text, "la ".repeat(4));
  assert.ok(threads[1]!.terminated, "its memory is free");
  await assert.rejects(collect(conclave.ask(hello, asked)), { name: "Engine", member: "Bo" });
});

test("who finds no memory to read leaves the answer to the others; alone, it is the failure", async () => {
  const error = new OutOfMemory("There is no memory left for Bo.");
  const failure = { move: "begin", call: 1, error } as const;
  const { conclave } = await open({ Ada: talker, Bo: { ...talker, failure } }, 2);
  const events = await collect(conclave.ask(hello));
  const left = events.find((event) => event.type === "left");
  assert.deepEqual(left && [left.member, left.error.kind], ["Bo", "OutOfMemory"]);
  const end = events.at(-1);
  assert.ok(end?.type === "end" && end.text !== "", "Ada answers");
  const alone = await open({ Bo: { ...talker, failure } }, 2);
  await assert.rejects(collect(alone.conclave.ask(hello)), { name: "OutOfMemory", member: "Bo" });
});

test("a trap in the shared module ends the answer at once, with the text so far", async () => {
  const trap = new WebAssembly.RuntimeError("unreachable");
  const { conclave } = await open(
    { Ada: endless, Bo: { ...endless, failure: { move: "draft", call: 3, error: trap } } },
    1,
  );
  const left: unknown[] = [];
  await assert.rejects(
    async () => {
      for await (const event of conclave.ask(hello)) if (event.type === "left") left.push(event);
    },
    { name: "Engine", member: "Bo", partial: "la la " },
  );
  assert.deepEqual(left, []);
});

test("a thread that sends what it should not is ended", async () => {
  const { conclave, threads } = await open({ Ada: endless, Bo: endless }, 2);
  const left: [string, string][] = [];
  for await (const event of conclave.ask(hello, { settings: { maxRounds: 4 } })) {
    if (event.type === "round")
      threads[0]!.port.onmessage?.({ data: { type: "kept", id: "x" } } as MessageEvent);
    if (event.type === "left") left.push([event.member, event.error.message]);
  }
  assert.equal(left.length, 1);
  assert.equal(left[0]![0], "Ada");
  assert.match(left[0]![1], /reply\.id/);
  assert.ok(threads[0]!.terminated);
});

test("a message that can't be read ends a thread, and the line to the library", async () => {
  const { conclave, threads, port } = await open({ Ada: endless, Bo: endless }, 2);
  const left: string[] = [];
  for await (const event of conclave.ask(hello, { settings: { maxRounds: 3 } })) {
    if (event.type === "round") threads[0]!.port.onmessageerror?.({} as MessageEvent);
    if (event.type === "left") left.push(`${event.member}: ${event.error.message}`);
  }
  assert.equal(left.length, 1);
  assert.match(left[0]!, /^Ada: .*can't be read/);
  const answer = collect(conclave.ask(hello, { members: ["Bo"] }));
  setTimeout(() => port.onmessageerror?.({} as MessageEvent), 5);
  await assert.rejects(answer, { name: "Engine", message: /can't be read.*Reload/ });
});

test("a stop is heard between the steps of a thread's reading", async () => {
  const { conclave, members } = await open(
    { Ada: { ...talker, step: 1 }, Bo: { ...talker, step: 1 } },
    2,
  );
  const controller = new AbortController();
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { signal: controller.signal })) {
    events.push(event);
    controller.abort();
  }
  assert.ok([...members.values()].every((member) => member.counters().prefix < 5));
  assert.ok(events.every(({ type }) => type === "reading" || type === "end"));
  assert.equal(begun(await collect(conclave.ask(hello))).prefixes.length, 2);
});

test("threads are a whole number from 1 on", async () => {
  const { port } = await open({ Ada: talker }, 2);
  await assert.rejects(Conclave.open({ backend: "cpu", threads: 0.5 }, port), { name: "Settings" });
});

test("ranges of files cross a port whole, and what can't be read says why", async () => {
  const files = new BlobFiles([{ name: "a.gguf", blob: new Blob(["0123456789"]) }]);
  const { port, close } = serveFiles(files);
  const read = new PortFiles(files.files, port);
  const [one, other] = await Promise.all([read.read(0, 2, 3), read.read(0, 9, 1)]);
  assert.deepEqual(
    [one, other].map((bytes) => new TextDecoder().decode(bytes)),
    ["234", "9"],
  );
  await assert.rejects(read.read(0, 8, 5), /a\.gguf ends before byte 13/);
  await assert.rejects(read.read(1, 0, 1), /no file number 1/);
  close();
});

test("a thread that never starts is given up, and the load says so", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const { port } = stage({ Ada: talker }, 2, { startingThreads: new Promise(() => {}) });
    const conclave = await Conclave.open({ backend: "cpu" }, port);
    const loading = conclave.add({ name: "Ada", files: [file] });
    const told = assert.rejects(loading, {
      name: "Engine",
      message: /thread of Ada ended: it did not start within 2 minutes\. Remove Ada, or reload/,
    });
    for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
    mock.timers.tick(120_000);
    await told;
    conclave.close();
  } finally {
    mock.timers.reset();
  }
});

/**
 * Waits for a condition, however busy the machine is; if it never holds, the assertion that follows
 * fails.
 */
async function until(there: () => boolean): Promise<void> {
  for (let turn = 0; turn < 2000 && !there(); turn++) await settled();
}

test("members' workers start before the module is there, and load side by side", async () => {
  let start = (): void => undefined;
  let build = (): void => undefined;
  const starting = new Promise<void>((resolve) => (start = resolve));
  const building = new Promise<void>((resolve) => (build = resolve));
  const { port, threads, members } = stage(three, 3, { starting, building });
  const conclave = Conclave.start({ backend: "cpu" }, port);
  const added = Promise.all(
    Object.keys(three).map((name) => conclave.add({ name, files: [file] })),
  );
  await until(() => threads.length === 3);
  assert.deepEqual(
    [threads.length, threads.map(({ core }) => core)],
    [3, [undefined, undefined, undefined]],
    "all wait for the module",
  );
  start();
  await until(() => threads.every(({ core }) => core !== undefined));
  assert.deepEqual(
    [threads.map(({ core }) => core), members.size],
    [["fused", "fused", "fused"], 0],
    "all load",
  );
  build();
  await added;
  assert.deepEqual([...members.keys()].sort(), Object.keys(three).sort());
});

test("a worker that no member comes to is ended", async () => {
  const { conclave, threads } = await open({ Ada: talker }, 4, { shared: true });
  await until(() => threads[0]!.helpers.size === 3);
  assert.equal(threads[0]!.helpers.size, 3);
  await assert.rejects(conclave.add({ name: "Bo", url: "http://127.0.0.1:9/none.gguf" }), {
    name: "Download",
  });
  await until(() => threads.length === 2 && threads[1]!.terminated);
  assert.deepEqual(
    [threads.map(({ terminated }) => terminated), threads[0]!.helpers.size],
    [[false, true], 3],
  );
});

test("of two members of one name at once one is refused, and lets go of what it has", async () => {
  const scripts = { Ada: talker, Bo: talker };
  const { port, threads } = stage(scripts, 4);
  const conclave = await Conclave.open({ backend: "cpu" }, port);
  await conclave.add({ name: "Ada", files: [file] });
  const two = await Promise.allSettled([
    conclave.add({ name: "Bo", files: [file] }),
    conclave.add({ name: "Bo", files: [file] }),
  ]);
  assert.deepEqual(two.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  const running = (): number => threads.filter(({ terminated }) => !terminated).length;
  await until(() => running() === 2);
  assert.equal(running(), 2);
});
