/** The AI SDK itself asks an ensemble of scripted members. */
import { defaultSampling } from "../protocol/generated-settings.ts";
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { generateText, jsonSchema, Output, streamText, type ModelMessage } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../testing/scripted.ts";
import { endless, open, segments, talker } from "../testing/staged.ts";
import { conclaveModel } from "./ai-sdk.ts";

const thinker: Script = { ...talker, thoughts: ["Well", ", well."] };

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const parts: T[] = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

// The SDK writes warnings to the console by default.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

test("generateText gets the answer, its usage and who wrote what", async () => {
  const { conclave, members } = await open({ Ada: talker, Bo: talker });
  const model = conclaveModel(conclave, { modelId: "three toys" });
  const result = await generateText({
    model,
    system: "Be brief.",
    prompt: "hello",
    temperature: 0,
    topP: 0.5,
    topK: 3,
    seed: 7,
  });
  assert.equal(result.text, "Hello there.");
  assert.deepEqual([result.finishReason, result.rawFinishReason], ["stop", "ended"]);
  assert.deepEqual(
    [result.usage.inputTokens, result.usage.outputTokens, result.usage.totalTokens],
    [5, 12, 17],
  );
  assert.deepEqual(result.providerMetadata, {
    conclave: { stop: "ended", segments },
  });
  assert.equal(result.response.modelId, "three toys");
  assert.deepEqual(result.warnings, []);
  assert.deepEqual(members.get("Ada")?.messages, [
    { role: "system", content: "Be brief." },
    { role: "user", content: "hello" },
  ]);
  assert.deepEqual(members.get("Ada")?.sampling, {
    ...defaultSampling,
    temperature: 0,
    topP: 0.5,
    topK: 3,
    seed: 7,
  });
});

test("a negative seed is one of the members', as in OpenAI's interface", async () => {
  const { conclave, members } = await open({ Ada: talker });
  await generateText({ model: conclaveModel(conclave), prompt: "hello", seed: -1 });
  assert.equal(members.get("Ada")?.sampling?.seed, 2 ** 53 - 1);
});

test("streamText gets a delta a segment, with its votes, and its end", async () => {
  const { conclave } = await open({ Ada: talker, Bo: talker });
  const result = streamText({ model: conclaveModel(conclave), prompt: "hello" });
  const parts = await all(result.fullStream);
  const deltas = parts.flatMap((part) =>
    part.type === "text-delta" ? [[part.text, part.providerMetadata]] : [],
  );
  assert.deepEqual(
    deltas,
    segments.map((segment) => [segment.text, { conclave: segment }]),
  );
  assert.deepEqual(
    parts.map(({ type }) => type),
    [
      "start",
      "start-step",
      "text-start",
      "text-delta",
      "text-delta",
      "text-end",
      "finish-step",
      "finish",
    ],
  );
  assert.equal(await result.text, "Hello there.");
  assert.equal(await result.finishReason, "stop");
  assert.equal((await result.usage).outputTokens, 12);
  assert.deepEqual(await result.providerMetadata, {
    conclave: { stop: "ended", segments },
  });
});

test("limits end an answer; what was held back before its end comes", async () => {
  for (const [settings, text, finish, raw] of [
    [{ maxOutputTokens: 5 }, "Hello", "length", "tokens"],
    [{ stopSequences: ["o t"] }, "Hell", "stop", "stop"],
    [{ stopSequences: [" there.!"] }, "Hello there.", "stop", "ended"],
  ] as const) {
    const { conclave } = await open({ Ada: talker });
    const stopSequences = "stopSequences" in settings ? [...settings.stopSequences] : undefined;
    const result = streamText({
      model: conclaveModel(conclave),
      prompt: "hello",
      ...settings,
      ...(stopSequences && { stopSequences }),
    } as Parameters<typeof streamText>[0]);
    assert.equal((await all(result.textStream)).join(""), text);
    assert.deepEqual([await result.finishReason, await result.rawFinishReason], [finish, raw]);
  }
});

