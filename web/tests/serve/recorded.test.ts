/**
 * Requests of Continue and of Open WebUI, as `tests/clients/record.py` recorded them, against
 * `conclave serve` with the bundled members, and its answers read as those clients read them.
 * `cargo xtask test --only serve` starts the server and says where it is.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const { CONCLAVE_SERVER: server, CONCLAVE_KEY: key, CONCLAVE_WEB: web } = process.env;
assert.ok(
  server && key && web,
  "CONCLAVE_SERVER and CONCLAVE_KEY say where the server is: run `cargo xtask test --only serve`",
);
const folder = `${web}/../tests/clients/recorded`;

interface Tool {
  function: { name: string };
}
interface Recorded {
  name: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  /** Its tools are the recording's, if it has any. */
  body?: { stream: boolean; stream_options?: object; messages: object[]; tools?: unknown };
}
interface Recording {
  client: string;
  tools: Tool[];
  requests: Recorded[];
}
interface Message {
  content?: string | null;
  tool_calls?: { id?: string; function: { name?: string; arguments: string } }[];
}
interface Answer {
  object: string;
  data: { id: string }[];
  error?: { message: string; code: string };
  choices: { message: Message; delta: Message; finish_reason: string | null }[];
  usage?: { total_tokens: number } | null;
}

/** A part of a request with its texts cut short: the members read 1,024 tokens. */
function short(value: unknown): unknown {
  if (typeof value === "string") return value.slice(0, 80);
  if (Array.isArray(value)) return value.map(short);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, short(part)]));
}

/** Sends a recorded request with `body` in place of its own; without `body`, with none. */
function send({ method, path, headers }: Recorded, body?: object): Promise<Response> {
  return fetch(new URL(path, server), {
    method,
    headers: { ...headers, authorization: `Bearer ${key}` },
    ...(body && { body: JSON.stringify(body) }),
  });
}

/** The data of a stream's events, which ends with `[DONE]`. */
async function events(response: Response): Promise<Answer[]> {
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  const lines = (await response.text()).split("\n").filter((line) => line.startsWith("data:"));
  const data = lines.map((line) => line.slice(5).trim());
  const end = data.pop() ?? "";
  // An error is the last event: clients stop there.
  if (end !== "[DONE]") data.push(end);
  return data.map((line) => JSON.parse(line) as Answer);
}

/** The message that an answer's chunks or its body tell, and why it ended. */
async function read(response: Response, streamed: boolean) {
  assert.equal(response.status, 200);
  if (!streamed) {
    const { object, choices, usage } = (await response.json()) as Answer;
    assert.equal(object, "chat.completion");
    const [choice] = choices;
    return { usage, finish: choice?.finish_reason, ...choice?.message };
  }
  const chunks = await events(response);
  assert.ok(chunks.every(({ object }) => object === "chat.completion.chunk"));
  const choices = chunks.flatMap((chunk) => chunk.choices);
  const finishes = choices.flatMap(({ finish_reason }) => finish_reason ?? []);
  assert.equal(finishes.length, 1);
  return {
    usage: chunks.at(-1)?.usage,
    finish: finishes[0],
    content: choices.map(({ delta }) => delta.content ?? "").join(""),
    tool_calls: choices.flatMap(({ delta }) => delta.tool_calls ?? []),
  };
}

for (const file of readdirSync(folder)) {
  const { client, tools, requests } = JSON.parse(
    readFileSync(`${folder}/${file}`, "utf8"),
  ) as Recording;
  const chats = requests.filter(({ path }) => path === "/v1/chat/completions");
  assert.ok(chats.length > 0);

  for (const [index, request] of chats.entries()) {
    const { name, body } = request;
    assert.ok(body);
    test(`${client}: an answer is whole, in a stream or not: ${index}, ${name}`, async () => {
      const { tools: offered, ...rest } = short(body) as NonNullable<Recorded["body"]>;
      const offers = offered ? { tools: short(tools.slice(0, 1)) } : {};
      const limit = { temperature: 0, max_tokens: 60 };
      const response = await send(request, { ...rest, ...offers, ...limit });
      const { content, finish, tool_calls, usage } = await read(response, rest.stream);
      assert.ok(content || tool_calls?.length);
      assert.match(finish ?? "", /^(stop|length|tool_calls)$/);
      if (!rest.stream || rest.stream_options) assert.ok((usage?.total_tokens ?? 0) > 0);
    });
  }

  test(`${client}: a request that is too long is refused so that the user reads why`, async () => {
    const request = chats.find(({ body }) => body?.tools);
    assert.ok(request);
    const response = await send(request, { ...request.body, tools });
    // It is the last event if the members took so long that the stream had begun.
    const refusal =
      response.status === 400
        ? ((await response.json()) as Answer)
        : (await events(response)).at(-1);
    assert.match(refusal?.error?.message ?? "", /do not fit the context/);
    assert.equal(refusal?.error?.code, "context_length_exceeded");
  });

  test(`${client}: each of its tools is called`, async () => {
    const request = chats.find(({ body }) => body?.tools);
    assert.ok(request);
    const messages = [{ role: "user", content: "Go." }];
    for (const tool of tools) {
      const forced = { tools: [short(tool)], tool_choice: "required", parallel_tool_calls: false };
      const body = { ...request.body, messages, ...forced, max_tokens: 80 };
      const { tool_calls, finish } = await read(await send(request, body), true);
      const [call] = tool_calls ?? [];
      assert.ok(call?.id, tool.function.name);
      assert.equal(call.function.name, tool.function.name);
      if (finish === "length") continue;
      JSON.parse((tool_calls ?? []).map((part) => part.function.arguments).join(""));
    }
  });

  for (const request of requests.filter(({ method }) => method === "GET")) {
    test(`${client}: models are listed`, async () => {
      const { object, data } = (await (await send(request)).json()) as Answer;
      assert.equal(object, "list");
      assert.deepEqual(
        data.map(({ id }) => id),
        ["conclave", "Ada", "Quill", "Juno"],
      );
    });
  }
}
