/**
 * Prompts are not read twice: turns of conversations, and a system prompt from one visit to the
 * next.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoadOptions, Message } from "../../src/library/conclave.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");

/** For each member: tokens of the conversation, and how many had to be run. */
type Prefixes = { prefix: number; run: number }[];

/**
 * Asks conversations in turn in an engine of its own; returns the tokens run for each, and its
 * answer.
 */
function ask(
  visitor: Visitor,
  conversations: Message[][],
  options: LoadOptions = {},
): Promise<{ prefixes: Prefixes[]; answers: string[]; kept: number }> {
  const keeps = !("keepPrompts" in options);
  return visitor.page.evaluate(
    async ({ conversations, options, keeps }) => {
      const { Conclave } = (await import(
        new URL("./library/conclave.js", document.baseURI).href
      )) as typeof import("../../src/library/conclave.ts");
      const conclave = await Conclave.load({ backend: "cpu", ...options });
      const [prefixes, answers]: [Prefixes[], string[]] = [[], []];
      for (const messages of conversations) {
        for await (const event of conclave.ask(messages, {
          sampling: { seed: 5 },
          settings: { maxRounds: 3 },
        })) {
          if (event.type === "begin") prefixes.push(event.prefixes);
          if (event.type === "end") answers.push(event.text);
        }
      }
      // Prompts are written once nothing has been requested for a second, one member after the
      // other, with delays on a busy machine.
      let kept = 0;
      for (
        let [same, looks] = [0, 0];
        same < 6 && (kept > 0 || looks < (keeps ? 200 : 12));
        looks++
      ) {
        await new Promise((done) => setTimeout(done, 500));
        const now = (await conclave.models()).prompts;
        same = now === kept && now > 0 ? same + 1 : 0;
        kept = now;
      }
      conclave.close();
      return { prefixes, answers, kept };
    },
    { conversations, options, keeps },
  );
}

const user = (content: string): Message => ({ role: "user", content });
const fox = user(
  `Tell me a short story about a fox. ${"The fox went over the hill and home. ".repeat(12)}`,
);
const goose = user(
  `Tell me a short story about a goose. ${"The goose went over the lake and home. ".repeat(12)}`,
);

test("two conversations in turns run only what is new", async () => {
  const visitor = await stand.arrive({
    search: "bench.html",
    loaded: false,
  });
  for (const threads of [1, 3]) {
    const answer: Message = { role: "assistant", content: "It went home." };
    const { prefixes } = await ask(
      visitor,
      [[fox], [goose], [fox, answer, user("And then?")], [goose, answer, user("And then?")]],
      { threads, keepPrompts: false },
    );
    assert.equal(prefixes.length, 4);
    for (const [index, members] of prefixes.entries()) {
      for (const { prefix, run } of members)
        assert.ok(
          index < 2 ? run > prefix / 2 : run < 64 && prefix > 128,
          `conversation ${index}: ${run} of ${prefix} tokens ran`,
        );
    }
  }
  await visitor.leaveClean();
});

/** Changes a byte in the middle of each kept prefix; returns their number. */
async function damage(visitor: Visitor): Promise<number> {
  return visitor.page.evaluate(async () => {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(
      "conclave-prompts",
    );
    let count = 0;
    for await (const handle of (
      root as unknown as { values(): AsyncIterable<FileSystemDirectoryHandle> }
    ).values()) {
      const file = await handle.getFileHandle("prefix");
      const bytes = new Uint8Array(await (await file.getFile()).arrayBuffer());
      bytes[bytes.length >> 1]! ^= 1;
      const writable = await file.createWritable();
      await writable.write(bytes);
      await writable.close();
      count++;
    }
    return count;
  });
}

test("a system prompt is read at the first visit, and if damaged only read again", async () => {
  const system: Message = {
    role: "system",
    content: `You tell short stories. ${"Be kind, be brief, and use plain words. ".repeat(12)}`,
  };
  const conversation = [[system, user("What is 347 + 586?")]];
  const visitor = await stand.arrive({
    search: "bench.html",
    loaded: false,
  });
  const read = ({ prefixes }: { prefixes: Prefixes[] }, what: string, isRead: boolean): void => {
    for (const { prefix, run } of prefixes[0]!)
      assert.ok(
        prefix > 128 && (isRead ? run === prefix : run < 64),
        `${what}: ${run} of ${prefix} tokens ran`,
      );
  };
  const first = await ask(visitor, conversation, { keepPrompts: false });
  read(first, "switched off", true);
  assert.equal(first.kept, 0);
  read(await ask(visitor, conversation), "a first visit", true);

  await visitor.page.reload();
  const second = await ask(visitor, conversation);
  read(second, "a second visit", false);
  assert.deepEqual(second.answers, first.answers);
  read(
    await ask(visitor, [[system, user("Tell me a short story about a fox.")]], { threads: 1 }),
    "another question, in one thread",
    false,
  );

  await visitor.page.reload();
  assert.equal(await damage(visitor), 3);
  const third = await ask(visitor, conversation);
  read(third, "damaged", true);
  assert.deepEqual(third.answers, first.answers);
  read(await ask(visitor, conversation), "kept anew", false);
  await visitor.leaveClean();
});
