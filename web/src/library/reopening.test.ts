/** The library reopens a failed engine once, and the answer continues after the text so far. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Conclave,
  ConclaveError,
  EngineFailure,
  DeviceLost,
  type ConclaveEvent,
} from "./conclave.ts";
import { collect, endless, file, hello, stage, type Stage } from "../testing/staged.ts";
import type { Script } from "../testing/scripted.ts";

/** An engine of two members whose worker a test can fail, and all workers that it has had. */
async function open(): Promise<{ conclave: Conclave; stages: Stage[]; fail: () => void }> {
  const stages: Stage[] = [];
  const startPort = () => {
    const made = stage({ Ada: endless, Bo: endless, Cy: endless });
    stages.push(made);
    return made.port;
  };
  const conclave = await Conclave.open({ backend: "cpu" }, startPort);
  for (const name of ["Ada", "Bo"])
    await conclave.add({ name, files: [file] }, { contextTokens: 512 });
  const fail = (): void => stages.at(-1)!.port.onerror?.({ message: "unreachable" } as ErrorEvent);
  return { conclave, stages, fail };
}

/** An answer of some rounds, with an action after each. */
async function answer(
  conclave: Conclave,
  onRound: (round: number) => void | Promise<void>,
  maxRounds = 6,
): Promise<ConclaveEvent[]> {
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { settings: { maxRounds } })) {
    events.push(event);
    if (event.type === "round") await onRound(event.round);
  }
  return events;
}

const kinds = (events: ConclaveEvent[]): string[] =>
  events
    .filter(({ type }) => type !== "reading")
    .map((event) => (event.type === "round" ? `round ${event.round}` : event.type));
const sixRounds = ["round 1", "round 2", "round 3", "round 4", "round 5", "round 6"];

test("a worker that dies in mid-answer is replaced, and the answer goes on", async () => {
  const { conclave, stages, fail } = await open();
  const events = await answer(conclave, (round) => (round === 2 ? fail() : undefined));
  const told = kinds(events);
  assert.deepEqual(
    told.filter((kind) => kind !== "reopened"),
    ["begin", ...sixRounds, "end"],
    "begun once, and no round twice",
  );
  const reopened = events.find(({ type }) => type === "reopened");
  assert.ok(
    reopened?.type === "reopened" &&
      reopened.error.kind === "Engine" &&
      /unreachable/.test(reopened.error.message),
  );
  const end = events.at(-1);
  assert.ok(end?.type === "end");
  assert.deepEqual(
    [end.text, end.stop, end.usage.answerTokens],
    ["la ".repeat(6), "rounds", 6 * 3],
    "what was accepted before counts",
  );
  assert.equal(stages.length, 2);
  assert.ok(stages[0]!.journal.includes("terminate"), "the failed one is ended");
  // The new members read the accepted text as a candidate and keep it.
  const before = told.indexOf("reopened") - 1;
  for (const name of ["Ada", "Bo"]) {
    const moves = stages[1]!.journal
      .filter((entry) => entry.startsWith(`${name} `))
      .map((entry) => entry.split(" ")[1]);
    const drafted = moves.indexOf("draft");
    assert.equal(
      moves.slice(0, drafted).filter((move) => move === "keep").length,
      before,
      moves.join(", "),
    );
  }
});

test("a lost device is one that is opened anew as well", async () => {
  const { conclave, stages } = await open();
  const events = await answer(conclave, (round) =>
    round === 2 ? conclave.loseDevice() : undefined,
  );
  assert.deepEqual(
    kinds(events).filter((kind) => kind !== "reopened"),
    ["begin", ...sixRounds, "end"],
  );
  const reopened = events.find(({ type }) => type === "reopened");
  assert.ok(reopened?.type === "reopened" && reopened.error.kind === "DeviceLost");
  assert.equal(stages.length, 2);
});

