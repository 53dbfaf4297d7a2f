/** Several tabs on one engine: each with its own library, the engine scripted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Conclave,
  DeviceLost,
  EngineFailure,
  isAbort,
  type ConclaveEvent,
  type MemberSource,
  type Port,
} from "../library/conclave.ts";
import type { Message } from "../protocol/engine.ts";
import type { Request } from "../protocol/messages.ts";
import type { Script } from "../testing/scripted.ts";
import {
  collect,
  endless,
  file,
  hello,
  stage,
  type Stage,
  type Surroundings,
} from "../testing/staged.ts";
import { SharedEngine, type Line } from "./shared-engine.ts";

const ada: MemberSource = { name: "Ada", files: [file] };
const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Tab {
  conclave: Conclave;
  line: Line;
}

/** An engine, the requests that reach it, and tabs connected to it. */
function shared(
  script: Script = endless,
  surroundings: Surroundings = {},
): Stage & { engine: SharedEngine; asked: Request[]; tab: () => Tab; ends: () => number } {
  const made = stage({ Ada: script }, 1, surroundings);
  const asked: Request[] = [];
  const { postMessage } = made.port;
  made.port.postMessage = (data) => (asked.push(data as Request), postMessage(data));
  let ends = 0;
  const engine = new SharedEngine(made.port, () => ends++);
  const tab = (): Tab => {
    const port: Port = {
      postMessage: (data) => line.receive(data),
      terminate: () => line.end(),
      onmessage: null,
      onmessageerror: null,
      onerror: null,
    };
    const line = engine.connect({
      onReply: (reply) => {
        const data: unknown = structuredClone(reply);
        setImmediate(() => port.onmessage?.({ data } as MessageEvent<unknown>));
      },
      onFailed: (event) => void setImmediate(() => port.onerror?.(event as ErrorEvent)),
    });
    return { conclave: Conclave.start({ backend: "cpu" }, port), line };
  };
  return { ...made, engine, asked, tab, ends: () => ends };
}

/** Two tabs whose member is loaded. */
async function pair(script?: Script) {
  const made = shared(script);
  const [one, two] = [made.tab(), made.tab()];
  await Promise.all([one, two].map(({ conclave }) => conclave.ready.then(() => conclave.add(ada))));
  // From here on the engine's ids differ from every tab's.
  await Promise.all([one, two].map(({ conclave }) => conclave.models()));
  return { ...made, one, two };
}

const end = (events: ConclaveEvent[]) => {
  const last = events.at(-1);
  assert.ok(last?.type === "end");
  return last;
};
const question = (content: string): Message[] => [{ role: "user", content }];

test("the engine opens once and each member loads once, whoever asks and whenever", async () => {
  const { asked, one, two, tab } = await pair();
  const late = tab();
  await late.conclave.ready;
  const about = await late.conclave.add(ada);
  assert.deepEqual(
    asked.map(({ type }) => type),
    ["open", "add", "models", "models"],
  );
  for (const { conclave } of [one, two])
    assert.deepEqual(
      [conclave.members, conclave.backend, conclave.heapBytes],
      [[about], "cpu", late.conclave.heapBytes],
    );
});

