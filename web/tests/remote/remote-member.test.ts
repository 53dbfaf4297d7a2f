/**
 * A member on a server over real HTTP, with the module that has the protocol: its capabilities, its
 * requests, and the handling of every fault.
 */
import { defaultSampling } from "../../src/protocol/generated-settings.ts";
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ContextFull, RemoteFailure, typed } from "../../src/protocol/errors.ts";
import type { MemberSource } from "../../src/protocol/messages.ts";
import { OpenAiServer, type Abilities, type Fault } from "../../src/testing/openai-server.ts";
import { settings } from "../../src/testing/scripted.ts";
import { RemoteMember } from "../../src/worker/remote/remote-member.ts";
import { module } from "./module.ts";

const never = new AbortController().signal;
const sampling = { ...defaultSampling, seed: 5 };
const question = [{ role: "user" as const, content: "Well?" }];
const key = "sk-very-secret-0123456789";
const opened: OpenAiServer[] = [];
after(() => Promise.all(opened.map((server) => server.close())));

async function serve(can?: Abilities): Promise<OpenAiServer> {
  const server = await new OpenAiServer(can).open();
  opened.push(server);
  return server;
}

const join = (server: OpenAiServer, source: Partial<MemberSource> = {}): Promise<RemoteMember> =>
  RemoteMember.connect(
    { name: "Far", remote: server.address, timeout: 2000, ...source },
    module,
    never,
  );

