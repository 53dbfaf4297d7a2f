/** Options of an answer: its length, its stop texts, too long conversations; and queueing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AskOptions } from "../library/conclave.ts";
import type { Message } from "../protocol/engine.ts";
import { ContextFull } from "../protocol/errors.ts";
import type { ConclaveEvent, EndEvent } from "../protocol/messages.ts";
import type { Script } from "../testing/scripted.ts";
import { begun, collect, file, hello, open, talker } from "../testing/staged.ts";

/** A member that drafts one word per segment; each character is a token. */
const counting: Script = {
  drafts: ["One ", "two ", "three ", "four."].map((text, index) => ({ text, ended: index === 3 })),
  taste: () => 1,
};

const ended = (events: ConclaveEvent[]): EndEvent => {
  const end = events.at(-1);
  assert.ok(end?.type === "end");
  return end;
};
const texts = (events: ConclaveEvent[]): string[] =>
  events.flatMap((event) => (event.type === "round" ? [event.text] : []));

test("an answer ends at the most tokens, and drafts no more than are left", async () => {
  const { conclave, journal } = await open({ Ada: counting });
  const events = await collect(
    conclave.ask(hello, { maxTokens: 8, settings: { segmentTokens: 6 } }),
  );
  assert.deepEqual(texts(events), ["One ", "two "]);
  const { stop, text, usage } = ended(events);
  assert.deepEqual(
    [stop, text, usage],
    ["tokens", "One two ", { promptTokens: 5, answerTokens: 8 }],
  );
  assert.deepEqual(
    journal.filter((entry) => /draft/.test(entry)).map((entry) => /draft (\d+)/.exec(entry)![1]),
    ["6", "4"],
  );
});

test("an answer that ends of itself with its last token has ended", async () => {
  const { conclave } = await open({ Ada: counting });
  assert.equal(ended(await collect(conclave.ask(hello, { maxTokens: 19 }))).stop, "ended");
});

test("an answer ends before a text of the caller's, also across segments", async () => {
  const { conclave } = await open({ Ada: counting });
  const events = await collect(conclave.ask(hello, { stop: ["o t"] }));
  assert.deepEqual(texts(events), ["One ", "tw", ""]);
  assert.deepEqual([ended(events).stop, ended(events).text], ["stop", "One tw"]);
  const { conclave: other } = await open({ Ada: counting });
  const whole = await collect(other.ask(hello, { stop: ["four.!"] }));
  assert.deepEqual(texts(whole), ["One ", "two ", "three ", ""], "it may have been the beginning");
  assert.deepEqual([ended(whole).stop, ended(whole).text], ["ended", "One two three four."]);
  await assert.rejects(collect(other.ask(hello, { stop: [""] })), {
    name: "Settings",
    message: /empty text/,
  });
});

test("options that mean nothing are refused by name", async () => {
  const { conclave } = await open({ Ada: talker });
  for (const [options, message] of [
    [{ max_tokens: 5 }, /^ask knows no "max_tokens"\. It knows .*maxTokens/],
    [{ settings: { segment: 5 } }, /^settings knows no "segment"/],
    [{ sampling: { top_p: 0.5 } }, /^sampling knows no "top_p"/],
  ] as const) {
    await assert.rejects(collect(conclave.ask(hello, options as unknown as AskOptions)), {
      name: "Settings",
      message,
    });
  }
  await assert.rejects(conclave.add({ name: "Bo", files: [file] }, { context: 5 } as object), {
    name: "Settings",
    message: /^add knows no "context"/,
  });
  await assert.rejects(conclave.add({ name: "Bo", file: "bo.gguf" } as never), {
    name: "Settings",
    message: /^a member knows no "file"/,
  });
});

