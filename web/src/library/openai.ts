/**
 * An ensemble behind the interface of OpenAI's client, for code that is written against that:
 *
 * ```ts
 * const client = createChatCompletions(await Conclave.load());
 * const completion = await client.chat.completions.create({ messages: [{ role: "user", content: "What is 14 plus 28?" }] });
 * completion.choices[0].message.content;
 * ```
 *
 * Parameters and answers are named and shaped as its client's types say (tested against `openai`
 * 7). A parameter that an ensemble can't honour is refused by its name, unless it asks for nothing.
 * What the client has no field for is in `conclave`: who wrote each segment, and how the members
 * voted.
 */
import {
  flag,
  list,
  nullable,
  optional,
  shape,
  text,
  whole,
  within,
  type Check,
} from "../protocol/check.ts";
import { finishOf, voteOf, type FinishReason, type SegmentVote } from "./answer.ts";
import {
  BadSettings,
  type Conclave,
  type ConclaveEvent,
  type Message,
  type ResponseFormat,
  type StopReason,
} from "./conclave.ts";
import { checked, ensemble, object, signal as signalCheck } from "./options.ts";

export type { FinishReason, SegmentVote } from "./answer.ts";

/** A piece of a message. */
export interface ChatTextPart {
  type: "text";
  text: string;
}

/** A message of the conversation; `developer` is `system` by its later name. */
export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant";
  content?: string | readonly ChatTextPart[] | null;
}

/** What the answer is to be. */
export type ChatResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; json_schema: ChatSchema };

/** A schema that the answer is a document of. */
export interface ChatSchema {
  /** Of no meaning here, nor are the next two: a schema is always kept to. */
  name: string;
  description?: string;
  strict?: boolean | null;
  /** Any object if left out. */
  schema?: Record<string, unknown>;
}

/** What may be asked for. What is `null` is as if it were left out. */
export interface ChatParams {
  messages: readonly ChatMessage[];
  /** Told back, and nothing else: the members answer. */
  model?: string;
  /**
   * Tokens of the answer at most, each segment's in its writer's own; `max_tokens` is its older
   * name.
   */
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  /** Texts that the answer ends before. */
  stop?: string | readonly string[] | null;
  temperature?: number | null;
  top_p?: number | null;
  /** Any whole number. */
  seed?: number | null;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  n?: 1 | null;
  response_format?: ChatResponseFormat;
  logprobs?: false | null;
  /** Of no meaning here. */
  user?: string;
}

/** As the client takes them. */
export interface ChatOptions {
  signal?: AbortSignal | null;
}

/** Tokens of the conversation, in the member that has the most, and of the answer. */
export interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

/** An answer. */
export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** In seconds since 1970. */
  created: number;
  model: string;
  choices: [
    {
      index: 0;
      finish_reason: FinishReason;
      logprobs: null;
      message: { role: "assistant"; content: string; refusal: null };
    },
  ];
  usage: ChatUsage;
  conclave: { stop: StopReason; segments: SegmentVote[] };
}

/** A piece of an answer that is streamed. The last one but for the usage says why it is over. */
export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  /** None in the last one, which tells the usage, where that was asked for. */
  choices: {
    index: 0;
    delta: { role?: "assistant"; content?: string };
    finish_reason: FinishReason | null;
    logprobs: null;
  }[];
  usage?: ChatUsage | null;
  conclave?: SegmentVote;
}

/**
 * An answer as it is written, to be read once. `controller.abort()` stops it, and ends the reading.
 */
export interface ChatStream extends AsyncIterable<ChatCompletionChunk> {
  controller: AbortController;
}

/** What of the client an ensemble stands in for. */
export interface ChatCompletions {
  chat: {
    completions: {
      create(params: ChatParams & { stream: true }, options?: ChatOptions): Promise<ChatStream>;
      create(
        params: ChatParams & { stream?: false | null },
        options?: ChatOptions,
      ): Promise<ChatCompletion>;
    };
  };
}

