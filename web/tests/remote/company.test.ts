/**
 * Remote members in company: through the library, its worker and the rounds, with members of this
 * machine beside them.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { ConclaveEvent } from "../../src/protocol/messages.ts";
import { runRecord } from "../../src/page/run-record.ts";
import { OpenAiServer, type Abilities } from "../../src/testing/openai-server.ts";
import { rules, type Script } from "../../src/testing/scripted.ts";
import { collect, hello, open, type Stage } from "../../src/testing/staged.ts";
import type { Conclave } from "../../src/library/conclave.ts";
import { typed } from "../../src/protocol/errors.ts";
import { answer, leftIn, roundsOf } from "./answers.ts";
import { startRemote } from "./module.ts";

const key = "sk-very-secret-0123456789";
const opened: OpenAiServer[] = [];
after(() => Promise.all(opened.map((server) => server.close())));

/** Drafts a word a round, and likes every candidate alike. */
const near: Script = { drafts: [{ text: " near", ended: false }], taste: () => 1 };

/** Ensembles of scripted members and of one on a server, called Far. */
async function company(
  scripts: Record<string, Script>,
  { timeout = 2000, judge = false, ...can }: Abilities & { timeout?: number; judge?: boolean } = {},
): Promise<Stage & { conclave: Conclave; server: OpenAiServer }> {
  const server = await new OpenAiServer(can).open();
  opened.push(server);
  server.writes = { text: " far", ends: false };
  const made = await open(scripts, undefined, { startRemote });
  await made.conclave.add({
    name: "Far",
    remote: server.address,
    key,
    timeout,
    ...(judge ? { judge } : {}),
  });
  return { ...made, server };
}

const whole = (events: ConclaveEvent[]): string =>
  roundsOf(events)
    .map(({ text }) => text)
    .join("");

test("a member behind a server drafts and scores beside those here, which is told", async () => {
  const { conclave, server } = await company({ Near: near });
  const about = conclave.members[1]!;
  assert.deepEqual(about.remote, {
    host: `127.0.0.1:${server.port}`,
    model: "words",
    can: "drafts and scores",
    note: "",
  });
  assert.equal(about.core, undefined);
  const [round, ...others] = roundsOf(await answer(conclave, 2));
  assert.equal(others.length, 1);
  assert.deepEqual(
    [round!.active, round!.remote, round!.abstained, round!.drafters],
    [[0, 1], [1], [], [0, 1]],
  );
  assert.deepEqual(
    round!.candidates.map(({ member, text }) => [member, text]),
    [
      ["Near", " near"],
      ["Far", " far"],
    ],
  );
  assert.ok(round!.scores[1]![0]!.harmonic! < 0 && round!.scores[1]![0]!.meanLogit === undefined);
  conclave.close();
});

test("a judge has a row, no candidate; a server without scores a candidate, no row", async () => {
  const judged = await company(
    { One: near, Two: { ...near, drafts: [{ text: " two", ended: false }] } },
    { judge: true },
  );
  judged.server.names = (ballot) => /([AB]): " two"/.exec(ballot)?.[1] ?? "A";
  const [round] = roundsOf(await answer(judged.conclave, 1));
  assert.deepEqual([round!.drafters, round!.remote, round!.abstained], [[0, 1], [2], []]);
  assert.ok(round!.scores[2]![1]!.preference! > 0.7);
  assert.equal(round!.winner, 1, "the two are of two minds, the judge decides");
  judged.conclave.close();

  const { conclave } = await company({ Near: near }, { echo: false });
  const [other] = roundsOf(await answer(conclave, 1));
  assert.deepEqual([other!.drafters, other!.abstained, other!.scores[1]], [[0, 1], [1], []]);
  conclave.close();
});

test("judges alone have nothing to judge", async () => {
  const { conclave } = await company({ Near: near }, { judge: true });
  await assert.rejects(
    collect(conclave.ask(hello, { members: ["Far"] })),
    (error: unknown) => typed(error).kind === "Remote" && /drafts/.test(typed(error).message),
  );
  conclave.close();
});

test("those who can be held to a schema draft its answer; a server's member scores", async () => {
  const { conclave, server } = await company({ Near: near });
  const responseFormat = { type: "json_schema", schema: { type: "object" } } as const;
  const before = server.asked.length;
  const rounds = roundsOf(await answer(conclave, 2, { responseFormat }));
  assert.equal(rounds.length, 2);
  for (const { active, drafters, remote, abstained, scores } of rounds) {
    assert.deepEqual([active, drafters, remote, abstained], [[0, 1], [0], [1], []]);
    assert.ok(scores[1]![0]!.harmonic! < 0);
  }
  const completions = server.asked.slice(before).filter(({ path }) => path === "/v1/completions");
  assert.ok(
    completions.length > 0 && completions.every(({ body }) => (body as { echo?: boolean }).echo),
    "it is asked for scores alone",
  );
  // Without a form it drafts again.
  const [again] = roundsOf(await answer(conclave, 1));
  assert.deepEqual(again!.drafters, [0, 1]);
  conclave.close();
});

