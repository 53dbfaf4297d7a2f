/**
 * An answer that goes on from text accepted before, and drafts that are reported as they arrive.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "../testing/staged.ts";
import type { Script } from "../testing/scripted.ts";
import type { AskOptions, Conclave, ConclaveEvent } from "./conclave.ts";

const hello = [{ role: "user" as const, content: "hello" }];
const says = (first: string): Script => ({
  drafts: [
    { text: first, ended: false },
    { text: "two ", ended: false },
    { text: "three", ended: true },
  ],
  taste: () => 1,
});

async function collect(conclave: Conclave, options: AskOptions = {}): Promise<ConclaveEvent[]> {
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, options)) events.push(event);
  return events;
}

test("an answer continues after accepted text, which is in its end but in no round", async () => {
  const { conclave } = await open({ Ada: says("one "), Bo: says("one ") });
  const whole = await collect(conclave);
  const texts = (events: ConclaveEvent[]): string =>
    events.map((event) => (event.type === "round" ? event.text : "")).join("");
  const accepted = [{ text: "zero ", tokens: 1 }];
  const events = await collect(conclave, { accepted });
  assert.ok(texts(whole).length > 0);
  assert.ok(!texts(events).startsWith("zero "));
  const end = events.at(-1);
  assert.ok(end?.type === "end" && end.text === `zero ${texts(events)}`, JSON.stringify(end));
  await assert.rejects(collect(conclave, { accepted: 5 as unknown as [] }), {
    message: "ask.accepted must be a list; it was 5.",
  });
});

test("drafts and votes are reported before their round, and only if asked for", async () => {
  // Scripted members go on where their last answer ended.
  const fresh = async (): Promise<Conclave> =>
    (await open({ Ada: says("one "), Bo: says("uno ") })).conclave;
  const plain = await collect(await fresh());
  assert.ok(!plain.some(({ type }) => type === "draft" || type === "vote"));
  const events = await collect(await fresh(), { drafts: true });
  const types = events.map(({ type }) => type);
  const first = types.slice(types.indexOf("begin") + 1, types.indexOf("round") + 1);
  assert.deepEqual(first, ["draft", "draft", "vote", "round"]);
  const drafts = events.flatMap((event) => (event.type === "draft" ? [event] : []));
  assert.deepEqual(
    drafts.slice(0, 2).map(({ member, text, ended }) => ({ member, text, ended })),
    [
      { member: 0, text: "one ", ended: false },
      { member: 1, text: "uno ", ended: false },
    ],
  );
});
