/**
 * The browser's own language model as a judge, through the library and its worker. It is a stand-in
 * throughout: no browser of the tests has one.
 */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Conclave } from "../../src/library/conclave.ts";
import { typed, type ConclaveError } from "../../src/protocol/errors.ts";
import type { Progress } from "../../src/protocol/messages.ts";
import type { Script } from "../../src/testing/scripted.ts";
import { file, open, stage } from "../../src/testing/staged.ts";
import { StandInModel } from "../../src/testing/stand-in-model.ts";
import { answer, leftIn, roundsOf } from "./answers.ts";
import { startRemote } from "./module.ts";

const drafts = (text: string): Script => ({ drafts: [{ text, ended: false }], taste: () => 1 });
const two = { One: drafts(" one"), Two: drafts(" two") };
const never = (): Promise<string> => new Promise(() => undefined);

/** Properties of the page during the test. `pressed`: there was a user gesture. */
function page(model?: StandInModel, pressed?: boolean): void {
  const own = (name: string, value: unknown): void =>
    void Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  own("LanguageModel", model);
  own("navigator", { ...(pressed === undefined ? {} : { userActivation: { isActive: pressed } }) });
}
const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
afterEach(() => {
  Reflect.deleteProperty(globalThis, "LanguageModel");
  if (before) Object.defineProperty(globalThis, "navigator", before);
});

/** An ensemble of two members that draft and a stand-in model that judges. */
async function judged(
  model = new StandInModel(),
  timeout = 2000,
): Promise<{ model: StandInModel; conclave: Conclave }> {
  page(model);
  const { conclave } = await open(two, undefined, { startRemote });
  await conclave.add({ name: "Own", builtIn: true, timeout });
  return { model, conclave };
}

const failure = (adding: Promise<unknown>): Promise<ConclaveError> =>
  adding.then(() => assert.fail("it was added"), typed);
/** Waits until all messages have crossed. */
const settled = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 30));

test("a stand-in for the browser's model judges by letters, as behind a server", async () => {
  const { model, conclave } = await judged();
  assert.deepEqual(conclave.members[2]!.remote, {
    host: "",
    model: "LanguageModel",
    can: "judges only",
    note: "",
  });
  assert.equal(conclave.members[2]!.context, 6144);
  model.says = (question) => JSON.stringify(/([AB]): " two"/.exec(question)?.[1]);
  const before = model.asked.length;
  const [round] = roundsOf(await answer(conclave, 1));
  assert.deepEqual([round!.drafters, round!.remote, round!.abstained], [[0, 1], [2], []]);
  assert.ok(round!.scores[2]![1]!.preference! > 0.7);
  assert.equal(round!.winner, 1, "the two are of two minds, the judge decides");
  const ballots = model.asked.slice(before);
  assert.equal(ballots.length, 2, "two orders");
  assert.notEqual(ballots[0]!.question, ballots[1]!.question);
  for (const { question, options } of ballots) {
    assert.match(question, /You judge how an answer should go on[\s\S]*user: hello/);
    assert.deepEqual(options.responseConstraint, { type: "string", enum: ["A", "B"] });
    assert.equal(options.omitResponseConstraintInput, true);
  }
  conclave.close();
});

test("a stand-in that names A whatever stands there decides nothing for long", async () => {
  const { conclave } = await judged();
  const rounds = roundsOf(await answer(conclave, 12));
  const last = rounds.at(-1)!.shares[2]!;
  assert.ok(Math.max(...last) < 0.6, String(last));
  conclave.close();
});

test("the stand-in's session lives as long as its member; each question has its own", async () => {
  const { model, conclave } = await judged();
  await answer(conclave, 2);
  assert.equal(model.open, 1);
  await conclave.remove("Own");
  assert.equal(model.open, 0, "it was taken out");
  await conclave.add({ name: "Own", builtIn: true });
  await conclave.add({ name: "Own", builtIn: true }, { replace: "Own" });
  assert.equal(model.open, 1, "another took its place");
  await failure(conclave.add({ name: "Own", builtIn: true }));
  assert.equal(model.open, 1, "there is one already");
  conclave.close();
  assert.equal(model.open, 0, "the engine was closed");
});

test("a late stand-in abstains, is stopped, and leaves with its third late round", async () => {
  const { model, conclave } = await judged(undefined, 120);
  model.says = never;
  const events = await answer(conclave, 4);
  assert.deepEqual(
    roundsOf(events).map(({ abstained, active }) => [active.length, abstained]),
    [
      [3, [2]],
      [3, [2]],
      [2, []],
      [2, []],
    ],
  );
  const [left] = leftIn(events);
  assert.deepEqual([left!.member, left!.error.kind], ["Own", "Remote"]);
  assert.match(left!.error.message, /missed 3 rounds in a row.*did not answer Own in time/);
  await settled();
  assert.deepEqual([model.stopped, model.open], [6, 1]);
  model.says = (_, letters) => letters[0]!;
  assert.deepEqual(
    roundsOf(await answer(conclave, 1))[0]!.abstained,
    [],
    "the next question asks it again",
  );
  conclave.close();
});