test("a second failure is the caller's, with the text; later ones have a new engine", async () => {
  const { conclave, stages, fail } = await open();
  await assert.rejects(
    answer(conclave, (round) => (round === 2 || round === 4 ? fail() : undefined)),
    (error: unknown) =>
      error instanceof EngineFailure &&
      /unreachable/.test(error.message) &&
      /^(la ){4,}$/.test(error.partial ?? ""),
  );
  assert.equal(stages.length, 2);
  assert.ok(stages[1]!.journal.includes("terminate"), "it is not left running");
  assert.equal((await answer(conclave, () => undefined)).at(-1)?.type, "end");
  assert.equal(stages.length, 3);

  const healthy = await open();
  for (let count = 1; count <= 2; count++) {
    await answer(healthy.conclave, (round) => (round === 1 ? healthy.fail() : undefined));
    assert.equal(healthy.stages.length, 1 + count);
  }
});

test("questions that waited for the same engine share the new one", async () => {
  const { conclave, stages, fail } = await open();
  const both = await Promise.all([
    answer(conclave, (round) => (round === 1 ? fail() : undefined)),
    collect(conclave.ask(hello, { settings: { maxRounds: 2 } })),
  ]);
  for (const events of both) assert.equal(kinds(events).at(-1), "end");
  assert.equal(stages.length, 2);
});

test("a stop while it opens anew ends the answer, and a closed engine stays closed", async () => {
  const { conclave, fail } = await open();
  const controller = new AbortController();
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, {
    signal: controller.signal,
    settings: { maxRounds: 6 },
  })) {
    events.push(event);
    if (event.type === "round" && event.round === 2) fail();
    if (event.type === "reopened") controller.abort();
  }
  const end = events.at(-1);
  assert.ok(end?.type === "end" && end.stop === "stopped" && end.text.startsWith("la la "));

  const { conclave: closed, stages } = await open();
  await assert.rejects(
    answer(closed, () => closed.close()),
    EngineFailure,
  );
  assert.equal(stages.length, 1);
});

test("where no worker starts any more the error says so, and has the first one", async () => {
  let starts = 0;
  const made = stage({ Ada: endless });
  const conclave = await Conclave.open({ backend: "cpu" }, () => {
    if (starts++ > 0) throw new Error("no more workers");
    return made.port;
  });
  await conclave.add({ name: "Ada", files: [file] });
  await assert.rejects(
    answer(conclave, (round) => (round === 1 ? conclave.loseDevice() : undefined)),
    (error: unknown) =>
      error instanceof EngineFailure &&
      /no more workers/.test(error.message) &&
      error.cause instanceof DeviceLost,
  );
});

test("a member that fails in a reopening is named; the next question retries", async () => {
  const starts: Stage[] = [];
  let scripts: Record<string, Script> = { Ada: endless, Bo: endless };
  const conclave = await Conclave.open({ backend: "cpu" }, () => {
    const made = stage(scripts);
    starts.push(made);
    return made.port;
  });
  for (const name of ["Ada", "Bo"])
    await conclave.add({ name, files: [file], core: "fused" }, { contextTokens: 512 });
  const fail = (): void => starts.at(-1)!.port.onerror?.({ message: "unreachable" } as ErrorEvent);
  scripts = { Ada: endless, Bo: { ...endless, noPlan: true } };
  const isNoPlan = (error: unknown): boolean =>
    error instanceof ConclaveError && error.kind === "NoPlan";
  await assert.rejects(
    answer(conclave, (round) => (round === 2 ? fail() : undefined)),
    (error: unknown) => isNoPlan(error) && /^la /.test((error as ConclaveError).partial ?? ""),
  );
  assert.deepEqual([conclave.failed, starts.length], [true, 2]);
  assert.ok(starts[1]!.journal.includes("terminate"), "an engine without Bo is not left running");
  await assert.rejects(conclave.measure(hello), isNoPlan);
  assert.equal(starts.length, 3, "it was tried again");
  scripts = { Ada: endless, Bo: endless };
  assert.equal((await answer(conclave, () => undefined)).at(-1)?.type, "end");
  assert.deepEqual([conclave.failed, starts.length], [false, 4]);
});