test("members behind servers alone are asked for no document", async () => {
  const { conclave } = await company({ Near: near });
  const responseFormat = { type: "json_object" } as const;
  const refused = (error: unknown): boolean =>
    typed(error).kind === "Settings" &&
    /behind servers can't be held to a schema/.test(typed(error).message);
  await assert.rejects(collect(conclave.ask(hello, { members: ["Far"], responseFormat })), refused);
  await assert.rejects(conclave.begin(hello, { members: ["Far"], responseFormat }), refused);
  const [round] = roundsOf(await answer(conclave, 1, { members: ["Far"] }));
  assert.deepEqual(round!.drafters, [0]);
  conclave.close();
});

test("where all who can be held to a schema leave, the answer ends with its text", async () => {
  const leaves: Script = {
    ...near,
    onMove: (move, call) => {
      if (move === "draft" && call > 1) throw new Error("It broke down.");
    },
  };
  const { conclave } = await company({ Near: leaves });
  const failed = (error: unknown): boolean =>
    typed(error).kind === "Remote" &&
    /drafts/.test(typed(error).message) &&
    typed(error).partial === " near";
  await assert.rejects(answer(conclave, 3, { responseFormat: { type: "json_object" } }), failed);
  conclave.close();
});

test("members here draft while one elsewhere answers", async () => {
  const takes = 600;
  const wait = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, takes));
  const { conclave, server } = await company({
    Near: { ...near, onMove: (move) => (move === "draft" ? wait() : undefined) },
  });
  server.faults.push({ path: "/completions", fault: { after: takes } });
  const [round] = roundsOf(await answer(conclave, 1));
  assert.equal(round!.candidates.length, 2);
  assert.ok(
    round!.ms.draft >= takes - 5 && round!.ms.draft < 1.8 * takes,
    `both took ${round!.ms.draft} ms`,
  );
  conclave.close();
});

test("who is late abstains, and leaves with its third late round; the others go on", async () => {
  const { conclave, server } = await company({ Near: near }, { timeout: 500 });
  // In the second and the third round it hangs on the draft, in the fourth on the scores.
  const completions = [0, 0, 1, 0, 1, 0, 0, 1];
  for (const hangs of completions)
    server.faults.push({ path: "/completions", fault: hangs ? "hang" : { after: 0 } });
  const events = await answer(conclave, 6);
  const rounds = roundsOf(events);
  assert.equal(rounds.length, 6);
  assert.deepEqual(
    rounds.slice(0, 4).map(({ drafters }) => drafters),
    [[0, 1], [0], [0], [0]],
  );
  assert.deepEqual(rounds[0]!.abstained, []);
  assert.deepEqual(
    leftIn(events).map(({ round, member, error }) => [round, member, error.kind]),
    [[4, "Far", "Remote"]],
  );
  assert.deepEqual(rounds[5]!.active, [0]);
  assert.equal(events.at(-1)?.type, "end");
  conclave.close();
});

test("where everybody is late the round is begun anew, and nothing is lost", async () => {
  const { conclave, server } = await company({}, { timeout: 500 });
  server.faults.push(
    { path: "/completions", fault: { after: 0 } },
    { path: "/completions", fault: { after: 0 } },
    { path: "/completions", fault: "hang" },
  );
  assert.equal(whole(await answer(conclave, 3)), " far far far");
  conclave.close();
});

test("where everybody is late three times the answer ends, with its text so far", async () => {
  const { conclave, server } = await company({}, { timeout: 500 });
  server.faults.push(
    { path: "/completions", fault: { after: 0 } },
    { path: "/completions", fault: { after: 0 } },
  );
  for (let time = 0; time < 3; time++) server.faults.push({ path: "/completions", fault: "hang" });
  await assert.rejects(
    answer(conclave, 9),
    (error: unknown) => typed(error).kind === "Remote" && typed(error).partial === " far",
  );
  assert.equal(server.faults.length, 0);
  conclave.close();
});