test("a conversation is measured by each member", async () => {
  const { conclave } = await open({ Ada: talker, Bo: talker });
  assert.deepEqual(await conclave.measure(hello), [
    { member: "Ada", tokens: 5, room: 64 },
    { member: "Bo", tokens: 5, room: 64 },
  ]);
  assert.deepEqual(await conclave.measure(hello, { members: ["Bo"] }), [
    { member: "Bo", tokens: 5, room: 64 },
  ]);
  await assert.rejects(conclave.measure(hello, { members: ["Zoe"] }), { name: "Settings" });
});

const long: Message[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "first" },
  { role: "assistant", content: "one" },
  { role: "user", content: "second" },
  { role: "assistant", content: "two" },
  { role: "user", content: "third" },
];

test("too long a conversation loses its oldest questions, if the caller says so", async () => {
  const full = (call: number): Script => ({
    ...talker,
    failure: {
      move: "measure",
      call,
      error: Object.assign(new Error("70 tokens"), { name: "ContextFull" }),
    },
  });
  const { conclave, members } = await open({ Ada: full(1), Bo: full(2) });
  const events = await collect(conclave.ask(long, { overflow: "drop-oldest" }));
  assert.equal(begun(events).dropped, 4);
  assert.deepEqual(members.get("Ada")?.messages, [long[0], long[5]]);
  assert.equal(begun(await collect(conclave.ask(long))).dropped, 0);

  const { conclave: strict } = await open({ Ada: full(1) });
  await assert.rejects(collect(strict.ask(long)), ContextFull);
  const { conclave: none } = await open({ Ada: full(1) });
  await assert.rejects(
    collect(none.ask(hello, { overflow: "drop-oldest" })),
    ContextFull,
    "the last question is not left out",
  );
});

test("a cut conversation leaves the answer a quarter of the context, or its limit", async () => {
  // The quarter of 64 tokens is 16.
  const dropped = async (perMessage: number, limits: { maxTokens?: number } = {}) => {
    const { conclave } = await open({
      Ada: { ...talker, tokens: (messages) => messages.length * perMessage },
    });
    return begun(await collect(conclave.ask(long, { overflow: "drop-oldest", ...limits }))).dropped;
  };
  assert.equal(await dropped(8), 0, "6 messages take 48");
  assert.equal(await dropped(9), 2, "6 messages take 54, which fits, but leaves 10");
  assert.equal(await dropped(9, { maxTokens: 10 }), 0);
  assert.equal(await dropped(9, { maxTokens: 11 }), 2);
  assert.equal(await dropped(30), 4, "the system's message and the last question take 60");
  const { conclave } = await open({
    Ada: { ...talker, tokens: (messages) => messages.length * 9 },
  });
  assert.equal(
    begun(await collect(conclave.ask(long))).dropped,
    0,
    "nothing is left out unless the caller says so",
  );
});

test("who stops while another question is answered is told at once, and not answered", async () => {
  let goOn = (): void => {};
  const held = new Promise<void>((resolve) => (goOn = resolve));
  const { conclave, journal } = await open({
    Ada: { ...talker, onMove: (move) => (move.startsWith("draft") ? held : undefined) },
  });
  const first = collect(conclave.ask(hello));
  const controller = new AbortController();
  const second = collect(conclave.ask(hello, { signal: controller.signal }));
  await new Promise((resolve) => setTimeout(resolve, 5));
  controller.abort();
  const { stop, text } = ended(await second);
  assert.deepEqual([stop, text], ["stopped", ""]);
  goOn();
  assert.equal(ended(await first).stop, "ended");
  assert.equal(journal.filter((entry) => /begin/.test(entry)).length, 1);
  assert.equal(ended(await collect(conclave.ask(hello))).stop, "ended");
});

test("what a caller's function throws ends its request, and the engine answers on", async () => {
  const { conclave } = await open({ Ada: talker, Bo: talker });
  await conclave.remove("Bo");
  const onProgress = (): never => {
    throw new RangeError("of the page");
  };
  await assert.rejects(conclave.add({ name: "Bo", files: [file] }, { onProgress }), {
    name: "RangeError",
    message: "of the page",
  });
  assert.equal(ended(await collect(conclave.ask(hello))).stop, "ended");
});