test("a stop while an engine reopens ends the answer, and waits for nothing", async () => {
  let building: Promise<void> = Promise.resolve();
  const starts: Stage[] = [];
  const conclave = await Conclave.open({ backend: "cpu" }, () => {
    const made = stage({ Ada: endless }, 1, { building });
    starts.push(made);
    return made.port;
  });
  await conclave.add({ name: "Ada", files: [file] }, { contextTokens: 512 });
  let build = (): void => {};
  building = new Promise((resolve) => (build = resolve));
  const stopped = async (stop: AbortController): Promise<ConclaveEvent[]> => {
    const events: ConclaveEvent[] = [];
    for await (const event of conclave.ask(hello, { signal: stop.signal })) {
      events.push(event);
      if (event.type !== "round" || event.round !== 2) continue;
      starts.at(-1)!.port.onerror?.({ message: "unreachable" } as ErrorEvent);
      setTimeout(() => stop.abort(), 20);
    }
    return events;
  };
  const first = await stopped(new AbortController());
  const end = first.at(-1);
  assert.ok(end?.type === "end" && end.stop === "stopped", kinds(first).join(", "));
  assert.equal(end.text, first.map((event) => (event.type === "round" ? event.text : "")).join(""));
  assert.equal(end.usage.promptTokens, 5);
  assert.ok(end.usage.answerTokens >= 6 && end.ms > 0);

  // A question that finds the reopening under way, and other requests.
  const later = new AbortController();
  setTimeout(() => later.abort(), 20);
  assert.deepEqual(kinds(await stopped(later)), ["end"]);
  const again = AbortSignal.abort();
  await assert.rejects(conclave.begin(hello, { signal: again }), { name: "AbortError" });
  await assert.rejects(conclave.add({ name: "Bo", files: [file] }, { signal: again }), {
    name: "AbortError",
  });
  build();
  assert.equal((await answer(conclave, () => undefined, 2)).at(-1)?.type, "end");
  assert.equal(starts.length, 2, "the reopening went on");
});

test("an answer stopped by closing its engine ends so; then all is refused", async () => {
  const { conclave, stages } = await open();
  const stop = new AbortController();
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { signal: stop.signal })) {
    events.push(event);
    if (event.type === "round" && event.round === 2) {
      stop.abort();
      conclave.close();
    }
  }
  const end = events.at(-1);
  assert.ok(end?.type === "end" && end.stop === "stopped" && end.text.startsWith("la la "));
  const { conclave: broken, fail } = await open();
  fail();
  broken.close();
  const closed = { name: "Engine", message: "The engine was closed. Load another." };
  for (const gone of [conclave, broken]) {
    await assert.rejects(
      answer(gone, () => undefined),
      closed,
    );
    await assert.rejects(gone.add({ name: "Cy", files: [file] }), closed);
    await assert.rejects(gone.measure(hello), closed);
    await assert.rejects(gone.begin(hello), closed);
    await assert.rejects(gone.models(), closed);
  }
  assert.equal(stages.length, 1);
});

test("a worker that dies while nobody asks is replaced by whatever is asked next", async () => {
  const { conclave, stages, fail } = await open();
  fail();
  assert.deepEqual(
    (await conclave.measure(hello)).map(({ member }) => member),
    ["Ada", "Bo"],
  );
  fail();
  const conversation = await conclave.begin(hello);
  await conversation.end();
  fail();
  await conclave.remove("Ada");
  assert.equal(stages.length, 4);
  assert.deepEqual(
    conclave.members.map(({ name }) => name),
    ["Bo"],
  );
});

