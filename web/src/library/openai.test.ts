/** The interface of OpenAI's client, by its own types, over scripted members. */
import { defaultSampling } from "../protocol/generated-settings.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import type OpenAI from "openai";
import { endless, open, talker, segments } from "../testing/staged.ts";
import {
  createChatCompletions,
  type ChatCompletion,
  type ChatParams,
  type ChatStream,
} from "./openai.ts";

const messages: OpenAI.ChatCompletionMessageParam[] & ChatParams["messages"] = [
  { role: "user", content: "hello" },
];

/** The types that the client's callers see, if our answers fit them. */
type Create = OpenAI["chat"]["completions"]["create"];
type Plain = (params: {
  messages: typeof messages;
  model: string;
  stream?: false;
}) => Promise<OpenAI.ChatCompletion>;
type Streamed = (params: {
  messages: typeof messages;
  model: string;
  stream: true;
}) => Promise<AsyncIterable<OpenAI.ChatCompletionChunk>>;

/** Compiles: whether an answer is streamed may be known only when it is asked for. */
export const either = (
  client: ReturnType<typeof createChatCompletions>,
  stream: boolean,
): Promise<ChatCompletion | ChatStream> => client.chat.completions.create({ messages, stream });

test("an answer is as the client's types say, with who wrote what beside it", async () => {
  const { conclave, members } = await open({ Ada: talker, Bo: talker });
  const client = createChatCompletions(conclave);
  const create: Plain = client.chat.completions.create;
  const params: Parameters<Create>[0] = { messages, model: "three toys" };
  const completion = await create({ messages, model: params.model });
  assert.match(completion.id, /^chatcmpl-/);
  assert.ok(Math.abs(completion.created - Date.now() / 1000) < 60);
  assert.deepEqual(
    { ...completion, id: "", created: 0 },
    {
      id: "",
      created: 0,
      model: "three toys",
      object: "chat.completion",
      choices: [
        {
          index: 0,
          finish_reason: "stop",
          logprobs: null,
          message: { role: "assistant", content: "Hello there.", refusal: null },
        },
      ],
      usage: { prompt_tokens: 5, completion_tokens: 12, total_tokens: 17 },
      conclave: {
        stop: "ended",
        segments,
      },
    },
  );
  const parts = [
    {
      role: "developer",
      content: [
        { type: "text", text: "Be " },
        { type: "text", text: "brief." },
      ],
    },
    ...messages,
  ] as const;
  await client.chat.completions.create({
    messages: parts,
    temperature: 0,
    top_p: 0.5,
    min_p: 0.1,
    seed: 7,
    user: "x",
    n: 1,
    stop: null,
    response_format: { type: "text" },
  });
  assert.deepEqual(members.get("Ada")?.messages, [
    { role: "system", content: "Be brief." },
    messages[0],
  ]);
  assert.deepEqual(members.get("Ada")?.sampling, {
    ...defaultSampling,
    temperature: 0,
    topP: 0.5,
    minP: 0.1,
    seed: 7,
  });
});

test("a streamed answer comes in chunks that join to it, and says why it is over", async () => {
  const { conclave } = await open({ Ada: talker });
  const client = createChatCompletions(conclave);
  const create: Streamed = client.chat.completions.create;
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of await create({ messages, model: "m", stream: true }))
    chunks.push(chunk);
  assert.deepEqual(
    chunks.map(({ choices }) => [choices[0]?.delta, choices[0]?.finish_reason]),
    [
      [{ role: "assistant", content: "" }, null],
      [{ content: "Hello" }, null],
      [{ content: " there." }, null],
      [{}, "stop"],
    ],
  );
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);

  // `there.` might begin a stop text, so it is reported at the end.
  const held = await open({ Ada: talker });
  const options = {
    messages,
    stream: true as const,
    stop: " there.!",
    stream_options: { include_usage: true },
  };
  const texts: (string | undefined)[] = [];
  let usage: unknown;
  for await (const chunk of await createChatCompletions(held.conclave).chat.completions.create(
    options,
  )) {
    texts.push(chunk.choices[0]?.delta.content);
    usage = chunk.usage;
  }
  assert.deepEqual(texts, ["", "Hello", "", " there.", undefined, undefined]);
  assert.deepEqual(usage, { prompt_tokens: 5, completion_tokens: 12, total_tokens: 17 });
});

test("a stream is stopped by its controller, and read once", async () => {
  const { conclave } = await open({ Ada: talker });
  const stream = await createChatCompletions(conclave).chat.completions.create({
    messages,
    stream: true,
  });
  const texts: (string | undefined)[] = [];
  for await (const { choices } of stream) {
    texts.push(choices[0]?.delta.content);
    if (choices[0]?.delta.content === "Hello") stream.controller.abort();
  }
  assert.deepEqual(texts, ["", "Hello"], "what would follow is not told, nor why it is over");
  assert.throws(() => stream[Symbol.asyncIterator](), {
    name: "Settings",
    message: /read already/,
  });
});