/** What a parameter that means nothing here may be, since then it asks for nothing. */
const idle: Record<string, readonly unknown[]> = {
  n: [1],
  logprobs: [false],
  frequency_penalty: [0],
  presence_penalty: [0],
  parallel_tool_calls: [true, false],
  store: [false],
  stream: [true, false],
};
/** What they may be that mean something. */
const fields = {
  messages: list(object),
  model: orNone(text),
  max_completion_tokens: orNone(whole(1, 2 ** 32 - 1)),
  max_tokens: orNone(whole(1, 2 ** 32 - 1)),
  stop: orNone(stops),
  temperature: orNone(within(0, 10)),
  top_p: orNone(within(0, 1)),
  seed: orNone(whole(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  stream_options: orNone(shape({ include_usage: optional(flag) })),
  response_format: orNone(object),
  user: orNone(text),
};

const described = shape({
  name: text,
  description: orNone(text),
  strict: orNone(flag),
  schema: orNone(object),
});

function orNone<T>(check: Check<T>) {
  return optional(nullable(check));
}

/** One text or several. */
function stops(data: unknown, path: string): string | string[] {
  return Array.isArray(data) ? list(text)(data, path) : text(data, path);
}

/**
 * The interface of OpenAI's client over these members. `create` throws as `Conclave.ask` does, and
 * AbortError when its signal stops it.
 */
export function createChatCompletions(conclave: Conclave): ChatCompletions {
  checked("The ensemble", conclave, ensemble);
  async function create(
    params: ChatParams,
    options: ChatOptions = {},
  ): Promise<ChatCompletion | ChatStream> {
    refuseForeign(params);
    // The client's own options (a timeout, retries) mean nothing here.
    const { signal } = checked(
      "The options of create",
      options,
      shape({ signal: orNone(signalCheck) }),
    );
    const {
      model = "conclave",
      temperature,
      top_p: topP,
      seed,
      stop,
      stream_options: streamOptions,
    } = params;
    const maxTokens = params.max_completion_tokens ?? params.max_tokens;
    const controller = new AbortController();
    const events = conclave.ask(params.messages.map(messageOf), {
      signal: signal ? AbortSignal.any([signal, controller.signal]) : controller.signal,
      ...(maxTokens != null && { maxTokens }),
      ...(params.response_format && { responseFormat: formatOf(params.response_format) }),
      ...(stop != null && { stop: typeof stop === "string" ? [stop] : [...stop] }),
      sampling: {
        ...(temperature != null && { temperature }),
        ...(topP != null && { topP }),
        ...(seed != null && { seed: seedOf(seed) }),
      },
    });
    const head = {
      id: `chatcmpl-${crypto.randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model,
    };
    if (!params.stream) return completed(events, head, signal);
    return streamOf(
      chunks(events, head, streamOptions?.include_usage ?? false, signal),
      controller,
    );
  }
  return {
    chat: { completions: { create: create as ChatCompletions["chat"]["completions"]["create"] } },
  };
}

type Head = Pick<ChatCompletion, "id" | "created" | "model">;

async function completed(
  events: AsyncIterable<ConclaveEvent>,
  head: Head,
  signal: AbortSignal | null | undefined,
): Promise<ChatCompletion> {
  const segments: SegmentVote[] = [];
  let members: string[] = [];
  for await (const event of events) {
    if (event.type === "begin") members = event.members;
    if (event.type === "round") segments.push(voteOf(event, members));
    if (event.type !== "end") continue;
    if (event.stop === "stopped") signal?.throwIfAborted();
    const { text: content, stop } = event;
    const choice = {
      index: 0,
      finish_reason: finishOf(stop),
      logprobs: null,
      message: { role: "assistant", content, refusal: null },
    } as const;
    return {
      ...head,
      object: "chat.completion",
      choices: [choice],
      usage: usageOf(event.usage),
      conclave: { stop, segments },
    };
  }
  throw new BadSettings("The answer has no end. Close no engine that answers.");
}

function streamOf(
  chunks: AsyncGenerator<ChatCompletionChunk>,
  controller: AbortController,
): ChatStream {
  let read = false;
  return {
    controller,
    [Symbol.asyncIterator]() {
      if (read)
        throw new BadSettings("This stream was read already. Keep its chunks, or ask again.");
      read = true;
      return chunks;
    },
  };
}

async function* chunks(
  events: AsyncIterable<ConclaveEvent>,
  head: Head,
  withUsage: boolean,
  signal: AbortSignal | null | undefined,
): AsyncGenerator<ChatCompletionChunk> {
  const object = "chat.completion.chunk" as const;
  const usage = withUsage ? { usage: null } : {};
  const chunk = (
    delta: ChatCompletionChunk["choices"][0]["delta"],
    finish: FinishReason | null = null,
  ): ChatCompletionChunk => ({
    ...head,
    object,
    choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
    ...usage,
  });
  let told = "";
  let members: string[] = [];
  for await (const event of events) {
    if (event.type === "begin") {
      members = event.members;
      yield chunk({ role: "assistant", content: "" });
    }
    if (event.type === "round") {
      told += event.text;
      yield { ...chunk({ content: event.text }), conclave: voteOf(event, members) };
    }
    if (event.type !== "end") continue;
    // Whose own signal stops it hears so; who stops the stream, as with OpenAI's, reads no more.
    if (event.stop === "stopped") {
      signal?.throwIfAborted();
      return;
    }
    // What was held back, since it might have begun a text to stop before.
    const rest = event.text.slice(told.length);
    if (rest !== "") yield chunk({ content: rest });
    yield chunk({}, finishOf(event.stop));
    if (withUsage) yield { ...head, object, choices: [], usage: usageOf(event.usage) };
  }
}

/** The client's seeds may be negative, the members' start at 0: those count back from the end. */
const seedOf = (seed: number): number => (seed < 0 ? seed + 2 ** 53 : seed);

function refuseForeign(params: ChatParams): void {
  checked("The parameters of create", params, object);
  for (const [name, value] of Object.entries(params)) {
    if (value == null || idle[name]?.includes(value)) continue;
    const reason = name === "logprobs" ? perSegment : "";
    if (!Object.hasOwn(fields, name))
      throw new BadSettings(
        `An ensemble can't honour ${JSON.stringify(name)}: ${JSON.stringify(value)}.${reason} Leave it out.`,
      );
  }
  checked("create", params, shape(fields));
}

const perSegment =
  " Members agree on segments, and their tokens are not the same: how likely each member found a segment is in `conclave`, as `logprobs`.";

function formatOf(format: ChatResponseFormat): ResponseFormat {
  if (format.type !== "json_schema") return format;
  const { schema } = checked("response_format.json_schema", format.json_schema, described);
  return schema ? { type: "json_schema", schema } : { type: "json_object" };
}

function messageOf(message: ChatMessage, index: number): Message {
  const { role } = message;
  const content = checked(`messages[${index}].content`, message.content, contents);
  const parts: readonly ChatTextPart[] =
    typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  // An assistant that called a tool has said nothing.
  if ((content ?? undefined) === undefined && role !== "assistant")
    throw new BadSettings(
      `messages[${index}].content must be a string or a list; it is missing. Say what it says.`,
    );
  const other = parts.find(({ type }) => type !== "text");
  if (other)
    throw new BadSettings(
      `The members read text alone, and a message has a part of type ${JSON.stringify(other.type)}. Leave it out.`,
    );
  const pieces = checked(`messages[${index}].content`, parts, list(shape({ text })));
  return {
    role: role === "developer" ? "system" : role,
    content: pieces.map(({ text }) => text).join(""),
  };
}

/** A text, or its parts, or none. */
function contents(data: unknown, path: string): ChatMessage["content"] {
  return data == null || typeof data === "string"
    ? (data ?? null)
    : (list(object)(data, path) as ChatTextPart[]);
}

const usageOf = ({
  promptTokens,
  answerTokens,
}: {
  promptTokens: number;
  answerTokens: number;
}): ChatUsage => ({
  prompt_tokens: promptTokens,
  completion_tokens: answerTokens,
  total_tokens: promptTokens + answerTokens,
});
