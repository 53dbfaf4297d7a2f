/**
 * Conformance with the browser's `LanguageModel`, by the types that its callers compile against,
 * over scripted members.
 */
/// <reference types="dom-chromium-ai" />
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Script } from "../testing/scripted.ts";
import { endless, file, stage, talker, type Stage, type Surroundings } from "../testing/staged.ts";
import { Conclave, Download, EngineFailure, type LoadOptions } from "./conclave.ts";
import { createLanguageModel, type LanguageModelOptions } from "./language-model.ts";

/** The part of the global that callers use. */
type Global = Pick<typeof LanguageModel, "availability" | "create" | "params">;
/** Number of tokens of messages: one per character. */
const tokens = (messages: { content: string }[]): number =>
  messages.reduce((sum, { content }) => sum + content.length, 0);

/** The object, the stages of the engines it has started, and its load function. */
function made(
  script: Script = talker,
  surroundings?: Surroundings,
): { model: Global; stages: Stage[]; load: NonNullable<LanguageModelOptions["load"]> } {
  const stages: Stage[] = [];
  const load = (options: LoadOptions): Promise<Conclave> => {
    const scripted = stage({ Ada: script, Bo: script }, 1, surroundings);
    stages.push(scripted);
    return Conclave.load(
      {
        ...options,
        backend: "cpu",
        members: ["Ada", "Bo"].map((name) => ({ name, files: [file] })),
      },
      scripted.port,
    );
  };
  return { model: createLanguageModel({ load }), stages, load };
}

/** Compiles: a monitor's event has its numbers in this library's own types, too. */
export const follow = (told: (loaded: number) => void) =>
  createLanguageModel().create({
    monitor: (monitor) =>
      monitor.addEventListener("downloadprogress", ({ loaded }) => told(loaded)),
  });

/** A promise and its resolve function. */
function promised<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((keep) => (resolve = keep));
  return { promise, resolve };
}

const ended = ({ journal }: Stage): boolean => journal.includes("terminate");

const timeout = 60_000;

