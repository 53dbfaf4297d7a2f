/**
 * Vercel's AI SDK against `conclave serve`, by the examples of its documentation: through its
 * provider for OpenAI (responses and chats), and the one for servers of that interface. `cargo
 * xtask test --only long` starts the server and says where it is.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  cosineSimilarity,
  embedMany,
  generateText,
  type ModelMessage,
  Output,
  streamText,
  tool,
} from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";

const { CONCLAVE_SERVER: baseURL, CONCLAVE_KEY: apiKey } = process.env;
assert.ok(
  baseURL && apiKey,
  "CONCLAVE_SERVER and CONCLAVE_KEY say where the server is: run `cargo xtask test --only long`",
);
const openai = createOpenAI({ baseURL, apiKey });
const compatible = createOpenAICompatible({
  name: "conclave",
  baseURL,
  apiKey,
  supportsStructuredOutputs: true,
});
const models = {
  "openai, responses": openai("conclave"),
  "openai, chats": openai.chat("conclave"),
  "openai-compatible": compatible("conclave"),
};
const embedders = {
  openai: openai.embedding("Ada"),
  "openai-compatible": compatible.embeddingModel("Ada"),
};
const prompt = "What is 347 + 85?";
// Small models answer at length; the limits keep the tests short.
const brief = { temperature: 0, maxOutputTokens: 200, maxRetries: 0 };

for (const [name, model] of Object.entries(models)) {
  test(`${name}: a text is generated, and streamed`, async () => {
    const { text, usage, finishReason } = await generateText({ model, prompt, ...brief });
    assert.match(text, /432/);
    assert.equal(finishReason, "stop");
    assert.ok((usage.inputTokens ?? 0) > 0 && (usage.outputTokens ?? 0) > 0);
    const { textStream } = streamText({ model, prompt, ...brief });
    let streamed = "";
    for await (const part of textStream) streamed += part;
    assert.equal(streamed, text);
  });

  test(`${name}: a conversation goes on from the messages of an answer`, async () => {
    const first = { role: "user" as const, content: prompt };
    const { text, response } = await generateText({ model, messages: [first], ...brief });
    const next = { role: "user" as const, content: "And 5 + 4?" };
    const ask = (messages: ModelMessage[]) => generateText({ model, messages, ...brief });
    const again = await ask([first, ...response.messages, next]);
    const said = await ask([first, { role: "assistant", content: text }, next]);
    assert.equal(again.text, said.text);
    assert.deepEqual(again.usage.inputTokens, said.usage.inputTokens);
  });

  test(`${name}: a tool is called, and its result read`, async () => {
    const weather = tool({
      description: "Get the weather in a location",
      inputSchema: z.object({
        location: z.enum(["Oslo", "San Francisco"]).describe("The location to get the weather for"),
      }),
      execute: async ({ location }) => ({ location, temperature: 72 }),
    });
    const { steps } = await generateText({
      model,
      tools: { weather },
      // The first step calls, and the second tells.
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
      stopWhen: ({ steps }) => steps.length === 2,
      // Small models call again and again.
      providerOptions: {
        openai: { parallelToolCalls: false },
        conclave: { parallel_tool_calls: false },
      },
      prompt: "What is the weather in San Francisco?",
      ...brief,
    });
    const [result] = steps[0]?.toolResults ?? [];
    assert.ok(result && !result.dynamic);
    assert.equal(result.output.temperature, 72);
    assert.ok(["Oslo", "San Francisco"].includes(result.input.location));
    assert.equal(steps.length, 2);
    assert.equal(steps[1]?.toolCalls.length, 0);
  });

  test(`${name}: an object has its schema`, async () => {
    const schema = z.object({
      sentiment: z.enum(["positive", "neutral", "negative"]),
      sure: z.boolean(),
    });
    const { output } = await generateText({
      model,
      output: Output.object({ schema }),
      prompt: "Classify the sentiment: I love it.",
      ...brief,
    });
    assert.deepEqual(schema.parse(output), output);
  });
}

for (const [name, model] of Object.entries(embedders)) {
  test(`${name}: texts are embedded`, async () => {
    const values = ["A cat sat on the mat.", "A cat sat on a mat.", "What is 3 + 4?"];
    const { embeddings, usage } = await embedMany({ model, values, maxRetries: 0 });
    const [one, near, far] = embeddings;
    assert.ok(one && near && far);
    assert.ok(cosineSimilarity(one, near) > cosineSimilarity(one, far));
    assert.ok(usage.tokens > 0);
  });
}
