/**
 * Driving the method's steps by hand gives the same answer as `ask`, without other requests in
 * between.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { BadSettings, DeviceLost, EngineFailure } from "./conclave.ts";
import { collect, hello, open, talker, settle } from "../testing/staged.ts";

const two = {
  Ada: talker,
  Bo: {
    ...talker,
    drafts: [{ text: "Well,", ended: false }],
    taste: (text: string) => text.length,
  },
};

test("members draft, verify what is given, and keep one of it, in the caller's order", async () => {
  for (const cores of [1, 2]) {
    const { conclave, journal, members } = await open(two, cores);
    const conversation = await conclave.begin(hello, { sampling: { seed: 7 } });
    assert.deepEqual(
      [conversation.members, conversation.prefixes],
      [
        ["Ada", "Bo"],
        [5, 5],
      ],
    );
    const drafts = await conversation.draft();
    assert.deepEqual(
      drafts.map(({ text }) => text),
      ["Hello", "Well,"],
    );
    assert.deepEqual(
      (await conversation.draft({ members: ["Bo"], maxTokens: 3 })).map(({ text }) => text),
      ["Well,"],
    );
    const scores = await conversation.verify([...drafts, { text: "My own words.", ended: true }]);
    assert.deepEqual(
      scores.map((row) => row.map(({ meanLogit }) => meanLogit)),
      [
        [1, 1, 1],
        [5, 5, 13],
      ],
    );
    await conversation.keep(2);
    await conversation.end();
    assert.deepEqual(
      journal.filter((entry) => entry.startsWith("Bo ")),
      [
        "Bo measure",
        "Bo begin",
        "Bo draft 10",
        "Bo draft 3",
        'Bo verify "Hello","Well,","My own words."',
        "Bo keep 2",
      ],
    );
    assert.equal(members.get("Ada")?.sampling?.seed, 7);
    assert.equal(
      (await collect(conclave.ask(hello))).at(-1)?.type,
      "end",
      "the engine is free again",
    );
  }
});

test("a question waits until the conversation has ended", async () => {
  const { conclave, journal } = await open(two);
  const conversation = await conclave.begin(hello, { members: ["Bo"] });
  const answered = collect(conclave.ask(hello, { members: ["Ada"] }));
  await settle();
  assert.ok(!journal.some((entry) => entry.startsWith("Ada ")), journal.join(", "));
  await conversation.draft();
  await conversation.end();
  assert.equal((await answered).at(-1)?.type, "end");
});

test("a move beside another is refused, and an end waits for the one under way", async () => {
  for (const cores of [1, 2]) {
    const drafted = new Promise<void>((resolve) => setTimeout(resolve, 20));
    const slow = { ...talker, onMove: (move: string) => (move === "draft" ? drafted : undefined) };
    const { conclave, journal } = await open({ Ada: slow, Bo: talker }, cores);
    const conversation = await conclave.begin(hello);
    const draft = conversation.draft();
    await assert.rejects(conversation.verify([{ text: "a", ended: false }]), {
      name: "Settings",
      message: /is under way\. Wait for it first\./,
    });
    const ended = conversation.end();
    const answered = collect(conclave.ask(hello));
    assert.equal((await draft).length, 2);
    await ended;
    assert.deepEqual(
      (await answered).filter(({ type }) => type === "reopened"),
      [],
      journal.join(", "),
    );
  }
});

test("a move that makes no sense is refused, and the conversation goes on", async () => {
  const { conclave } = await open(two);
  const conversation = await conclave.begin(hello);
  await assert.rejects(conversation.draft({ members: ["Cy"] }), {
    name: "Settings",
    message: /no member called Cy.*Ada, Bo/,
  });
  await assert.rejects(conversation.draft({ members: ["Ada", "Ada"] }), BadSettings);
  await assert.rejects(conversation.draft({ maxTokens: 0 }), {
    name: "Settings",
    message: /maxTokens must be a whole number from 1/,
  });
  await assert.rejects(conversation.verify([]), BadSettings);
  await assert.rejects(conversation.keep(0), {
    name: "Settings",
    message: /no candidate 0 to keep: 0 were verified/,
  });
  await conversation.verify([{ text: "a", ended: false }]);
  await conversation.keep(0);
  await assert.rejects(conversation.keep(0), BadSettings, "it was kept already");
  await conversation.end();
  await conversation.end();
  await assert.rejects(conversation.draft(), { name: "Settings", message: /is over/ });
  await assert.rejects(conclave.begin(hello, { rounds: 3 } as object), {
    name: "Settings",
    message: /begin knows no "rounds"/,
  });
  await assert.rejects(conclave.begin(hello, { members: ["Cy"] }), BadSettings);
  assert.equal(
    (await collect(conclave.ask(hello))).at(-1)?.type,
    "end",
    "what could not begin holds nobody up",
  );
});

test("a stop while members read, and a lost device, end it; others are not held up", async () => {
  const { conclave } = await open({ Ada: { ...talker, step: 1 } });
  const controller = new AbortController();
  const beginning = conclave.begin(hello, { signal: controller.signal });
  controller.abort();
  await assert.rejects(beginning, { name: "AbortError" });
  const conversation = await conclave.begin(hello);
  await conclave.loseDevice();
  await assert.rejects(conversation.draft(), DeviceLost);
  conclave.close();
  await assert.rejects(conversation.draft(), EngineFailure);
});