test("a tab that comes in mid-load hears how far it is, and stops it for itself only", async () => {
  let built = (): void => {};
  const { engine } = shared(endless, { building: new Promise((resolve) => (built = resolve)) });
  const heard: Record<string, unknown[]> = { one: [], two: [], three: [] };
  const lines = Object.fromEntries(
    Object.keys(heard).map((name) => [
      name,
      engine.connect({
        onReply: (reply) => heard[name]!.push(reply),
        onFailed: () => assert.fail(),
      }),
    ]),
  );
  lines["one"]!.receive({
    type: "open",
    id: 1,
    backend: "cpu",
    places: {
      engine: { worker: "w", wasm: "w" },
      openCore: { worker: "w", wasm: "w" },
      grammar: "https://host/g",
      remote: "https://host/r",
    },
  });
  const add = { type: "add", source: ada, contextTokens: 512 };
  lines["one"]!.receive({ ...add, id: 2 });
  while (heard["one"]!.length < 2) await later();
  lines["two"]!.receive({ ...add, id: 5 });
  lines["three"]!.receive({ ...add, id: 9 });
  const progress = {
    type: "progress",
    progress: { phase: "loading", loaded: 4, total: 4, rate: null, secondsLeft: null },
  };
  assert.deepEqual(heard["two"], [{ ...progress, id: 5 }]);
  lines["one"]!.receive({ type: "stop", id: 2 });
  lines["three"]!.end();
  assert.deepEqual(heard["one"]!.at(-1), { type: "aborted", id: 2 });
  built();
  while (heard["two"]!.length < 2) await later();
  assert.equal((heard["two"]!.at(-1) as { type: string }).type, "added");
  assert.equal(heard["three"]!.length, 1);
});

test("a load that all have stopped stops in the engine, and begins anew when asked", async () => {
  let built = (): void => {};
  const { tab, asked } = shared(endless, { building: new Promise((resolve) => (built = resolve)) });
  const [one, two] = [tab(), tab()];
  await Promise.all([one.conclave.ready, two.conclave.ready]);
  const controller = new AbortController();
  const adding = [one, two].map(({ conclave }) => conclave.add(ada, { signal: controller.signal }));
  for (const each of adding) each.catch(() => undefined);
  while (!asked.some(({ type }) => type === "add")) await later();
  controller.abort();
  setImmediate(built);
  // A request made during a stop is not stopped.
  const again = two.conclave.add(ada);
  for (const each of adding) await assert.rejects(each, isAbort);
  await again;
  assert.deepEqual(
    asked.map(({ type }) => type),
    ["open", "add", "stop", "add"],
  );
});

test("questions of both are answered at once, each with its own events", async () => {
  const { one, two } = await pair(endless);
  const both = await Promise.all([
    collect(one.conclave.ask(hello, { settings: { maxRounds: 2 } })),
    collect(two.conclave.ask(hello, { settings: { maxRounds: 5 } })),
  ]);
  assert.deepEqual(
    both.map((events) => [events.filter(({ type }) => type === "begin").length, end(events).text]),
    [
      [1, "la la "],
      [1, "la la la la la "],
    ],
  );
});

test("a stop ends the answer of its own tab alone, under way or waiting", async () => {
  const { one, two } = await pair();
  const stops = [new AbortController(), new AbortController()];
  const events: ConclaveEvent[] = [];
  const answering = (async () => {
    for await (const event of one.conclave.ask(hello, { settings: { maxRounds: 6 } })) {
      events.push(event);
      if (event.type === "round" && event.round === 2) stops[0]!.abort();
    }
  })();
  // Its own tab uses the same id.
  const waiting = collect(two.conclave.ask(hello, { signal: stops[0]!.signal }));
  assert.deepEqual([end(await waiting).stop, end(await waiting).text], ["stopped", ""]);
  await answering;
  assert.deepEqual([end(events).stop, end(events).text], ["rounds", "la ".repeat(6)]);

  // A waiting request is not stopped by a stop of the one under way.
  const first = (async () => {
    const told: ConclaveEvent[] = [];
    for await (const event of one.conclave.ask(hello, { signal: stops[1]!.signal })) {
      told.push(event);
      if (event.type === "round" && event.round === 2) stops[1]!.abort();
    }
    return told;
  })();
  const second = await collect(two.conclave.ask(hello, { settings: { maxRounds: 3 } }));
  assert.equal(end(await first).stop, "stopped");
  assert.deepEqual([end(second).stop, end(second).text], ["rounds", "la la la "]);
});

