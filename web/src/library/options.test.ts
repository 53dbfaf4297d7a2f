/**
 * Every entry point of the package refuses values of wrong types by name, before doing anything
 * with them.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { collect, file, hello, open, stage, talker } from "../testing/staged.ts";
import { conclaveModel } from "./ai-sdk.ts";
import { Conclave } from "./conclave.ts";
import { createLanguageModel } from "./language-model.ts";
import { createChatCompletions } from "./openai.ts";

/** Values that the types forbid but that come from forms, JSON or missing fields. */
const any = (value: unknown): never => value as never;

test("the library names the option that is of a wrong type", async () => {
  const { conclave, journal } = await open({ Ada: talker });
  const before = journal.length;
  const ask = (options: unknown, messages: unknown = hello): Promise<unknown> =>
    collect(conclave.ask(any(messages), any(options)));
  const add = (
    options: unknown,
    source: unknown = { name: "Bo", files: [file] },
  ): Promise<unknown> => conclave.add(any(source), any(options));
  const load = (options: unknown): Promise<unknown> => Conclave.load(any(options), stage({}).port);
  const refusals: [Promise<unknown>, string][] = [
    [ask(null), "The options of ask must be an object; it was null."],
    [ask("paper"), 'The options of ask must be an object; it was "paper".'],
    [ask({}, null), "messages must be a list; it was null."],
    [ask({}, "hello"), 'messages must be a list; it was "hello".'],
    [
      ask({}, [{ role: "user", content: null }]),
      "messages[0].content must be a string; it was null.",
    ],
    [
      ask({ maxTokens: null }),
      "ask.maxTokens must be a whole number from 1 to 4294967295; it was null.",
    ],
    [
      ask({ maxTokens: "5" }),
      'ask.maxTokens must be a whole number from 1 to 4294967295; it was "5".',
    ],
    [ask({ stop: "." }), 'ask.stop must be a list; it was ".".'],
    [ask({ rule: null }), "ask.rule must be a string; it was null."],
    [ask({ rule: "none" }), 'There is no rule "none". Choose one of harmonic, leader, paper.'],
    [ask({ members: "Ada" }), 'ask.members must be a list; it was "Ada".'],
    [ask({ thinking: true }), 'ask.thinking must be "off" or "on" or "auto"; it was true.'],
    [ask({ signal: 5 }), "ask.signal must be an AbortSignal; it was 5."],
    [ask({ overflow: "drop" }), 'ask.overflow must be "error" or "drop-oldest"; it was "drop".'],
    [ask({ settings: null }), "ask.settings must be an object; it was null."],
    [ask({ settings: { alpha: "1" } }), 'settings.alpha must be a finite number; it was "1".'],
    [
      ask({ settings: { exit: { warmup: 1, temperature: 1, threshold: null } } }),
      "settings.exit.threshold must be a finite number; it was null.",
    ],
    [
      ask({ settings: { leader: { doubts: 5 } } }),
      'settings.leader knows no "doubts". It knows doubt.',
    ],
    [
      ask({ settings: { segmentTokens: 1.5 } }),
      "settings.segmentTokens must be a whole number from 0 to 4294967295; it was 1.5.",
    ],
    [
      ask({ settings: { segmentTokens: -1 } }),
      "settings.segmentTokens must be a whole number from 0 to 4294967295; it was -1.",
    ],
    [
      ask({ settings: { exit: { warmup: 0.5, temperature: 1, threshold: 0 } } }),
      "settings.exit.warmup must be a whole number from 0 to 4294967295; it was 0.5.",
    ],
    [ask({ sampling: [] }), "ask.sampling must be an object; it was a list."],
    [
      ask({ sampling: { seed: -1 } }),
      "sampling.seed must be a whole number from 0 to 9007199254740991; it was -1.",
    ],
    [
      ask({ sampling: { seed: null } }),
      "sampling.seed must be a whole number from 0 to 9007199254740991; it was null.",
    ],
    [
      ask({ sampling: { temperature: "hot" } }),
      'sampling.temperature must be a number from 0 to 10; it was "hot".',
    ],
    [add(null), "The options of add must be an object; it was null."],
    [add({}, null), "a member must be an object; it was null."],
    [add({}, { name: 5, files: [file] }), "a member.name must be a string; it was 5."],
    [
      add({}, { name: "Bo", files: ["bo.gguf"] }),
      'a member.files[0] must be a file; it was "bo.gguf".',
    ],
    [
      add({}, { name: "Bo", files: [file], quantise: "Q4_K" }),
      'a member.quantise must be "Q8_0" or "Q4_0"; it was "Q4_K".',
    ],
    [add({}, { name: "", files: [file] }), 'a member.name must be a name; it was "".'],
    [
      add({}, { name: "Bo" }),
      'a member must have one of ref, files, url, remote, builtIn; "Bo" has none.',
    ],
    [
      add({}, { name: "Bo", files: [file], url: "bo.gguf" }),
      'a member must have one of ref, files, url, remote, builtIn; "Bo" has files and url.',
    ],
    [
      load({
        members: [
          { name: "Bo", url: "bo.gguf" },
          { name: "Bo", url: "other.gguf" },
        ],
      }),
      'load.members has two members called "Bo".',
    ],
    [
      add({ contextTokens: 1 }),
      "add.contextTokens must be a whole number from 32 to 4294967295; it was 1.",
    ],
    [add({ onProgress: true }), "add.onProgress must be a function; it was true."],
    [conclave.remove(any(null)), "name must be a string; it was null."],
    [conclave.plan(any(undefined)), "ref must be a string; it was missing."],
    [conclave.deleteModel(any({})), "ref must be a string; it was an object."],
    [conclave.keepFiles(any(null), []), "name must be a string; it was null."],
    [conclave.keepFiles("Bo", any([{}])), "files[0] must be a File; it was an object."],
    [
      conclave.keepFiles("Bo", [], any({ onProgress: 1 })),
      "keepFiles.onProgress must be a function; it was 1.",
    ],
    [conclave.latestCommit(any(7)), "ref must be a string; it was 7."],
    [conclave.measure(any(null)), "messages must be a list; it was null."],
    [
      conclave.measure(hello, any({ members: [7] })),
      "measure.members[0] must be a string; it was 7.",
    ],
    [conclave.begin(hello, any({ rule: 5 })), "begin.rule must be a string; it was 5."],
    [load(null), "The options of load must be an object; it was null."],
    [load({ members: 5 }), "load.members must be a list; it was 5."],
    [
      load({ members: [{ name: "Bo", contextTokens: 5 }] }),
      'load.members[0] knows no "contextTokens". It knows name, ref, files, url, bytes, ' +
        "sha256, quantise, core, remote, model, key, turn, judge, builtIn, timeout.",
    ],
    [
      load({ contextTokens: "1024" }),
      'load.contextTokens must be a whole number from 32 to 4294967295; it was "1024".',
    ],
    [load({ backend: "gpu" }), 'load.backend must be "auto" or "webgpu" or "cpu"; it was "gpu".'],
    [load({ core: "x" }), 'load.core must be "fused" or "burn"; it was "x".'],
    [load({ threads: 0 }), "load.threads must be a whole number from 1 to 1024; it was 0."],
    [load({ assets: 5 }), "load.assets must be an address; it was 5."],
    [
      load({ assets: "http://" }),
      'assets must be an address; it was "http://". ' +
        "Give one as https://host/path, or one relative to the page.",
    ],
    [
      load({ members: "http://" }),
      'members must be an address; it was "http://". ' +
        "Give one as https://host/path, or one relative to the page.",
    ],
    [
      add({}, { name: "Bo", url: "http://" }),
      'The url of Bo must be an address; it was "http://". ' +
        "Give one as https://host/path, or one relative to the page.",
    ],
    ...["hf:a/b/c.gguf", "https://host/c.gguf?x"].map((members): [Promise<unknown>, string] => [
      load({ members }),
      "load.members must be a list of members or the address of one; it was the name of a model. " +
        `Give [{ name: "A name", ref: "${members}" }].`,
    ]),
    [Conclave.open(any({ hub: null })), "open.hub must be a string; it was null."],
  ];
  for (const [refused, message] of refusals)
    await assert.rejects(refused, { name: "Settings", message });
  assert.equal(journal.length, before, "no member was asked for anything");
  // An undefined value counts as absent.
  assert.equal(
    (
      await collect(
        conclave.ask(
          hello,
          any({
            maxTokens: undefined,
            settings: { alpha: undefined },
            sampling: { seed: undefined },
          }),
        ),
      )
    ).at(-1)?.type,
    "end",
  );
});