test("what members think is reasoning, each one's own, and is not asked again", async () => {
  const { conclave, members } = await open({ Ada: thinker, Bo: thinker });
  const model = conclaveModel(conclave);
  const first = await generateText({ model, prompt: "hello", reasoning: "low" });
  assert.deepEqual(
    first.reasoning.map((part) => [part.type === "reasoning" && part.text, part.providerMetadata]),
    ["Ada", "Bo"].map((member) => ["Well, well.", { conclave: { member } }]),
  );
  assert.deepEqual(
    [
      first.usage.outputTokenDetails.reasoningTokens,
      first.usage.outputTokenDetails.textTokens,
      first.usage.outputTokens,
    ],
    [22, 12, 34],
  );
  assert.match(JSON.stringify(first.warnings), /reasoning.*low/);
  const messages: ModelMessage[] = [
    { role: "user", content: "hello" },
    ...first.response.messages,
    { role: "user", content: "again" },
  ];
  const streamed = streamText({
    model,
    messages,
    providerOptions: { conclave: { thinking: "on" } },
  });
  const kinds = (await all(streamed.fullStream)).map(({ type }) => type);
  assert.deepEqual(
    [
      kinds.filter((kind) => kind === "reasoning-start").length,
      kinds.filter((kind) => kind === "reasoning-end").length,
    ],
    [2, 2],
  );
  assert.deepEqual(members.get("Ada")?.messages, [
    { role: "user", content: "hello" },
    { role: "assistant", content: "Hello there." },
    { role: "user", content: "again" },
  ]);
  await generateText({
    model: conclaveModel(conclave, { thinking: "on" }),
    prompt: "hello",
    reasoning: "none",
  });
  assert.equal(members.get("Ada")?.thinking, "off");
});

test("the model's own options hold for every call, those of a call for that one", async () => {
  const { conclave, members } = await open({ Ada: talker, Bo: talker });
  const model = conclaveModel(conclave, { rule: "paper", members: ["Bo"] });
  await generateText({ model, prompt: "hello" });
  assert.equal(members.get("Ada")?.sampling, undefined);
  assert.equal(members.get("Bo")?.settings?.scoring, "logit");
  await generateText({
    model,
    prompt: "hello",
    providerOptions: { conclave: { members: ["Ada"] } },
  });
  assert.notEqual(members.get("Ada")?.sampling, undefined);
  await assert.rejects(
    generateText({ model, prompt: "hello", providerOptions: { conclave: { temper: 1 } } }),
    { name: "Settings", message: /providerOptions\.conclave knows no "temper"/ },
  );
  assert.throws(() => conclaveModel(conclave, { rules: "paper" } as object), {
    name: "Settings",
    message: /knows no "rules"/,
  });
});

test("what an ensemble can't honour is warned of, what it can't read refused", async () => {
  const { conclave } = await open({ Ada: talker });
  const model = conclaveModel(conclave);
  const prompt: LanguageModelV4CallOptions["prompt"] = [
    { role: "user", content: [{ type: "text", text: "hello" }] },
  ];
  const { warnings } = await model.doGenerate({
    prompt,
    tools: [{ type: "function", name: "clock", inputSchema: {} }],
    presencePenalty: 1,
    frequencyPenalty: 1,
  });
  assert.deepEqual(
    warnings.map((warning) => [warning.type, "feature" in warning && warning.feature]),
    ["tools", "presencePenalty", "frequencyPenalty"].map((feature) => ["unsupported", feature]),
  );
  const idle = await model.doGenerate({
    prompt,
    tools: [],
    presencePenalty: 0,
    frequencyPenalty: 0,
    responseFormat: { type: "text" },
    headers: { "user-agent": "x" },
  });
  assert.deepEqual(idle.warnings, []);
  const image: ModelMessage[] = [
    { role: "user", content: [{ type: "file", data: new Uint8Array(1), mediaType: "image/png" }] },
  ];
  await assert.rejects(generateText({ model, messages: image }), {
    name: "Settings",
    message: /text alone.*"file"/,
  });
  const tool = { role: "tool", content: [] } as const;
  await assert.rejects(async () => model.doStream({ prompt: [{ ...tool, content: [] }] }), {
    name: "Settings",
    message: /no tools/,
  });
});