for (const status of [401, 404]) {
  test(`a server that answers ${status} leaves the answer to the others, at once`, async () => {
    const { conclave, server } = await company({ Near: near });
    server.faults.push({
      path: "/completions",
      fault: { status, body: `{"error":{"message":"no ${key}"}}` },
    });
    const events = await answer(conclave, 2);
    assert.deepEqual(
      leftIn(events).map(({ round, member }) => [round, member]),
      [[1, "Far"]],
    );
    assert.equal(whole(events), " near near");
    const again = await answer(conclave, 1);
    assert.deepEqual(
      roundsOf(again)[0]!.active,
      [0, 1],
      "with the next question it is asked again",
    );
    conclave.close();
  });
}

test("a stop does not wait for a server", async () => {
  const { conclave, server } = await company({ Near: near }, { timeout: 60_000 });
  server.faults.push({ path: "/completions", fault: "hang" });
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 50);
  const began = performance.now();
  const events = await answer(conclave, 3, { signal: stop.signal });
  assert.ok(performance.now() - began < 5000);
  assert.equal(events.at(-1)?.type === "end" && events.at(-1), events.at(-1));
  conclave.close();
});

test("a leader behind a server that is late leaves the round to the others", async () => {
  const { conclave, server } = await company(
    { Near: { ...near, taste: () => 9 } },
    { timeout: 500 },
  );
  const led = { ...rules.leader, maxRounds: 2 };
  server.writes = { text: " far", ends: false };
  server.faults.push({ path: "/completions", fault: "hang" });
  const rounds = roundsOf(
    await collect(conclave.ask(hello, { settings: led, members: ["Far", "Near"] })),
  );
  assert.deepEqual(rounds[0]!.drafters, [1]);
  assert.equal(rounds.length, 2);
  conclave.close();
});

test("the key is in no message, no event, no record and no error", async () => {
  const { conclave, server, port } = await company({ Near: near });
  const heard: string[] = [];
  const { onmessage } = port;
  port.onmessage = (event) => {
    heard.push(JSON.stringify(event.data));
    onmessage?.(event);
  };
  server.faults.push(
    { path: "/completions", fault: { after: 0 } },
    { path: "/completions", fault: { after: 0 } },
    {
      path: "/completions",
      fault: { status: 400, body: `{"error":{"message":"what is ${key}?"}}` },
    },
  );
  const events = await answer(conclave, 3);
  assert.ok(heard.length > 3 && leftIn(events).length === 1);
  const rounds = roundsOf(events);
  const { settings, sampling, thinking } = events.find((event) => event.type === "begin")!;
  const adapter = { name: "", vendor: "", architecture: "", backend: "", software: false };
  const record = runRecord({
    members: ["Near", "Far"],
    cores: ["fused", "remote"],
    strengths: [1, null],
    chats: [true, true],
    settings,
    sampling,
    thinking,
    thoughts: [],
    left: leftIn(events),
    backend: "cpu",
    adapter,
    messages: hello,
    rounds,
    stop: "rounds",
  });
  for (const text of [
    ...heard,
    JSON.stringify(events),
    JSON.stringify(record),
    JSON.stringify(conclave.members),
  ])
    assert.ok(!text.includes(key), text);
  conclave.close();
});

test("a server that is not there, or can nothing, is no member; those that are stay", async () => {
  const { conclave, server } = await company({ Near: near });
  await assert.rejects(conclave.add({ name: "Far", remote: server.address }), /called Far already/);
  const nothing = await new OpenAiServer({ completions: false, chat: false }).open();
  opened.push(nothing);
  await assert.rejects(
    conclave.add({ name: "Nothing", remote: nothing.address }),
    (error: unknown) => typed(error).kind === "Remote",
  );
  await assert.rejects(
    conclave.add({ name: "Clear", remote: "http://example.org/v1" }),
    (error: unknown) => typed(error).kind === "Reference",
  );
  assert.deepEqual(
    conclave.members.map(({ name }) => name),
    ["Near", "Far"],
  );
  await conclave.remove("Far");
  assert.equal(roundsOf(await answer(conclave, 1))[0]!.active.length, 1);
  conclave.close();
});

test("move by move, one that abstains gives an empty draft and an empty row", async () => {
  const { conclave } = await company({ Near: near }, { echo: false });
  const conversation = await conclave.begin(hello);
  assert.deepEqual(
    (await conversation.draft()).map(({ text }) => text),
    [" near", " far"],
  );
  const scores = await conversation.verify([{ text: " mine", ended: false }]);
  assert.deepEqual([scores[0]!.length, scores[1]!.length], [1, 0]);
  await conversation.keep(0);
  await conversation.end();
  conclave.close();
});
