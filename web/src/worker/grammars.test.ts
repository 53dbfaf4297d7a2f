/**
 * Answers in a form: every member is constrained to the schema, wherever it lives, and free again
 * afterwards.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Download } from "../protocol/errors.ts";
import { collect, file, hello, open, stage, talker, type Stage } from "../testing/staged.ts";
import { Conclave, type AskOptions, type ResponseFormat } from "../library/conclave.ts";

const sum: ResponseFormat = { type: "json_schema", schema: { type: "object", required: ["sum"] } };
const told = (journal: string[]): string[] =>
  journal.filter((entry) => /fetch|document|constrained|accepts|anything|begin/.test(entry));

test("each member's grammar is over its own vocabulary, and hears what all accepted", async () => {
  for (const cores of [1, 2]) {
    const { conclave, journal } = await open({ Ada: talker, Bo: talker }, cores);
    const events = await collect(conclave.ask(hello, { responseFormat: sum }));
    const end = events.at(-1);
    assert.ok(end?.type === "end" && end.text === "Hello there.");
    const schema = '{"type":"object","required":["sum"]}';
    for (const name of ["Ada", "Bo"]) {
      assert.deepEqual(
        told(journal).filter((entry) => entry.includes(name)),
        [
          `${name} free to say anything`,
          `document of ${name}: ${schema}`,
          `${name} constrained`,
          `${name} begin`,
          `${name} accepts "Hello"`,
          `${name} accepts " there."`,
        ],
        `${cores} cores`,
      );
    }
    // The next answer is free; a third is constrained anew, by the module already there.
    journal.length = 0;
    await collect(conclave.ask(hello));
    for (const name of ["Ada", "Bo"])
      assert.ok(
        journal.indexOf(`${name} free to say anything`) < journal.indexOf(`${name} begin`),
        journal.join("\n"),
      );
    assert.ok(
      journal.includes("Bo free to say anything") &&
        !journal.some((entry) => entry.includes("accepts")),
      journal.join("\n"),
    );
    await collect(conclave.ask(hello, { responseFormat: { type: "json_object" } }));
    assert.ok(
      journal.includes('document of Bo: {"type":"object"}') &&
        !journal.some((entry) => entry.startsWith("fetch")),
      journal.join("\n"),
    );
    await conclave.remove("Ada");
    // A thread without members has ended.
    assert.ok(cores > 1 || journal.includes("no vocabulary of Ada any more"), journal.join("\n"));
  }
});

test("without a form nothing is fetched; one not to be honoured is refused unread", async () => {
  const { conclave, journal } = await open({ Ada: talker });
  await collect(conclave.ask(hello, { responseFormat: { type: "text" } }));
  assert.ok(!journal.some((entry) => entry.startsWith("fetch")), journal.join("\n"));
  journal.length = 0;
  const refused: [unknown, RegExp][] = [
    [{ type: "json_schema", schema: { title: "refused" } }, /can't be honoured at #/],
    [{ type: "json_schema" }, /has a `schema`/],
    [{ type: "json_schema", schema: [1] }, /has a `schema`/],
    [{ type: "xml" }, /no response format "xml"/],
  ];
  for (const [responseFormat, message] of refused) {
    await assert.rejects(collect(conclave.ask(hello, { responseFormat } as AskOptions)), {
      name: "Settings",
      message,
    });
    await assert.rejects(conclave.begin(hello, { responseFormat } as AskOptions), {
      name: "Settings",
      message,
    });
  }
  assert.ok(!journal.some((entry) => entry.includes("begin")), journal.join("\n"));
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end", "the engine is free");
});

test("a module that traps fails the answer as a schema, and not the engine", async () => {
  const { conclave, journal } = await open({ Ada: { ...talker } });
  await assert.rejects(
    collect(
      conclave.ask(hello, {
        responseFormat: { type: "json_schema", schema: { title: "involved" } },
      }),
    ),
    { name: "Settings", message: /too involved/ },
  );
  assert.ok(!journal.includes("terminate"), "no other engine is opened");
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
  // Its objects are not freed.
  assert.ok(!journal.includes("no document of Ada any more"), journal.join("\n"));
});

test("an answer in a form behind a trap has another engine", async () => {
  for (const cores of [1, 2]) {
    const stages: Stage[] = [];
    const startPort = (): Stage["port"] => {
      stages.push(stage({ Ada: talker }, cores));
      return stages.at(-1)!.port;
    };
    const conclave = await Conclave.open({ backend: "cpu" }, startPort);
    await conclave.add({ name: "Ada", files: [file] });
    const involved: ResponseFormat = { type: "json_schema", schema: { title: "involved" } };
    await assert.rejects(collect(conclave.ask(hello, { responseFormat: involved })), {
      name: "Settings",
    });
    const events = await collect(conclave.ask(hello, { responseFormat: sum }));
    const reopened = events.find(({ type }) => type === "reopened");
    assert.ok(
      reopened?.type === "reopened" &&
        /broke down over an earlier one/.test(reopened.error.message),
      `${cores} cores`,
    );
    const end = events.at(-1);
    assert.ok(end?.type === "end" && end.text === "Hello there.");
    assert.equal(stages.length, 2);
    assert.ok(stages[1]!.journal.includes('Ada accepts "Hello"'));
  }
});

test("a module that is not there can be asked for again", async () => {
  let there = false;
  const fetching = async (): Promise<void> => {
    if (!there) throw new Download("There is no grammar.wasm.");
  };
  const { port } = stage({ Ada: talker }, 1, { fetching });
  const conclave = await Conclave.load(
    { backend: "cpu", members: [{ name: "Ada", files: [file] }] },
    port,
  );
  await assert.rejects(collect(conclave.ask(hello, { responseFormat: sum })), {
    name: "Download",
    message: /no grammar\.wasm/,
  });
  there = true;
  assert.equal((await collect(conclave.ask(hello, { responseFormat: sum }))).at(-1)?.type, "end");
});

test("a stop does not wait until the module is fetched, nor does what is asked next", async () => {
  const { port, journal } = stage({ Ada: talker }, 1, {
    fetching: () => new Promise<void>(() => undefined),
  });
  const conclave = await Conclave.load(
    { backend: "cpu", members: [{ name: "Ada", files: [file] }] },
    port,
  );
  const soon = (): AbortSignal => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20);
    return stop.signal;
  };
  const [end, ...others] = await collect(
    conclave.ask(hello, { responseFormat: sum, signal: soon() }),
  );
  assert.ok(
    end?.type === "end" && end.stop === "stopped" && end.text === "" && others.length === 0,
  );
  assert.ok(journal.includes("fetch grammar.wasm"), journal.join("\n"));
  await assert.rejects(conclave.begin(hello, { responseFormat: sum, signal: soon() }), {
    name: "AbortError",
  });
  const next = (await collect(conclave.ask(hello))).at(-1);
  assert.ok(next?.type === "end" && next.text === "Hello there.");
});

test("a conversation by hand is held to its form as well", async () => {
  const { conclave, journal } = await open({ Ada: talker });
  const conversation = await conclave.begin(hello, { responseFormat: sum });
  const [draft] = await conversation.draft();
  await conversation.verify([draft!]);
  await conversation.keep(0);
  await conversation.end();
  assert.ok(journal.includes('Ada accepts "Hello"'), journal.join("\n"));
});
