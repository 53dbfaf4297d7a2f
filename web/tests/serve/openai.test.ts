/**
 * OpenAI's own client for Node against `conclave serve` with the bundled members. `cargo xtask test
 * --only serve` starts the server and says where it is.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const { CONCLAVE_SERVER: baseURL, CONCLAVE_KEY: apiKey } = process.env;
assert.ok(
  baseURL && apiKey,
  "CONCLAVE_SERVER and CONCLAVE_KEY say where the server is: run `cargo xtask test --only serve`",
);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

const model = "conclave";
const messages: OpenAI.ChatCompletionMessageParam[] = [
  { role: "user", content: "What is 347 + 85?" },
];

/** Fields of our answers beyond the client's own. */
interface ConclaveFields {
  conclave?: { text: string; writers: string[]; votes: Record<string, number> };
}

test("an answer is the client's, with who wrote what beside it", async () => {
  const answer = await client.chat.completions.create({ model, messages, temperature: 0, seed: 7 });
  const [choice] = answer.choices;
  assert.match(choice?.message.content ?? "", /432/);
  assert.equal(choice?.finish_reason, "stop");
  const { usage } = answer;
  assert.equal(usage?.total_tokens, (usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0));
  const { conclave } = answer as unknown as {
    conclave: { stop: string; segments: NonNullable<ConclaveFields["conclave"]>[] };
  };
  assert.equal(conclave.stop, "ended");
  assert.equal(conclave.segments.map(({ text }) => text).join(""), choice?.message.content);
});