test("tabs take turns: one that asks much does not keep the other waiting", async () => {
  const { one, two, members } = await pair();
  const order: string[] = [];
  const ask = async ({ conclave }: Tab, name: string): Promise<void> => {
    for await (const event of conclave.ask(question(name), { settings: { maxRounds: 1 } }))
      if (event.type === "begin") order.push(members.get("Ada")!.messages[0]!.content);
  };
  await Promise.all([
    ask(one, "one 1"),
    ask(one, "one 2"),
    ask(one, "one 3"),
    ask(two, "two 1"),
    ask(two, "two 2"),
  ]);
  assert.deepEqual(order, ["one 1", "two 1", "one 2", "two 2", "one 3"]);
});

test("a tab gone in mid-answer passes its turn; a conversation ends with its tab", async () => {
  const { one, two, tab, engine, journal, ends, asked } = await pair();
  for await (const event of one.conclave.ask(hello))
    if (event.type === "round" && event.round === 2) break;
  // The caller has left; this tab leaves in the middle, as if closed.
  const gone = one.conclave.ask(hello);
  await gone.next();
  const waiting = collect(two.conclave.ask(hello, { settings: { maxRounds: 2 } }));
  one.line.end();
  assert.deepEqual(
    asked.slice(-2).map(({ type }) => type),
    ["stop", "end"],
  );
  assert.equal(end(await waiting).text, "la la ");

  const three = tab();
  await three.conclave.ready;
  await three.conclave.add(ada);
  for (const when of ["begun", "reading"]) {
    const begins = tab();
    await begins.conclave.ready;
    await begins.conclave.add(ada);
    const begun = begins.conclave.begin(hello).catch((error: unknown) => error);
    if (when === "begun") await begun;
    const later = collect(three.conclave.ask(hello, { settings: { maxRounds: 2 } }));
    begins.line.end();
    assert.equal(end(await later).text, "la la ", when);
  }
  assert.deepEqual([engine.lines, ends()], [2, 0]);
  two.line.end();
  three.line.end();
  assert.deepEqual(
    [engine.over, ends(), journal.at(-1)],
    [true, 1, "terminate"],
    "with the last tab the engine ends",
  );
});

test("conversations whose rounds a tab drives are its own, and have the engine alone", async () => {
  const { one, two } = await pair();
  const conversation = await one.conclave.begin(hello);
  const answer = collect(two.conclave.ask(hello, { settings: { maxRounds: 2 } }));
  const [draft] = await conversation.draft();
  assert.equal(draft?.text, "la ");
  await conversation.end();
  await assert.rejects(conversation.draft(), /over/);
  assert.equal(end(await answer).text, "la la ");
});

test("an engine that fails is told to all tabs, and a lost device is such a failure", async () => {
  const dead = await pair();
  const asked = Promise.allSettled(
    [dead.one, dead.two].map(({ conclave }) => collect(conclave.ask(hello))),
  );
  await later();
  dead.port.onerror?.({ message: "unreachable" } as ErrorEvent);
  for (const answer of await asked)
    assert.ok(
      answer.status === "rejected" &&
        answer.reason instanceof EngineFailure &&
        /unreachable/.test(answer.reason.message),
    );
  assert.equal(dead.ends(), 1);

  const lost = await pair();
  const answers = Promise.allSettled(
    [lost.one, lost.two].map(({ conclave }) => collect(conclave.ask(hello))),
  );
  await later();
  await lost.two.conclave.loseDevice();
  const reasons = (await answers).map(
    (answer) => answer.status === "rejected" && (answer.reason as unknown),
  );
  assert.ok(reasons[0] instanceof DeviceLost && reasons[1] instanceof EngineFailure);
  assert.deepEqual([lost.engine.over, lost.ends()], [true, 1]);

  const odd = await pair();
  odd.inject({ type: "nonsense" });
  const failed = collect(odd.one.conclave.ask(hello));
  await assert.rejects(failed, EngineFailure);
});

test("a member that was taken out is loaded again for who asks for it", async () => {
  const { one, two, asked } = await pair();
  await one.conclave.remove("Ada");
  await two.conclave.add(ada);
  assert.deepEqual(
    asked.map(({ type }) => type),
    ["open", "add", "models", "models", "remove", "add"],
  );
});