test("a worker that died answers about stored models all the same, without members", async () => {
  const { conclave, stages, fail } = await open();
  fail();
  assert.deepEqual((await conclave.models()).models, []);
  await conclave.deleteModel("hf:owner/repo/model.gguf");
  await conclave.deletePrompts();
  assert.equal(await conclave.latestCommit("https://host.example/model.gguf"), null);
  await assert.rejects(conclave.plan("no reference"), { name: "Reference" });
  assert.deepEqual([conclave.failed, stages.length], [true, 6]);
  for (const { journal, members } of stages.slice(1))
    assert.deepEqual([journal, members.size], [["terminate"], 0], "each only for its request");
  await conclave.measure(hello);
  await conclave.models();
  assert.deepEqual([conclave.failed, stages.length], [false, 7], "the engine's own answers again");

  // A worker that dies meanwhile, and one that is closed.
  const asked = conclave.models();
  fail();
  assert.deepEqual((await asked).models, []);
  const signal = AbortSignal.abort();
  await assert.rejects(conclave.plan("hf:owner/repo/model.gguf", signal), { name: "AbortError" });
  const last = conclave.models();
  const { length } = stages;
  for (let turn = 0; turn < 20 && stages.length === length; turn++) await Promise.resolve();
  conclave.close();
  await assert.rejects(last, { message: "The engine was closed. Load another." });
});

test("where a member can't be loaded again, models can be deleted to make room", async () => {
  const stages: Stage[] = [];
  let script: Script = endless;
  const conclave = await Conclave.open({ backend: "cpu" }, () => {
    const made = stage({ Ada: script });
    stages.push(made);
    return made.port;
  });
  await conclave.add({ name: "Ada", files: [file], core: "fused" });
  script = { ...endless, noPlan: true };
  stages[0]!.port.onerror?.({ message: "unreachable" } as ErrorEvent);
  await assert.rejects(conclave.measure(hello), { name: "NoPlan" });
  assert.deepEqual((await conclave.models()).models, []);
  await conclave.deleteModel("hf:owner/repo/model.gguf");
  script = endless;
  assert.equal((await conclave.measure(hello)).length, 1);
});

test("what the caller throws, or hands over broken, opens nothing anew", async () => {
  const { conclave, stages } = await open();
  const events = conclave.ask(hello);
  await events.next();
  await assert.rejects(events.throw(new Error("mine")), { message: "mine" });
  const broken = {
    aborted: false,
    addEventListener: () => assert.fail("of the page"),
    removeEventListener: () => undefined,
  } as unknown as AbortSignal;
  await assert.rejects(collect(conclave.ask(hello, { signal: broken })), {
    message: "of the page",
  });
  assert.equal(stages.length, 1);
});

test("a member added while an engine opens anew is there once; one that left is not", async () => {
  const { conclave, stages, fail } = await open();
  let added: Promise<unknown> | undefined;
  const events = await answer(conclave, (round) => {
    if (round !== 2) return;
    fail();
    added = conclave.add({ name: "Cy", files: [file] }).catch((error: unknown) => error);
  });
  assert.equal(kinds(events).at(-1), "end");
  await added;
  assert.equal(stages.length, 2);
});

test("an answer that was broken off elsewhere goes on from its segments, which count", async () => {
  const { conclave } = await open();
  const accepted = [1, 2].map(() => ({ text: "la la la ", tokens: 3 }));
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { settings: { maxRounds: 6 }, accepted }))
    events.push(event);
  const whole = await answer(conclave, () => undefined);
  assert.deepEqual(kinds(events), ["begin", ...sixRounds.slice(2), "end"]);
  const [end, wholeEnd] = [events.at(-1), whole.at(-1)];
  assert.ok(end?.type === "end" && wholeEnd?.type === "end");
  assert.equal(end.usage.answerTokens, wholeEnd.usage.answerTokens);
  assert.ok(end.text.startsWith("la la la la la la "));
  await assert.rejects(
    conclave.ask([], { accepted: [{ text: 1, tokens: 1 }] as never }).next(),
    /accepted\[0\]\.text must be a string/,
  );
});