test("a response format holds the members to its schema", async () => {
  const { conclave, journal } = await open({
    Ada: { ...talker, drafts: [{ text: '{"sum": 7}', ended: true }] },
  });
  const schema = jsonSchema<{ sum: number }>({
    type: "object",
    properties: { sum: { type: "integer" } },
  });
  const { output } = await generateText({
    model: conclaveModel(conclave),
    prompt: "What is 3 + 4?",
    output: Output.object({ schema }),
  });
  assert.deepEqual(output, { sum: 7 });
  assert.match(
    journal.find((entry) => entry.startsWith("document of ")) ?? "",
    /"sum":\{"type":"integer"\}/,
  );
});

test("who stops gets what there was, and the members stop", async () => {
  const { conclave, journal } = await open({ Ada: endless });
  const controller = new AbortController();
  const reasons: unknown[] = [];
  const { fullStream } = streamText({
    model: conclaveModel(conclave),
    prompt: "hello",
    abortSignal: controller.signal,
    onAbort: ({ reason }) => void reasons.push(reason),
  });
  const kinds: string[] = [];
  for await (const part of fullStream) {
    kinds.push(part.type);
    if (part.type === "text-delta") controller.abort();
  }
  assert.equal(kinds.at(-1), "abort");
  assert.equal(reasons.length, 1);
  await conclave.measure([{ role: "user", content: "hello" }]); // Runs after the answer.
  const drafts = journal.filter((entry) => entry.startsWith("Ada draft")).length;
  assert.ok(drafts < 10, `${drafts} drafts`);
  await assert.rejects(
    generateText({
      model: conclaveModel(conclave),
      prompt: "hello",
      abortSignal: AbortSignal.abort(),
    }),
    { name: "AbortError" },
  );

  // Leaving the stream stops the answer.
  const { stream } = await conclaveModel(conclave).doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "hello" }] }],
  });
  const reader = stream.getReader();
  await reader.read();
  await reader.cancel();
  await conclave.measure([{ role: "user", content: "hello" }]);
});

test("a failure in mid-answer is reported after the text so far", async () => {
  const failure = {
    move: "draft",
    call: 2,
    error: Object.assign(new Error("It fell over."), { name: "Engine" }),
  } as const;
  const { conclave } = await open({ Ada: { ...talker, failure } });
  const errors: unknown[] = [];
  const result = streamText({
    model: conclaveModel(conclave),
    prompt: "hello",
    maxRetries: 0,
    onError: ({ error }) => void errors.push(error),
  });
  assert.equal((await all(result.textStream)).join(""), "Hello");
  assert.match(String(errors[0]), /fell over/);
  assert.equal(await result.finishReason, "error");
  const again = await open({ Ada: { ...talker, failure } });
  await assert.rejects(
    generateText({ model: conclaveModel(again.conclave), prompt: "hello", maxRetries: 0 }),
    { name: "Engine", partial: "Hello" },
  );
});

test("raw chunks are the ensemble's own events", async () => {
  const { conclave } = await open({ Ada: talker });
  const prompt: LanguageModelV4CallOptions["prompt"] = [
    { role: "user", content: [{ type: "text", text: "hello" }] },
  ];
  const { stream } = await conclaveModel(conclave).doStream({ prompt, includeRawChunks: true });
  const parts: LanguageModelV4StreamPart[] = await all(stream);
  const raw = parts.flatMap((part) =>
    part.type === "raw" ? [(part.rawValue as { type: string }).type] : [],
  );
  assert.deepEqual(raw, ["reading", "begin", "round", "round", "end"]);
});