/** Polls, since a busy machine may be late; ends with the test's own `timeout`. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

async function all(stream: ReadableStream<string>): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of stream) texts.push(text);
  return texts;
}

test("a session answers, keeps the conversation, and streams segment by segment", async () => {
  const { model, stages } = made();
  const session = await model.create({
    initialPrompts: [{ role: "system", content: "Be brief." }],
    temperature: 0,
    topK: 3.7,
  });
  assert.deepEqual([session.temperature, session.topK], [0, 3]);
  assert.equal(await session.prompt("hello"), "Hello there.");
  assert.deepEqual(
    [session.contextUsage, session.contextWindow, session.inputUsage, session.inputQuota],
    [17, 64, 17, 64],
  );
  // Scripted members repeat their last draft.
  assert.deepEqual(
    await all(
      session.promptStreaming([
        {
          role: "user",
          content: [
            { type: "text", value: "a" },
            { type: "text", value: "gain" },
          ],
        },
      ]),
    ),
    [" there."],
  );
  const ada = stages[0]?.members.get("Ada");
  assert.deepEqual(ada?.messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "hello" },
    { role: "assistant", content: "Hello there." },
    { role: "user", content: "again" },
  ]);
  assert.deepEqual(
    [ada?.sampling?.temperature, ada?.sampling?.topK, ada?.sampling?.topP],
    [0, 3, 0.9],
  );
  assert.equal(await session.measureContextUsage("hello"), 5);
  assert.deepEqual(await model.params(), {
    defaultTopK: 2 ** 32 - 1,
    maxTopK: 2 ** 32 - 1,
    defaultTemperature: 0.6,
    maxTemperature: 10,
  });
});

test("what is appended comes with the next question, messages of one role as one", async () => {
  const { model, stages } = made();
  const session = await model.create();
  assert.equal(session.contextUsage, 0);
  await session.append([
    { role: "user", content: "one" },
    { role: "assistant", content: "two" },
  ]);
  await session.append("three");
  await session.prompt("four");
  assert.deepEqual(stages[0]?.members.get("Ada")?.messages, [
    { role: "user", content: "one" },
    { role: "assistant", content: "two" },
    { role: "user", content: "three\n\nfour" },
  ]);
});

test("questions wait for each other, and each one sees the answers before it", async () => {
  const { model, stages } = made();
  const session = await model.create();
  const answers = await Promise.all([session.prompt("one"), session.prompt("two")]);
  assert.deepEqual(answers, ["Hello there.", " there."]);
  assert.deepEqual(
    stages[0]?.members.get("Ada")?.messages.map(({ content }) => content),
    ["one", "Hello there.", "two"],
  );
});

test("sessions share an engine, which goes with the last of them", { timeout }, async () => {
  const { model, stages } = made();
  assert.equal(await model.availability(), "available");
  const [first, second] = await Promise.all([model.create(), model.create()]);
  const copy = await first.clone();
  assert.equal(stages.length, 1);
  first.destroy();
  first.destroy();
  second.destroy();
  assert.ok(!ended(stages[0]!));
  await assert.rejects(first.prompt("hello"), { name: "InvalidStateError" });
  await assert.rejects(first.clone(), { name: "InvalidStateError" });
  assert.equal(await copy.prompt("hello"), "Hello there.");
  copy.destroy();
  await until(() => ended(stages[0]!));
  assert.equal(await (await model.create()).prompt("hello"), "Hello there.");
  assert.equal(stages.length, 2);
});

test("a clone goes its own way", async () => {
  const { model, stages } = made();
  const session = await model.create();
  await session.prompt("hello");
  const copy = await session.clone();
  assert.equal(copy.contextUsage, session.contextUsage);
  await copy.prompt("there");
  await session.prompt("here");
  assert.deepEqual(
    stages[0]?.members.get("Ada")?.messages.map(({ content }) => content),
    ["hello", "Hello there.", "here"],
  );
});

test("who stops hears AbortError, and the question is out of the conversation", async () => {
  const { model } = made({ ...endless, step: 1 });
  const session = await model.create();
  const controller = new AbortController();
  const reader = session.promptStreaming("sing", { signal: controller.signal }).getReader();
  const impatient = new AbortController();
  const queued = session.prompt("and again", { signal: impatient.signal });
  assert.equal((await reader.read()).value, "la ");
  impatient.abort();
  await assert.rejects(queued, { name: "AbortError" }, "out of the queue at once");
  controller.abort();
  await assert.rejects(
    async () => {
      while (!(await reader.read()).done);
    },
    { name: "AbortError" },
  );
  assert.equal(session.contextUsage, 0);
  // Leaving the stream stops the answer.
  const left = session.promptStreaming("sing").getReader();
  await left.read();
  await left.cancel();
  await session.append("still here");
  const under = session.prompt("sing");
  session.destroy();
  await assert.rejects(under, { name: "AbortError", message: /destroyed/ });
  await assert.rejects(session.append("more"), { name: "InvalidStateError" });
});

test("create is stopped by its signal, and the signal destroys the session afterwards", {
  timeout,
}, async () => {
  const { promise, resolve } = promised();
  const { model, stages } = made(talker, { building: promise });
  const [first, second] = [new AbortController(), new AbortController()];
  const stopped = model.create({ signal: first.signal });
  const going = model.create({ signal: second.signal });
  assert.equal(await model.availability(), "downloading");
  first.abort();
  await assert.rejects(stopped, { name: "AbortError" });
  resolve();
  const session = await going;
  assert.equal(await model.availability(), "available");
  second.abort();
  await assert.rejects(session.prompt("hello"), { name: "InvalidStateError" });
  await until(() => ended(stages[0]!));

  // Once all that wait have aborted, so does the loading.
  const alone = new AbortController();
  const never = made(talker, { building: new Promise(() => {}) });
  const creating = never.model.create({ signal: alone.signal });
  await until(() => never.stages.length > 0);
  alone.abort();
  await assert.rejects(creating, { name: "AbortError" });
  await until(() => ended(never.stages[0]!));
  assert.equal(await never.model.availability(), "available");
});

test("too long a conversation loses old questions, no initial prompt, and says so", async () => {
  const { model, stages } = made({ ...talker, tokens });
  const session = await model.create({
    initialPrompts: [
      { role: "system", content: "s".repeat(10) },
      { role: "user", content: "e".repeat(5) },
      { role: "assistant", content: "x".repeat(5) },
    ],
  });
  assert.equal(session.contextUsage, 20);
  const overflows: string[] = [];
  session.addEventListener("contextoverflow", ({ type }) => overflows.push(type));
  session.onquotaoverflow = ({ type }) => overflows.push(type);
  await session.prompt("a".repeat(10));
  await session.prompt("b".repeat(6));
  assert.deepEqual(overflows, [], "a quarter of the context is still free");
  await session.prompt("c".repeat(10));
  assert.deepEqual(overflows, ["contextoverflow", "quotaoverflow"]);
  assert.deepEqual(
    stages[0]?.members.get("Ada")?.messages.map(({ content }) => content[0]),
    ["s", "e", "x", "b", " ", "c"],
  );
  const before = session.contextUsage;
  await assert.rejects(session.prompt("d".repeat(45)), {
    name: "QuotaExceededError",
    message: /do not fit/,
  });
  await assert.rejects(session.append("d".repeat(45)), { name: "QuotaExceededError" });
  await assert.rejects(session.measureContextUsage("d".repeat(65)), { name: "QuotaExceededError" });
  assert.deepEqual(
    [session.contextUsage, overflows.length],
    [before, 2],
    "nothing is left out for nothing",
  );
  await assert.rejects(
    model.create({ initialPrompts: [{ role: "system", content: "s".repeat(65) }] }),
    { name: "QuotaExceededError" },
  );
});

test("old questions also leave for the sake of an answer, but not for what is added", async () => {
  const { model, stages } = made({ ...talker, tokens });
  const session = await model.create();
  let overflows = 0;
  session.oncontextoverflow = () => void overflows++;
  const asked = (): (string | undefined)[] | undefined =>
    stages[0]?.members.get("Ada")?.messages.map(({ content }) => content[0]);
  await session.prompt("a".repeat(10));
  await session.append([
    { role: "user", content: "b".repeat(20) },
    { role: "assistant", content: "B".repeat(10) },
  ]);
  assert.deepEqual([session.contextUsage, overflows], [52, 0], "more than three quarters of 64");
  await session.prompt("c");
  assert.deepEqual([asked(), overflows], [["b", "B", "c"], 1]);
  // 60 would fit with what is there, but leave no room to answer.
  await session.prompt("d".repeat(22));
  assert.deepEqual([asked(), overflows], [["c", " ", "d"], 2]);
  await session.prompt("e".repeat(60));
  assert.deepEqual([asked(), overflows], [["e"], 3], "there is nothing more to leave out");
});

test("a listener of the download that aborts at its end makes no session", {
  timeout,
}, async () => {
  const { load, stages } = made();
  const model = createLanguageModel({
    load: (options) => load({ ...options, onShare: () => undefined }),
  });
  const controller = new AbortController();
  await assert.rejects(
    model.create({
      signal: controller.signal,
      monitor: (monitor) =>
        monitor.addEventListener("downloadprogress", ({ loaded }) => {
          if (loaded === 1) controller.abort();
        }),
    }),
    { name: "AbortError" },
  );
  await until(() => ended(stages[0]!));
});

test("the download is told from 0 to 1, to all who wait", async () => {
  const started = promised<LoadOptions>();
  const { load } = made();
  const ready = promised();
  const model: Global = createLanguageModel({
    members: ["Ada", "Bo"].map((name) => ({ name, ref: `hf:owner/${name}/model.gguf` })),
    load: async (options) => {
      started.resolve(options);
      await ready.promise;
      return load({ ...options, onShare: () => undefined });
    },
  });
  assert.equal(await model.availability(), "downloadable");
  const told: [number, number][] = [];
  const later: number[] = [];
  const creating = model.create({
    monitor: (monitor) =>
      monitor.addEventListener("downloadprogress", ({ loaded, total }) =>
        told.push([loaded, total]),
      ),
  });
  const { onShare } = await started.promise;
  onShare?.(0);
  onShare?.(0.25);
  const second = model.create({
    monitor: (monitor) => (monitor.ondownloadprogress = ({ loaded }) => void later.push(loaded)),
  });
  onShare?.(0.75);
  ready.resolve();
  await Promise.all([creating, second]);
  assert.deepEqual(told, [
    [0, 1],
    [0.25, 1],
    [0.75, 1],
    [1, 1],
  ]);
  assert.deepEqual(later, [0, 0.25, 0.75, 1]);
});

test("the guide takes the browser's own only where it has a model", async () => {
  const guide = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../docs/embedding.md`, "utf8");
  const [choice = ""] = /^const own = .*?createLanguageModel\(\);$/ms.exec(guide) ?? [];
  const choose = new Function(
    "createLanguageModel",
    `return async () => { ${choice}
    return LanguageModel; }`,
  )(() => "ours") as () => Promise<unknown>;
  const browser = globalThis as { LanguageModel?: object };
  assert.equal(await choose(), "ours");
  for (const [availability, isOwn] of [
    ["unavailable", false],
    ["available", true],
  ] as const) {
    browser.LanguageModel = { availability: async () => availability };
    assert.equal((await choose()) === browser.LanguageModel, isOwn, availability);
  }
  delete browser.LanguageModel;
});

test("options that this API does not know are ignored, as in a browser", async () => {
  const { model } = made();
  const unknown: object = { outputLanguage: "en", type: "key-points" };
  assert.equal(await model.availability(unknown), "available");
  const session = await model.create(unknown);
  assert.equal(await session.prompt("hello", unknown), "Hello there.");
  await session.append("more", unknown);
});

test("what an ensemble can't do is refused by the names that the API has", async () => {
  const { model } = made();
  const session = await model.create({
    expectedInputs: [{ type: "text", languages: ["en"] }],
    expectedOutputs: [{ type: "text" }],
  });
  const digits = /[0-9]+/ as object as Record<string, unknown>;
  const refusals: [Promise<unknown>, string, RegExp][] = [
    [
      session.prompt("x", { responseConstraint: digits }),
      "NotSupportedError",
      /responseConstraint that is a RegExp/,
    ],
    [
      session.prompt("x", { omitResponseConstraintInput: true }),
      "TypeError",
      /omitResponseConstraintInput/,
    ],
    [
      session.prompt([{ role: "assistant", content: "{", prefix: true }]),
      "NotSupportedError",
      /prefix/,
    ],
    [
      session.prompt([
        { role: "assistant", content: "{", prefix: true },
        { role: "user", content: "x" },
      ]),
      "SyntaxError",
      /prefix/,
    ],
    [
      session.prompt([{ role: "assistant", content: "Well." }]),
      "NotSupportedError",
      /last message/,
    ],
    [
      session.prompt([{ role: "user", content: [{ type: "image", value: new Blob() }] }]),
      "NotSupportedError",
      /"image"/,
    ],
    [
      session.prompt([{ role: "user", content: [{ type: "text", value: new Blob() }] }]),
      "TypeError",
      /string/,
    ],
    [
      session.prompt([
        { role: "user", content: "x" },
        { role: "system" as "user", content: "x" },
      ]),
      "TypeError",
      /first of all/,
    ],
    [
      all(session.promptStreaming("x", { responseConstraint: digits })),
      "NotSupportedError",
      /responseConstraint/,
    ],
    [
      session.measureContextUsage("x", { responseConstraint: digits }),
      "NotSupportedError",
      /responseConstraint/,
    ],
    [model.create({ expectedInputs: [{ type: "image" }] }), "NotSupportedError", /"image"/],
    [
      model.create({
        tools: [{ name: "", description: "", inputSchema: {}, execute: async () => "" }],
      }),
      "NotSupportedError",
      /tools/,
    ],
    [model.create({ samplingMode: "creative" }), "NotSupportedError", /samplingMode/],
    [
      model.create({ samplingMode: "balanced", temperature: 1 } as object),
      "TypeError",
      /samplingMode/,
    ],
    [model.create({ temperature: -1 }), "RangeError", /temperature/],
    [model.create({ topK: 0 }), "RangeError", /topK/],
    [
      model.create({
        initialPrompts: [
          { role: "user", content: "x" },
          { role: "system" as "user", content: "x" },
        ],
      }),
      "TypeError",
      /first of all/,
    ],
  ];
  for (const [refused, name, message] of refusals) await assert.rejects(refused, { name, message });
  await assert.rejects(session.prompt("x", { responseConstraint: { title: "refused" } }), {
    name: "NotSupportedError",
    message: /can't be honoured/,
  });
  assert.equal(session.contextUsage, 0);
  assert.equal(
    await session.prompt("x", {
      responseConstraint: { type: "string" },
      omitResponseConstraintInput: true,
    }),
    "Hello there.",
  );
  assert.deepEqual(
    await Promise.all([
      model.availability({ expectedOutputs: [{ type: "audio" }] }),
      model.availability({ samplingMode: "creative" }),
    ]),
    ["unavailable", "unavailable"],
  );
  const hot = await model.create({
    temperature: Number.POSITIVE_INFINITY,
    topK: Number.POSITIVE_INFINITY,
  });
  assert.deepEqual([hot.temperature, hot.topK], [10, 2 ** 32 - 1]);
});

test("failures have the API's names, with the library's error as their cause", async () => {
  const failing = (error: Error): Global =>
    createLanguageModel({ load: () => Promise.reject(error) });
  await assert.rejects(failing(new Download("The host is away.")).create(), {
    name: "NetworkError",
    message: /away/,
  });
  await assert.rejects(
    failing(new EngineFailure("It fell over.")).create(),
    (error: DOMException & { cause?: unknown }) => {
      assert.ok(
        error instanceof DOMException &&
          error.name === "OperationError" &&
          error.cause instanceof EngineFailure,
      );
      return true;
    },
  );
  // The members ended with the engine: the next session loads others.
  const { model, stages } = made({
    ...talker,
    onMove: (move) => {
      if (move === "draft") throw Object.assign(new Error("It fell over."), { name: "Engine" });
    },
  });
  const session = await model.create();
  await assert.rejects(session.prompt("hello"), { name: "OperationError" });
  await model.create();
  assert.equal(stages.length, 2);
});

test("no workers, no engine; without storage all models are to be downloaded", async (context) => {
  assert.equal(await createLanguageModel().availability(), "unavailable");
  Object.assign(globalThis, { Worker: class {} });
  context.after(() => Reflect.deleteProperty(globalThis, "Worker"));
  assert.equal(await createLanguageModel().availability(), "available");
  assert.equal(await createLanguageModel({ backend: "webgpu" }).availability(), "unavailable");
  assert.equal(
    await createLanguageModel({
      members: [{ name: "Ada", ref: "hf:owner/repo/model.gguf" }],
    }).availability(),
    "downloadable",
  );
  assert.equal(
    await createLanguageModel({ members: [{ name: "Ada", ref: "owner/repo" }] }).availability(),
    "unavailable",
  );
  const ref = `copy:${"0".repeat(64)}`;
  assert.equal(
    await createLanguageModel({ members: [{ name: "Ada", ref }] }).availability(),
    "unavailable",
    "a copy of a picked file can't be fetched",
  );
  const files = [{ name: "mine.gguf", url: "", bytes: 0 }];
  const model = { ref, from: "mine.gguf", commit: null, files };
  const lines = [
    { type: "model", format: "conclave-1", chunkBytes: 8, model },
    { type: "verified", file: 0 },
  ];
  const journal = new Blob(lines.map((line) => `${JSON.stringify(line)}\n`));
  const folder = { getFileHandle: async () => ({ getFile: async () => journal }) };
  const root = { getDirectoryHandle: async () => ({ getDirectoryHandle: async () => folder }) };
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  const value = { storage: { getDirectory: async () => root } };
  Object.defineProperty(globalThis, "navigator", { value, configurable: true });
  context.after(() => {
    Reflect.deleteProperty(globalThis, "navigator");
    if (before) Object.defineProperty(globalThis, "navigator", before);
  });
  const stored = createLanguageModel({ members: [{ name: "Ada", ref }] });
  assert.equal(await stored.availability(), "available");
});
