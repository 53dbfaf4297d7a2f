/**
 * System prompts that are read once: the service with its store and threads; only members' reading
 * is scripted.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Conclave } from "../library/conclave.ts";
import type { Member, Message } from "../protocol/engine.ts";
import type { Prompts } from "../store/prompts.ts";
import { MemoryShelf } from "../store/shelf.ts";
import type { Script } from "../testing/scripted.ts";
import { collect, file, stage, talker, type Stage } from "../testing/staged.ts";
import { KeptPrompts } from "./kept-prompts.ts";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

const reader: Script = { ...talker, prompts: { model: "one" } };
const ask = (system: string, question = "hello"): Message[] => [
  { role: "system", content: system },
  { role: "user", content: question },
];

/** A visit: an engine with a member `Ada`, who was loaded from a file. */
async function visit(
  prompts: MemoryShelf,
  script: Script = reader,
  cores = 1,
  keepPrompts?: boolean,
): Promise<Stage & { conclave: Conclave; done: () => Promise<void> }> {
  const made = stage({ Ada: script }, cores, { prompts });
  const conclave = await Conclave.open(
    { backend: "cpu", ...(keepPrompts === undefined ? {} : { keepPrompts }) },
    made.port,
  );
  await conclave.add({ name: "Ada", files: [file] });
  /** Waits until the idle time has passed. */
  const done = async (): Promise<void> => {
    mock.timers.tick(1000);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { ...made, conclave, done };
}

const moves = (journal: string[]): string[] =>
  journal.filter((entry) => /systemKey|giveSystem|takePrefix|has |begin/.test(entry));

test("the prompt of a model that was copied is kept under the copy's reference", async () => {
  const ref = `copy:${"0".repeat(64)}`;
  const kept: (string | null)[] = [];
  const prompts = new KeptPrompts({
    keeps: async () => true,
    get: async () => undefined,
    put: async (_key: string, of: string | null) => void kept.push(of),
  } as unknown as Prompts);
  const bytes = Uint8Array.of(1);
  const member = { systemKey: async () => bytes, giveSystem: async () => bytes };
  prompts.add(member as unknown as Member, { ref });
  await prompts.recall(member as unknown as Member, ask("Be brief."));
  await prompts.keep();
  assert.deepEqual(kept, [ref]);
});

test("a system prompt is kept after the first answer, for the next visit", async () => {
  for (const cores of [1, 2]) {
    const shelf = new MemoryShelf(true);
    const first = await visit(shelf, reader, cores);
    await collect(first.conclave.ask(ask("Be brief.")));
    assert.deepEqual(
      await shelf.list(),
      [],
      "nothing is written while there is an answer to wait for",
    );
    await first.done();
    assert.equal((await shelf.list()).length, 1);
    await collect(first.conclave.ask(ask("Be brief.", "And now?")));
    await first.done();
    assert.deepEqual(
      moves(first.journal),
      ["Ada systemKey", "Ada begin", "Ada giveSystem", "Ada begin"],
      "looked for once, kept once",
    );
    assert.equal((await first.conclave.models()).prompts, "one: Be brief.".length);

    const second = await visit(shelf, reader, cores);
    await collect(second.conclave.ask(ask("Be brief.", "Something else")));
    await second.done();
    assert.deepEqual(moves(second.journal), [
      "Ada systemKey",
      "Ada takePrefix",
      "Ada has one: Be brief.",
      "Ada begin",
    ]);
    await second.conclave.deletePrompts();
    assert.deepEqual(await shelf.list(), []);
  }
});

test("each system prompt has its own, and no system prompt the template's", async () => {
  const shelf = new MemoryShelf(true);
  const { conclave, journal, done } = await visit(shelf);
  await collect(conclave.ask([{ role: "user", content: "hello" }]));
  await done();
  assert.deepEqual(
    moves(journal),
    ["Ada systemKey", "Ada begin"],
    "the script's template begins with nothing",
  );
  await collect(conclave.ask([{ role: "user", content: "And now?" }]));
  assert.deepEqual(moves(journal), ["Ada systemKey", "Ada begin", "Ada begin"], "looked for once");
  for (const system of ["Be brief.", "Be kind."]) {
    await collect(conclave.ask(ask(system)));
    await done();
  }
  assert.equal((await shelf.list()).length, 2);
});

test("what a member refuses is deleted, read anew and kept anew", async () => {
  const shelf = new MemoryShelf(true);
  const first = await visit(shelf);
  await collect(first.conclave.ask(ask("Be brief.")));
  await first.done();
  const [key = ""] = await shelf.list();
  const part = await (await shelf.folder(key))!.open("prefix");
  part.write(0, new TextEncoder().encode("two"));

  const second = await visit(shelf);
  const events = await collect(second.conclave.ask(ask("Be brief.")));
  assert.equal(events.at(-1)?.type, "end");
  assert.deepEqual(await shelf.list(), []);
  await second.done();
  assert.deepEqual(moves(second.journal), [
    "Ada systemKey",
    "Ada takePrefix",
    "Ada begin",
    "Ada giveSystem",
  ]);
  assert.deepEqual(await shelf.list(), [key]);
});

test("nothing is kept if switched off, if it can't last, or is not worth it", async () => {
  for (const [shelf, script, keepPrompts, wanted] of [
    [new MemoryShelf(true), reader, false, ["Ada begin"]],
    [new MemoryShelf(false), reader, undefined, ["Ada begin"]],
    [new MemoryShelf(true), talker, undefined, ["Ada systemKey", "Ada begin"]],
  ] as const) {
    const { conclave, journal, done } = await visit(shelf, script, 1, keepPrompts);
    await collect(conclave.ask(ask("Be brief.")));
    await done();
    assert.deepEqual(moves(journal), wanted);
    assert.deepEqual(await shelf.list(), []);
  }
});

test("a question in that second puts it off; a removed member is not asked", async () => {
  const shelf = new MemoryShelf(true);
  const { conclave, journal, done } = await visit(shelf);
  await collect(conclave.ask(ask("Be brief.")));
  mock.timers.tick(900);
  await collect(conclave.ask(ask("Be brief.", "And now?")));
  mock.timers.tick(900);
  assert.ok(!journal.includes("Ada giveSystem"));
  await conclave.remove("Ada");
  await done();
  assert.ok(!journal.includes("Ada giveSystem"));
  assert.deepEqual(await shelf.list(), []);
});