test("an abort of the caller's signal ends a stream under way without an error", async () => {
  const { conclave } = await open({ Ada: endless });
  const { create } = createChatCompletions(conclave).chat.completions;
  const controller = new AbortController();
  const texts: (string | undefined)[] = [];
  const { signal } = controller;
  for await (const { choices } of await create({ messages, stream: true }, { signal })) {
    texts.push(choices[0]?.delta.content);
    if (texts.length === 3) controller.abort();
  }
  assert.deepEqual(texts, ["", "la ", "la "]);
});

test("a stream that can't begin is refused by create, in place of its first chunk", async () => {
  const { conclave } = await open({ Ada: talker });
  const { create } = createChatCompletions(conclave).chat.completions;
  const stream = true as const;
  await assert.rejects(create({ messages, stream }, { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
  await assert.rejects(create({ messages: [{ role: "tool" as "user", content: "7" }], stream }), {
    name: "Settings",
    message: /role/,
  });
  await assert.rejects(create({ messages: [], stream }), {
    name: "Settings",
    message: /nothing to answer/,
  });
});

test("an unread stream is stopped by its controller or signal, others by a break too", async () => {
  const { conclave, journal } = await open({ Ada: endless });
  const { create } = createChatCompletions(conclave).chat.completions;
  const caller = new AbortController();
  const { controller } = await create({ messages, stream: true });
  controller.abort();
  const unread = await create({ messages, stream: true }, { signal: caller.signal });
  caller.abort();
  for await (const { choices } of unread) assert.fail(JSON.stringify(choices));
  for await (const { choices } of await create({ messages, stream: true }))
    if (choices[0]?.delta.content === "") break;
  await conclave.measure([{ role: "user", content: "hello" }]); // Runs after the answers.
  const drafts = journal.filter((entry) => entry.startsWith("Ada draft")).length;
  assert.ok(drafts < 10, `${drafts} drafts`);
});

test("limits end an answer as the client names them", async () => {
  for (const [params, content, finish] of [
    [{ max_tokens: 5 }, "Hello", "length"],
    [{ max_completion_tokens: 5, max_tokens: 50 }, "Hello", "length"],
    [{ stop: ["o t"] }, "Hell", "stop"],
  ] as const) {
    const { conclave } = await open({ Ada: talker });
    const { choices } = await createChatCompletions(conclave).chat.completions.create({
      messages,
      ...params,
    });
    assert.deepEqual([choices[0].message.content, choices[0].finish_reason], [content, finish]);
  }
});

test("a response format holds the members to its schema, and is the client's own", async () => {
  const schema = {
    type: "object",
    properties: { sum: { type: "integer" } },
    required: ["sum"],
    additionalProperties: false,
  };
  const formats: [
    NonNullable<OpenAI.ChatCompletionCreateParams["response_format"]>,
    string | undefined,
  ][] = [
    [
      { type: "json_schema", json_schema: { name: "sum", strict: true, schema } },
      JSON.stringify(schema),
    ],
    [{ type: "json_schema", json_schema: { name: "anything" } }, '{"type":"object"}'],
    [{ type: "json_object" }, '{"type":"object"}'],
    [{ type: "text" }, undefined],
  ];
  for (const [response_format, held] of formats) {
    const { conclave, journal } = await open({ Ada: talker });
    await createChatCompletions(conclave).chat.completions.create({ messages, response_format });
    const documents = journal.filter((entry) => entry.startsWith("document of "));
    assert.deepEqual(documents, held === undefined ? [] : [`document of Ada: ${held}`]);
  }
});

test("what can't be honoured is refused by its name; who stops hears AbortError", async () => {
  const { conclave } = await open({ Ada: talker });
  const { create } = createChatCompletions(conclave).chat.completions;
  for (const [params, message] of [
    [{ tools: [{}] }, /can't honour "tools"/],
    [{ n: 2 }, /"n": 2/],
    [{ logprobs: true }, /"logprobs": true\. Members agree on segments.* in `conclave`/],
    [{ response_format: { type: "yaml" } }, /no response format "yaml"/],
    [
      { response_format: { type: "json_schema" } },
      /response_format\.json_schema must be an object/,
    ],
    [
      { response_format: { type: "json_schema", json_schema: { name: "x", schema: "{}" } } },
      /json_schema\.schema must be an object/,
    ],
    [{ response_format: "json" }, /response_format must be an object/],
    [{ frequency_penalty: 0.5 }, /"frequency_penalty": 0\.5/],
    [
      { messages: [...messages, { role: "assistant", content: null, tool_calls: [{}] }] },
      /no tools, and messages\[1\]\.tool_calls/,
    ],
    [
      { messages: [{ role: "assistant", content: "x", function_call: {} }, ...messages] },
      /messages\[0\]\.function_call/,
    ],
  ] as const) {
    await assert.rejects(create({ messages, ...(params as object) }), {
      name: "Settings",
      message,
    });
  }
  await assert.rejects(
    create({ messages: [{ role: "user", content: [{ type: "image_url" } as never] }] }),
    { name: "Settings", message: /text alone.*image_url/ },
  );
  const idle: object = { frequency_penalty: 0, logit_bias: null, model: null };
  const called = { role: "assistant", content: null, tool_calls: [] } as const;
  const { model } = (await create({ messages: [called, ...messages], ...idle })) as ChatCompletion;
  assert.equal(model, "conclave", "null means absent");
  await assert.rejects(create({ messages }, { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});
