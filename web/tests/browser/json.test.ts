/**
 * An answer that conforms to a schema, through OpenAI's client, by members that have never seen
 * JSON.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";

const stand = stage("none");

interface Completion {
  choices: { finish_reason: string; message: { content: string } }[];
  conclave: { stop: string; segments: { writers: string[] }[] };
}

const schema = {
  type: "object",
  properties: {
    sum: { type: "integer", minimum: 0, maximum: 9999 },
    names: {
      type: "array",
      items: { type: "string", minLength: 1, maxLength: 6 },
      minItems: 1,
      maxItems: 2,
    },
    note: { anyOf: [{ type: "null" }, { $ref: "#/$defs/mood" }] },
  },
  required: ["sum", "names", "note"],
  additionalProperties: false,
  $defs: { mood: { enum: ["glad", "grün 日"] } },
};

test("toys answer by a schema, in a worker each or in one, and fetch the module once", async () => {
  const visitor = await stand.arrive({ search: "?backend=cpu" });
  const asked: string[] = [];
  visitor.page.on("request", (request) =>
    asked.push(new URL(request.url()).pathname.split("/").at(-1)!),
  );
  for (const threads of [1, 3]) {
    asked.length = 0;
    const { answers, any, cut, deepest, deeper, refused, words } = await visitor.page.evaluate(
      async ({ schema, threads }) => {
        interface Client {
          chat: { completions: { create(params: object): Promise<Completion> } };
        }
        type Conclave = { close(): void };
        const from = (file: string): Promise<unknown> =>
          import(new URL(`./library/${file}`, document.baseURI).href);
        const { Conclave } = (await from("conclave.js")) as {
          Conclave: { load(options: object): Promise<Conclave> };
        };
        const { createChatCompletions } = (await from("openai.js")) as {
          createChatCompletions(conclave: Conclave): Client;
        };
        const conclave = await Conclave.load({ backend: "cpu", threads });
        const { completions } = createChatCompletions(conclave).chat;
        const messages = [{ role: "user", content: "What is 347 + 586?" }];
        const words = await completions.create({ messages, seed: 1 });
        const response_format = {
          type: "json_schema",
          json_schema: { name: "sum", strict: true, schema },
        };
        const answers: Completion[] = [];
        for (const seed of [1, 2, 3])
          answers.push(
            await completions.create({ messages, response_format, seed, temperature: 1 }),
          );
        const cut = await completions.create({ messages, response_format, seed: 1, max_tokens: 3 });
        // Any object is valid, so three tokens may complete it or cut it off.
        const any = await completions.create({
          messages,
          response_format: { type: "json_object" },
          seed: 1,
          max_tokens: 3,
        });
        // As deep as is supported, and deeper: neither overflows a worker's stack.
        const chain = (count: number): object => {
          const next = (n: number): object => ({
            type: "object",
            properties: { next: { $ref: `#/$defs/d${n + 1}` } },
            required: ["next"],
          });
          const defs = Array.from({ length: count }, (_, n) => [`d${n}`, next(n)]);
          return {
            $ref: "#/$defs/d0",
            $defs: Object.fromEntries([...defs, [`d${count}`, { const: "end" }]]),
          };
        };
        const deep = async (count: number): Promise<string> => {
          const response_format = {
            type: "json_schema",
            json_schema: { name: "deep", schema: chain(count) },
          };
          return completions.create({ messages, response_format, seed: 1 }).then(
            ({ choices }) => choices[0]!.message.content,
            (error: Error) => `${error.name}: ${error.message}`,
          );
        };
        const deepest = await deep(60);
        const deeper = await deep(400);
        const strange = {
          type: "json_schema",
          json_schema: { name: "x", schema: { properties: { a: { uniqueItems: true } } } },
        };
        const refused = await completions
          .create({ messages, response_format: strange })
          .then(String, (error: Error) => `${error.name}: ${error.message}`);
        conclave.close();
        return { answers, any, cut, deepest, deeper, refused, words };
      },
      { schema, threads },
    );
    for (const { choices, conclave } of answers) {
      const [{ finish_reason, message }] = choices as [Completion["choices"][0]];
      assert.deepEqual([finish_reason, conclave.stop], ["stop", "ended"], message.content);
      const { sum, names, note, ...rest } = JSON.parse(message.content) as {
        sum: number;
        names: string[];
        note: string | null;
      };
      assert.ok(Number.isInteger(sum) && sum >= 0 && sum <= 9999, message.content);
      assert.ok(
        names.length >= 1 &&
          names.length <= 2 &&
          names.every((name) => [...name].length >= 1 && [...name].length <= 6),
        message.content,
      );
      assert.ok([null, "glad", "grün 日"].includes(note), message.content);
      assert.deepEqual(rest, {});
    }
    assert.ok(
      answers.some(({ conclave }) => conclave.segments.length > 1),
      "rounds were played",
    );
    assert.deepEqual(cut.choices[0]!.finish_reason, "length");
    for (const { choices } of [cut, any])
      assert.ok(choices[0]!.message.content.startsWith("{"), choices[0]!.message.content);
    assert.ok(deepest.startsWith('{"next":'), deepest);
    assert.match(deeper, /^Settings: .*more than 256 deep/);
    assert.match(refused, /^Settings: .*#\/properties\/a.*uniqueItems/);
    assert.ok(
      !words.choices[0]!.message.content.startsWith("{"),
      "nothing holds an answer in words",
    );
    assert.ok(asked.filter((file) => file === "grammar.wasm").length <= 1, asked.join());
  }
  await visitor.leaveClean();
});