test("a stream is whole, and ends with its usage", async () => {
  const whole = await client.chat.completions.create({ model, messages, temperature: 0 });
  const stream = await client.chat.completions.create({
    model,
    messages,
    temperature: 0,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let finish: string | null | undefined;
  let usage: OpenAI.CompletionUsage | null | undefined;
  let votes = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    finish ??= chunk.choices[0]?.finish_reason;
    usage = chunk.usage;
    if ((chunk as ConclaveFields).conclave) votes++;
  }
  assert.equal(text, whole.choices[0]?.message.content);
  assert.equal(finish, "stop");
  assert.deepEqual(usage, whole.usage);
  assert.ok(votes > 1, `${votes} segments`);
});

test("several answers to one question come in one stream, each by its index", async () => {
  const story: OpenAI.ChatCompletionMessageParam[] = [
    { role: "user", content: "Tell me a story about a fox." },
  ];
  const asked = { model, messages: story, temperature: 2, top_p: 1, seed: 5, max_tokens: 16, n: 2 };
  const whole = await client.chat.completions.create(asked);
  const texts = ["", ""];
  for await (const { choices } of await client.chat.completions.create({
    ...asked,
    stream: true,
  })) {
    for (const { index, delta } of choices) texts[index] += delta.content ?? "";
  }
  assert.deepEqual(
    texts,
    whole.choices.map(({ message }) => message.content),
  );
  assert.notEqual(texts[0], texts[1]);
});

test("the client's helper for streams finds a message in it", async () => {
  const runner = client.chat.completions.stream({ model, messages, temperature: 0 });
  assert.match((await runner.finalMessage()).content ?? "", /432/);
});

test("an answer is a document of the client's schema, whole and in a stream", async () => {
  const schema = {
    type: "object",
    properties: { sum: { type: "integer", minimum: 0, maximum: 9999 }, sure: { type: "boolean" } },
    required: ["sum", "sure"],
    additionalProperties: false,
  };
  const response_format: OpenAI.ResponseFormatJSONSchema = {
    type: "json_schema",
    json_schema: { name: "sum", strict: true, schema },
  };
  const whole = await client.chat.completions.create({
    model,
    messages,
    temperature: 0,
    response_format,
  });
  const streamed = await client.chat.completions
    .stream({ model, messages, temperature: 0, response_format })
    .finalMessage();
  for (const content of [whole.choices[0]?.message.content, streamed.content]) {
    const { sum, sure, ...rest } = JSON.parse(content ?? "") as { sum: number; sure: boolean };
    assert.ok(
      Number.isInteger(sum) && sum >= 0 && sum <= 9999 && typeof sure === "boolean",
      content ?? "",
    );
    assert.deepEqual(rest, {});
  }
  const strange: OpenAI.ResponseFormatJSONSchema = {
    type: "json_schema",
    json_schema: { name: "x", schema: { type: "array", uniqueItems: true } },
  };
  await assert.rejects(
    client.chat.completions.create({ model, messages, response_format: strange }),
    (error) =>
      error instanceof OpenAI.BadRequestError &&
      error.param === "response_format" &&
      /uniqueItems/.test(error.message),
  );
});

test("limits, refusals and a wrong key are the client's own errors", async () => {
  const short = await client.chat.completions.create({
    model,
    messages,
    temperature: 0,
    max_completion_tokens: 3,
  });
  assert.equal(short.choices[0]?.finish_reason, "length");
  await assert.rejects(
    client.chat.completions.create({ model, messages, n: 17 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "n",
  );
  await assert.rejects(
    client.chat.completions.create({ model: "other", messages }),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "model_not_found",
  );
  const stranger = new OpenAI({ baseURL, apiKey: "another key".repeat(2), maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});

test("a client that stops leaves the server free", async () => {
  const stream = await client.chat.completions.create({ model, messages, stream: true });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
  const answer = await client.chat.completions.create({ model, messages, temperature: 0 });
  assert.match(answer.choices[0]?.message.content ?? "", /432/);
});

test("models are listed, and texts are continued and judged", async () => {
  const names: string[] = [];
  for await (const { id } of client.models.list()) names.push(id);
  assert.deepEqual(names, ["conclave", "Ada", "Quill", "Juno"]);
  const text = "What is 3 + 4?";
  const judged = await client.completions.create({
    model: "Ada",
    prompt: [text, `${text} It is 7.`],
    echo: true,
    max_tokens: 0,
    logprobs: 1,
  });
  for (const { text: echoed, logprobs } of judged.choices) {
    assert.equal(logprobs?.tokens?.join(""), echoed);
    assert.equal(logprobs?.token_logprobs?.length, logprobs?.tokens?.length);
    assert.ok(logprobs?.token_logprobs?.slice(1).every((one) => one < 0));
  }
  const continued = await client.completions.create({
    model,
    prompt: text,
    max_tokens: 6,
    temperature: 0,
  });
  assert.ok(continued.choices[0]?.text);
});

const paint: OpenAI.ChatCompletionFunctionTool = {
  type: "function",
  function: {
    name: "paint",
    description: "Paints the wall",
    parameters: {
      type: "object",
      properties: { colour: { enum: ["red", "green"] } },
      required: ["colour"],
      additionalProperties: false,
    },
  },
};

/** Panics unless `call` paints in a colour that there is. */
function assertPaints(call: { name?: string; arguments?: string } | undefined): void {
  assert.equal(call?.name, "paint");
  const { colour } = JSON.parse(call?.arguments ?? "") as { colour: string };
  assert.ok(colour === "red" || colour === "green", colour);
}

test("a required call is the client's, whole and in a stream, and its result is read", async () => {
  const asked = {
    model,
    messages,
    temperature: 0,
    tools: [paint],
    tool_choice: "required" as const,
    parallel_tool_calls: false,
  };
  const whole = (await client.chat.completions.create(asked)).choices[0];
  assert.equal(whole?.finish_reason, "tool_calls");
  const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
  assert.equal(streamed.choices[0]?.finish_reason, "tool_calls");
  for (const choice of [whole, streamed.choices[0]]) {
    const [call, ...more] = choice?.message.tool_calls ?? [];
    assert.equal(more.length, 0);
    assert.ok(call?.type === "function" && call.id);
    assertPaints(call.function);
  }
  const message = whole?.message;
  assert.ok(message);
  const answer = await client.chat.completions.create({
    model,
    messages: [
      ...messages,
      message,
      { role: "tool", tool_call_id: message.tool_calls?.[0]?.id ?? "", content: "done" },
    ],
    tools: [paint],
    max_tokens: 4,
  });
  assert.ok(answer.choices[0]);
});

test("a member alone tells its tokens' probabilities, and the ensemble whom to ask", async () => {
  const { choices } = await client.chat.completions.create({
    model: "Ada",
    messages,
    temperature: 0,
    logprobs: true,
    top_logprobs: 2,
  });
  const tokens = choices[0]?.logprobs?.content ?? [];
  const text = tokens.map(({ token }) => token).join("");
  assert.equal(text.trimStart(), choices[0]?.message.content);
  assert.ok(tokens.every(({ logprob, top_logprobs }) => logprob <= 0 && top_logprobs.length === 2));
  await assert.rejects(
    client.chat.completions.create({ model, messages, logprobs: true }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "logprobs",
  );
});

test("a response is the client's, whole and by its events", async () => {
  const input = "What is 347 + 85?";
  const whole = await client.responses.create({ model, input, temperature: 0 });
  assert.match(whole.output_text, /432/);
  assert.equal(whole.status, "completed");
  let text = "";
  const stream = client.responses.stream({ model, input, temperature: 0 });
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") text += event.delta;
  }
  assert.equal(text, whole.output_text);
  const final = await stream.finalResponse();
  assert.equal(final.output_text, whole.output_text);
  assert.deepEqual(final.usage, whole.usage);
  const brief = { model, temperature: 0, max_output_tokens: 20 };
  const next = await client.responses.create({
    ...brief,
    input: "And 5 + 4?",
    previous_response_id: whole.id,
  });
  const said = await client.responses.create({
    ...brief,
    input: [
      { role: "user", content: input },
      { role: "assistant", content: whole.output_text },
      { role: "user", content: "And 5 + 4?" },
    ],
  });
  assert.equal(next.output_text, said.output_text);
  assert.deepEqual(next.usage, said.usage);
  const unkept = await client.responses.create({ ...brief, input, store: false });
  await assert.rejects(
    client.responses.create({ ...brief, input, previous_response_id: unkept.id }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "previous_response_id",
  );
});

test("texts are embedded, in the clients' base 64 and as numbers", async () => {
  const input = ["A cat sat on the mat.", "What is 3 + 4?"];
  const asked = { model: "Ada", input };
  // Without a format the client asks for base 64, and decodes it.
  const [packed, plain, cut] = await Promise.all([
    client.embeddings.create(asked),
    client.embeddings.create({ ...asked, encoding_format: "float" }),
    client.embeddings.create({ ...asked, dimensions: 16 }),
  ]);
  assert.deepEqual(
    plain.data.map(({ index }) => index),
    [0, 1],
  );
  for (const [at, { embedding }] of plain.data.entries()) {
    const length = Math.hypot(...embedding);
    assert.ok(Math.abs(length - 1) < 1e-4, `${length}`);
    assert.equal(packed.data[at]?.embedding.length, embedding.length);
    assert.deepEqual(
      Array.from(packed.data[at]?.embedding ?? [], Math.fround),
      embedding.map(Math.fround),
    );
    const shorter = cut.data[at]?.embedding ?? [];
    const first = embedding.slice(0, 16);
    const expected = first.map((number) => number / Math.hypot(...first));
    assert.equal(shorter.length, 16);
    assert.ok(shorter.every((number, place) => Math.abs(number - (expected[place] ?? 0)) < 1e-5));
  }
  assert.notDeepEqual(plain.data[0]?.embedding, plain.data[1]?.embedding);
  assert.ok(plain.usage.prompt_tokens > 0 && plain.usage.total_tokens > 0);
  await assert.rejects(client.embeddings.create({ ...asked, model }), /one model/);
});

test("a response calls functions, and reads what they return", async () => {
  const { name, parameters } = paint.function;
  const asked = {
    model,
    input: "What is 347 + 85?",
    temperature: 0,
    tools: [{ type: "function" as const, name, parameters: parameters ?? {}, strict: true }],
    parallel_tool_calls: false,
  };
  const forced = { ...asked, tool_choice: { type: "function" as const, name } };
  const whole = await client.responses.create(forced);
  const streamed = await client.responses.stream(forced).finalResponse();
  for (const { output } of [whole, streamed]) {
    const [item] = output;
    assert.ok(item?.type === "function_call");
    assertPaints(item);
  }
  const [call] = whole.output;
  assert.ok(call?.type === "function_call");
  const next = await client.responses.create({
    ...asked,
    input: [
      { role: "user", content: asked.input },
      call,
      { type: "function_call_output", call_id: call.call_id, output: "done" },
    ],
    max_output_tokens: 4,
  });
  assert.ok(next.output[0]);
});