test("a stand-in that fails abstains; one without room for the text leaves at once", async () => {
  const { model, conclave } = await judged();
  model.says = () => Promise.reject(new DOMException("The model crashed.", "UnknownError"));
  const [round] = roundsOf(await answer(conclave, 1));
  assert.deepEqual(round!.abstained, [2]);
  model.says = () => Promise.reject(new DOMException("Too long.", "QuotaExceededError"));
  const [left] = leftIn(await answer(conclave, 1));
  assert.deepEqual([left!.member, left!.error.kind], ["Own", "ContextFull"]);
  conclave.close();
});

test("a stop waits for no stand-in, and ends what it was asked", async () => {
  const { model, conclave } = await judged(undefined, 60_000);
  const stop = new AbortController();
  let asked = 0;
  // In two orders.
  model.says = () => {
    if (++asked === 2) stop.abort();
    return never();
  };
  const began = performance.now();
  const events = await answer(conclave, 3, { signal: stop.signal });
  assert.ok(performance.now() - began < 20_000);
  const end = events.at(-1)!;
  assert.equal(end.type === "end" && end.stop, "stopped");
  await settled();
  assert.deepEqual([model.stopped, model.open], [2, 1]);
  conclave.close();
});

test("what has to be downloaded waits for a press, and tells how far it is", async () => {
  const model = new StandInModel();
  model.available = "downloadable";
  const { conclave } = await open(two, undefined, { startRemote });
  page(model, false);
  const error = await failure(conclave.add({ name: "Own", builtIn: true }));
  assert.equal(error.kind, "Remote");
  assert.match(error.message, /on a press/);
  assert.equal(model.created.length, 0, "nothing was asked of the browser");
  page(model, true);
  const told: Progress[] = [];
  await conclave.add(
    { name: "Own", builtIn: true },
    { onProgress: (progress) => told.push(progress) },
  );
  assert.deepEqual(
    told.map(({ phase, loaded, total }) => [phase, loaded, total]),
    [0, 0.5, 1].map((loaded) => ["downloading", loaded, 1]),
  );
  await conclave.remove("Own");
  model.available = "downloadable";
  const stop = new AbortController();
  const adding = conclave.add(
    { name: "Own", builtIn: true },
    { signal: stop.signal, onProgress: () => stop.abort() },
  );
  await assert.rejects(adding, { name: "AbortError" });
  assert.equal(model.open, 0);
  conclave.close();
});

test("a page without the model, refused it, or whose model names no letter is told", async () => {
  const { conclave } = await open(two, undefined, { startRemote });
  const add = (): Promise<ConclaveError> => failure(conclave.add({ name: "Own", builtIn: true }));
  page();
  assert.match((await add()).message, /has no language model of its own/);
  const model = new StandInModel();
  page(model);
  model.available = "unavailable";
  assert.match((await add()).message, /has no language model of its own/);
  model.available = "available";
  model.says = () => "I would rather not";
  const error = await add();
  assert.equal(error.kind, "Remote");
  assert.match(error.message, /names no letter/);
  assert.equal(model.open, 0, "its session is over");
  model.create = () =>
    Promise.reject(new DOMException("The page is not allowed to.", "NotAllowedError"));
  assert.match((await add()).message, /not allowed to/);
  assert.equal(conclave.members.length, 2);
  conclave.close();
});

test("an engine in the place of a failed one asks the stand-in on a line of its own", async () => {
  const model = new StandInModel();
  page(model);
  const first = stage(two, undefined, { startRemote });
  const second = stage(two, undefined, { startRemote });
  const ports = [first.port, second.port];
  const conclave = await Conclave.open({ backend: "cpu" }, () => ports.shift()!);
  for (const name of ["One", "Two"]) await conclave.add({ name, files: [file] });
  await conclave.add({ name: "Own", builtIn: true });
  first.port.onerror?.({ message: "it died" } as ErrorEvent);
  const rounds = roundsOf(await answer(conclave, 1));
  assert.deepEqual(
    rounds.map(({ remote, abstained }) => [remote, abstained]),
    [[[2], []]],
  );
  assert.equal(model.open, 1);
  conclave.close();
  assert.equal(model.open, 0);
});