test("a conversation's moves do so", async () => {
  const { conclave } = await open({ Ada: talker });
  const conversation = await conclave.begin(hello);
  const refusals: [Promise<unknown>, string][] = [
    [conversation.draft(any(null)), "The options of draft must be an object; it was null."],
    [
      conversation.draft(any({ maxTokens: "8" })),
      'draft.maxTokens must be a whole number from 1 to 256; it was "8".',
    ],
    [conversation.verify(any("text")), 'candidates must be a list; it was "text".'],
    [
      conversation.verify(any([{ text: "x" }])),
      "candidates[0].ended must be true or false; it was missing.",
    ],
    [conversation.keep(any(undefined)), "winner must be a finite number; it was missing."],
  ];
  for (const [refused, message] of refusals)
    await assert.rejects(refused, { name: "Settings", message });
  await conversation.end();
});

test("the interfaces of other clients do so, each in its own words", async () => {
  const { conclave, members } = await open({ Ada: talker });
  assert.throws(() => createChatCompletions(any(null)), {
    name: "Settings",
    message: "The ensemble must be what Conclave.load gives; it was null.",
  });
  const { create } = createChatCompletions(conclave).chat.completions;
  const sound = { messages: hello };
  const refusals: [unknown, string][] = [
    [null, "The parameters of create must be an object; it was null."],
    [{}, "create.messages must be a list; it was missing."],
    [{ messages: [null] }, "create.messages[0] must be an object; it was null."],
    [
      { messages: [{ role: "user", content: null }] },
      "messages[0].content must be a string or a list; it is missing. Say what it says.",
    ],
    [{ messages: [{ role: "user", content: 5 }] }, "messages[0].content must be a list; it was 5."],
    [
      { messages: [{ role: "user", content: [{ type: "text", text: 5 }] }] },
      "messages[0].content[0].text must be a string; it was 5.",
    ],
    [
      { messages: [{ role: "tool", content: "x" }] },
      'messages[0].role must be "system" or "user" or "assistant"; it was "tool".',
    ],
    [
      { ...sound, temperature: "0.5" },
      'create.temperature must be a number from 0 to 10; it was "0.5".',
    ],
    [
      { ...sound, max_tokens: 0 },
      "create.max_tokens must be a whole number from 1 to 4294967295; it was 0.",
    ],
    [
      { ...sound, seed: 0.5 },
      "create.seed must be a whole number from -9007199254740991 to 9007199254740991; it was 0.5.",
    ],
    [{ ...sound, stop: [5] }, "create.stop[0] must be a string; it was 5."],
    [
      { ...sound, stream_options: "usage" },
      'create.stream_options must be an object; it was "usage".',
    ],
  ];
  for (const [params, message] of refusals)
    await assert.rejects(create(any(params)), { name: "Settings", message });
  await assert.rejects(create(any(sound), any({ signal: "now" })), {
    name: "Settings",
    message: 'The options of create.signal must be an AbortSignal; it was "now".',
  });
  const seeds: unknown[] = [];
  for (const seed of [-1, -2, 7]) {
    await create(any({ ...sound, seed }));
    seeds.push(members.get("Ada")?.sampling?.seed);
  }
  assert.deepEqual(seeds, [2 ** 53 - 1, 2 ** 53 - 2, 7], "the client's seeds may be negative");

  assert.throws(() => conclaveModel(any({})), {
    name: "Settings",
    message: "The ensemble must be what Conclave.load gives; it was an object.",
  });
  assert.throws(() => conclaveModel(conclave, any(null)), {
    name: "Settings",
    message: "The options of conclaveModel must be an object; it was null.",
  });
  assert.throws(() => conclaveModel(conclave, any({ thinking: "yes" })), {
    name: "Settings",
    message: 'conclaveModel.thinking must be "off" or "on" or "auto"; it was "yes".',
  });

  assert.throws(() => createLanguageModel(any({ contextTokens: 1 })), {
    name: "Settings",
    message: /^createLanguageModel\.contextTokens must be/,
  });
  const model = createLanguageModel({ load: async () => conclave });
  const session = await model.create(any(null));
  const wrong: [Promise<unknown>, string][] = [
    [model.create(any(5)), "The options of create must be an object; it was 5."],
    [
      model.create(any({ temperature: "0.5" })),
      'create.temperature must be a number; it was "0.5".',
    ],
    [model.create(any({ monitor: {} })), "create.monitor must be a function; it was an object."],
    [model.availability(any({ topK: null })), "availability.topK must be a number; it was null."],
    [session.prompt(any(null)), "The prompt must be a list; it was null."],
    [
      session.prompt(any([{ role: "user", content: null }])),
      "The content of message 1 must be a list; it was null.",
    ],
    [session.prompt("x", any({ signal: 5 })), "prompt.signal must be an AbortSignal; it was 5."],
  ];
  for (const [refused, message] of wrong)
    await assert.rejects(refused, { name: "TypeError", message });
});