/** Waits for a condition that a busy machine may reach late. */
async function until(holds: () => boolean): Promise<void> {
  for (let wait = 0; wait < 2000 && !holds(); wait++)
    await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A member on this server that has begun a conversation. */
async function begun(server: OpenAiServer, source?: Partial<MemberSource>): Promise<RemoteMember> {
  const member = await join(server, source);
  await member.begin(question, sampling, 1);
  return member;
}

test("what a server can is asked once, and told", async () => {
  const can = async (abilities: Abilities, source?: Partial<MemberSource>): Promise<string> =>
    (await join(await serve(abilities), source)).remote.can;
  assert.equal(await can({}), "drafts and scores");
  assert.equal(await can({ echo: false }), "drafts only");
  assert.equal(await can({ completions: false }), "judges only");
  assert.equal(await can({ template: false }), "judges only");
  assert.equal(
    await can({ template: false }, { turn: "<{role}>{content}</s>" }),
    "drafts and scores",
  );
  assert.equal(await can({}, { judge: true }), "judges only");
  await assert.rejects(can({ completions: false, chat: false }), RemoteFailure);
  await assert.rejects(can({ models: false }), /Name one/);
  assert.equal(await can({ models: false }, { model: "words" }), "drafts and scores");
  const server = await serve({ template: false });
  server.names = () => "I would rather not";
  await assert.rejects(join(server), /chat template.*names no letter/);
  const { about, remote } = await join(await serve());
  assert.equal(about.call(await join(await serve())).context, 512);
  assert.deepEqual([remote.model, remote.note], ["words", ""]);
});

test("a draft goes behind what was accepted, with the sampling, and says if it ends", async () => {
  const server = await serve();
  const member = await begun(server, { key });
  server.writes = { text: " it is a fine day", ends: false };
  assert.deepEqual(await member.draft(3), { text: " it is a", ended: false, tokens: 3 });
  const { seed, ...body } = server.bodies("/v1/completions").at(-1)!;
  assert.deepEqual(body, {
    model: "words",
    prompt: "<user>Well?<assistant>",
    max_tokens: 3,
    temperature: 0.6,
    top_p: 0.9,
    // What opens the next turn in its template.
    stop: ["<user>"],
  });
  await member.verify([{ text: " it is", ended: false }], settings);
  await member.keep(0);
  server.writes = { text: " so.\ufffd", ends: true };
  assert.deepEqual(await member.draft(8), { text: " so.", ended: true, tokens: 1 });
  const next = server.bodies("/v1/completions").at(-1)!;
  assert.equal(next["prompt"], "<user>Well?<assistant> it is");
  assert.notEqual(next["seed"], seed, "another round draws other numbers");
  assert.ok(
    server.asked.every(
      ({ headers, path, body }) =>
        headers.authorization === `Bearer ${key}` &&
        !path.includes(key) &&
        !JSON.stringify(body).includes(key),
    ),
  );
});

test("all candidates are scored in one request, each by its own words", async () => {
  const server = await serve();
  const member = await begun(server, { turn: "<{role}>{content} </s>" });
  const before = server.asked.length;
  const scores = await member.verify(
    [
      { text: " one two", ended: false },
      { text: " three", ended: true },
      { text: "", ended: true },
    ],
    settings,
  );
  assert.equal(server.asked.length, before + 1);
  assert.deepEqual(server.bodies("/v1/completions").at(-1)!["prompt"], [
    "<user>Well? </s><assistant> one two",
    "<user>Well? </s><assistant> three</s>",
    "<user>Well? </s><assistant></s>",
  ]);
  assert.equal(scores.length, 3);
  assert.ok(
    Math.abs(scores[0]!.meanLogprob! + 0.4) < 1e-9,
    "the words of four letters with their spaces",
  );
  assert.equal(scores[0]!.tokens, 2);
});

test("a judge sees candidates in two orders, equal words once; its row is its taste", async () => {
  const server = await serve({ completions: false });
  server.names = (ballot) => /([A-C]): "right"/.exec(ballot)?.[1] ?? "A";
  const member = await begun(server);
  assert.equal(await member.draft(5), undefined);
  const before = server.bodies("/v1/chat/completions").length;
  const candidates = ["wrong", "right", "also wrong", "right"].map((text) => ({
    text,
    ended: false,
  }));
  const row = await member.verify(candidates, settings);
  assert.equal(server.bodies("/v1/chat/completions").length, before + 2);
  assert.equal(row.length, 4);
  assert.ok(
    row[1]!.preference === row[3]!.preference && row[1]!.preference! > 3 * row[0]!.preference!,
  );
  assert.deepEqual(
    await member.verify([candidates[0]!], settings),
    [{ preference: 1, tokens: 0 }],
    "one candidate is no question",
  );
  server.names = () => "neither";
  assert.deepEqual(await member.verify(candidates, settings), [], "who names none abstains");
});

test("a judge that thinks has room to, and is asked in the words that its server takes", async () => {
  const server = await serve({ completions: false });
  const limits = (): unknown[] =>
    server
      .bodies("/v1/chat/completions")
      .splice(0)
      .map((body) => body["max_tokens"] ?? body["max_completion_tokens"]);
  const candidates = ["wrong", "right"].map((text) => ({ text, ended: false }));
  server.names = (ballot) => /([A-B]): "right"/.exec(ballot)?.[1] ?? "A";
  assert.equal((await (await begun(server)).verify(candidates, settings)).length, 2);
  assert.deepEqual([...new Set(limits())], [16], "one that does not think is asked for a word");
  server.thinks = 700;
  assert.equal((await (await begun(server)).verify(candidates, settings)).length, 2);
  const asked = server.bodies("/v1/chat/completions").length;
  server.thinks = 5000;
  const tired = await begun(server, { judge: true }).catch((error: unknown) => error);
  assert.ok(tired instanceof RemoteFailure && /thoughts took its whole/.test(tired.message));
  assert.equal(server.bodies("/v1/chat/completions").length, asked + 2, "asked once more, no more");
  server.thinks = 700;
  server.insists = true;
  assert.equal((await (await begun(server)).verify(candidates, settings)).length, 2);
  const last = server.bodies("/v1/chat/completions").at(-1)!;
  assert.deepEqual(
    [last["max_tokens"], last["max_completion_tokens"], last["temperature"]],
    [undefined, 4096, undefined],
  );
});

for (const [name, fault] of Object.entries<Fault>({
  "429 with Retry-After": { status: 429, headers: { "retry-after": "0" } },
  503: { status: 503 },
  "500 with a page": { status: 500, body: "<html>" },
  "a line that breaks": "cut",
})) {
  test(`${name} is tried again, and told by nobody`, async () => {
    const server = await serve();
    const member = await begun(server);
    server.faults.push({ path: "/completions", fault }, { path: "/completions", fault });
    assert.equal((await member.draft(3))?.text, " and so on");
    server.faults.push({ path: "/completions", fault });
    assert.equal((await member.verify([{ text: " a", ended: false }], settings)).length, 1);
  });
}

test("a server that restarts in mid-answer is waited for", async () => {
  const server = await serve();
  const member = await begun(server, { timeout: 20_000 });
  await server.close();
  const drafting = member.draft(3);
  await new Promise((resolve) => setTimeout(resolve, 300));
  await server.open();
  assert.equal((await drafting)?.text, " and so on");
});

test("who is late abstains, in time, and fails with the third late round in a row", async () => {
  const server = await serve();
  const member = await begun(server, { timeout: 500 });
  const late = async (): Promise<unknown> => {
    server.faults.push({ path: "/completions", fault: "hang" });
    const began = performance.now();
    const draft = await member.draft(3);
    assert.ok(performance.now() - began < 10_000);
    return draft;
  };
  assert.equal(await late(), undefined);
  server.faults.push({ path: "/completions", fault: "hang" });
  assert.deepEqual(
    await member.verify([{ text: " a", ended: false }], settings),
    [],
    "the same round is late once",
  );
  await member.keep(0);
  assert.equal((await member.draft(3))?.text, " and so on", "and the next one in time");
  assert.equal(
    server.bodies("/completions").at(-1)!["prompt"],
    "<user>Well?<assistant> a",
    "what it was late for it has all the same",
  );
  await member.keep(0);
  for (const text of [" b", " c"]) {
    assert.equal(await late(), undefined);
    await member.verify([{ text, ended: false }], settings);
    await member.keep(0);
  }
  await assert.rejects(
    late(),
    (error: unknown) =>
      error instanceof RemoteFailure &&
      /missed 3 rounds in a row/.test(error.message) &&
      /did not answer/.test(error.message),
  );
  await member.begin(question, sampling, 1);
  assert.equal((await member.draft(3))?.text, " and so on", "the next answer begins anew");
});

test("a stop ends a request at once, and the server is let go", async () => {
  const server = await serve();
  const member = await begun(server, { timeout: 60_000 });
  const drafts = (): number => server.bodies("/v1/completions").length;
  const asked = drafts();
  server.faults.push({ path: "/completions", fault: "hang" });
  const stop = new AbortController();
  const drafting = member.draft(3, 0, false, stop.signal);
  await until(() => drafts() > asked);
  const began = performance.now();
  stop.abort();
  assert.equal(await drafting, undefined);
  assert.ok(performance.now() - began < 20_000);
  await until(() => server.given > 0);
  assert.equal(server.given, 1);
});

for (const status of [401, 403]) {
  test(`${status} is told at once, without the key`, async () => {
    const server = await serve();
    const member = await begun(server, { key });
    server.faults.push({
      path: "/completions",
      fault: {
        status,
        body: JSON.stringify({ error: { message: `Incorrect API key provided: ${key}` } }),
      },
    });
    const error = typed(await member.draft(3).catch((thrown: unknown) => thrown));
    assert.equal(error.kind, "Remote");
    assert.match(error.message, /refuses the key/);
    assert.ok(!error.message.includes(key));
  });
}

test("what a server says against a request is told in a line, without the key", async () => {
  const server = await serve();
  const member = await begun(server, { key });
  const refuse = (status: number, message: string): unknown =>
    server.faults.push({
      path: "/completions",
      fault: { status, body: JSON.stringify({ error: { message } }) },
    });
  refuse(400, `You sent ${key}\n\u0007and "nonsense" ${"x".repeat(500)}`);
  const error = typed(await member.draft(3).catch((thrown: unknown) => thrown));
  assert.match(error.message, /answered 400 \(You sent … and "nonsense" x+\)/);
  assert.ok(
    !error.message.includes(key) && error.message.length < 400 && !error.message.includes("\n"),
  );
  refuse(400, "This model's maximum context length is 512 tokens.");
  await assert.rejects(member.draft(3), ContextFull);
  refuse(404, "The model `words` does not exist.");
  await assert.rejects(member.draft(3), /no such path or model \(The model/);
});

test("answers that are none, and those without an end, are refused", async () => {
  const server = await serve();
  const member = await begun(server, { timeout: 20_000 });
  server.faults.push({ path: "/completions", fault: "garbage" });
  await assert.rejects(member.draft(3), /no JSON/);
  server.faults.push({ path: "/completions", fault: "endless" });
  await assert.rejects(member.draft(3), /more than 64 MiB/);
  server.faults.push({
    path: "/completions",
    fault: { status: 200, body: '{"choices":[{"text":7}]}' },
  });
  await assert.rejects(member.draft(3), /unexpected shape/);
});

test("a draft longer than was asked for is none: the others would have to read it", async () => {
  const server = await serve();
  const member = await begun(server);
  server.writes = { text: "x".repeat(353), ends: false };
  await assert.rejects(member.draft(3), /more tokens than it was asked for/);
  server.writes = { text: "x".repeat(352), ends: false };
  assert.equal((await member.draft(3))?.text.length, 352);
});

test("a redirect is not followed: neither the key nor the question goes elsewhere", async () => {
  const [server, other] = [await serve(), await serve()];
  const member = await begun(server, { key });
  server.faults.push({
    path: "/completions",
    fault: { status: 307, headers: { location: `${other.address}/completions` } },
  });
  await assert.rejects(member.draft(3), /sends elsewhere, which is not followed/);
  assert.equal(other.asked.length, 0);
});

test("an address in the clear, with a key, or that is none is refused unsent", async () => {
  const refused = async (remote: string): Promise<string> =>
    typed(
      await RemoteMember.connect({ name: "Far", remote }, module, never).catch(
        (thrown: unknown) => thrown,
      ),
    ).message;
  assert.match(await refused("http://example.org/v1"), /in the clear/);
  assert.match(await refused("example.org"), /begins with https/);
  assert.match(await refused("ftp://example.org"), /begins with https/);
  for (const secret of [
    "https://me:hunter2@example.org/v1",
    "https://example.org/v1?key=hunter2",
    "https://example.org/v1#hunter2",
  ]) {
    const message = await refused(secret);
    assert.match(message, /holds no key/);
    assert.ok(!message.includes("hunter2"));
  }
  const server = await serve();
  await assert.rejects(join(server, { turn: "no place for it" }), /no \{content\}/);
  await assert.rejects(join(server, { ref: "hf:a/b" }), /no files here/);
  assert.equal(server.asked.length, 0);
  assert.equal(
    (await RemoteMember.connect({ name: "Far", remote: `${server.address}/` }, module, never))
      .remote.host,
    `127.0.0.1:${server.port}`,
  );
});

test("too long a conversation is told unsent, one that can't be rendered by a draft", async () => {
  const server = await serve();
  const member = await join(server);
  await assert.rejects(member.measure([{ role: "user", content: "x".repeat(4000) }]), ContextFull);
  server.faults.push(
    { path: "/apply-template", fault: { status: 400 } },
    { path: "/apply-template", fault: { status: 400 } },
  );
  assert.equal((await member.begin(question, sampling, 0)).stopped, false);
  await assert.rejects(member.draft(3), RemoteFailure);
});
