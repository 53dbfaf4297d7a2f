/**
 * An ensemble with the interface of OpenAI's client:
 *
 * ```ts
 * const client = createChatCompletions(await Conclave.load());
 * const completion = await client.chat.completions.create({
 *   messages: [{ role: "user", content: "What is 14 plus 28?" }],
 * });
 * completion.choices[0].message.content;
 * ```
 *
 * Parameters and answers follow the client's types (tested against `openai` 7). Unsupported
 * parameters are refused by name, unless their value asks for nothing. The extra field `conclave`
 * holds the writers of each segment and the votes.
 */
import {
  flag,
  list,
  nullable,
  object,
  optional,
  shape,
  text,
  whole,
  type Check,
} from "../protocol/check.ts";
import {
  requestNames,
  samplingChecks,
  type SamplingParams,
} from "../protocol/generated-settings.ts";
import { finishOf, unfinished, voteOf, type FinishReason, type SegmentVote } from "./answer.ts";
import {
  BadSettings,
  type Conclave,
  type ConclaveEvent,
  type Message,
  type ResponseFormat,
  type Sampling,
  type StopReason,
} from "./conclave.ts";
import { checked, ensemble, notText, seedOf, signal as signalCheck } from "./options.ts";

export type { FinishReason, SegmentVote } from "./answer.ts";
export type { SamplingParams } from "../protocol/generated-settings.ts";

/** Part of a message. */
export interface ChatTextPart {
  type: "text";
  text: string;
}

/** A message of the conversation; `developer` is the later name of `system`. */
export interface ChatMessage {
  role: "system" | "developer" | "user" | "assistant";
  content?: string | readonly ChatTextPart[] | null;
}

/** Form of the answer. */
export type ChatResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; json_schema: ChatSchema };

/** Schema that the answer conforms to. */
export interface ChatSchema {
  /** Ignored, as are the next two: a schema is always enforced. */
  name: string;
  description?: string;
  strict?: boolean | null;
  /** Any object by default. */
  schema?: Record<string, unknown>;
}

const sampled = Object.keys(requestNames) as (keyof typeof requestNames)[];

/** Parameters of a request. `null` means absent. */
export interface ChatParams extends SamplingParams {
  messages: readonly ChatMessage[];
  /** Only repeated in the response: the members answer. */
  model?: string;
  /**
   * Maximum number of tokens of the answer, each segment counted by its writer's tokenizer;
   * `max_tokens` is the older name.
   */
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  /** Texts that end the answer and are left out of it. */
  stop?: string | readonly string[] | null;
  /** Any integer. */
  seed?: number | null;
  stream?: boolean | null;
  stream_options?: { include_usage?: boolean } | null;
  n?: 1 | null;
  response_format?: ChatResponseFormat;
  logprobs?: false | null;
  /** Ignored. */
  user?: string;
}

/** Request options of the client. */
export interface ChatOptions {
  signal?: AbortSignal | null;
}

/** Tokens of the conversation, by the member that counts the most, and of the answer. */
export interface ChatUsage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

/** A complete answer. */
export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  /** Unix time in seconds. */
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

/** Part of a streamed answer. The last one, or the last before the usage, has the finish reason. */
export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  /** Empty in the last chunk, which has the usage, if that was requested. */
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
 * An answer as it is written, to be read once. `controller.abort()`, or an abort of the request's
 * signal, stops it and ends the iteration.
 */
export interface ChatStream extends AsyncIterable<ChatCompletionChunk> {
  controller: AbortController;
}

/** The part of the client that an ensemble implements. */
export interface ChatCompletions {
  chat: {
    completions: {
      create(params: ChatParams & { stream: true }, options?: ChatOptions): Promise<ChatStream>;
      create(
        params: ChatParams & { stream?: false | null },
        options?: ChatOptions,
      ): Promise<ChatCompletion>;
      create(params: ChatParams, options?: ChatOptions): Promise<ChatCompletion | ChatStream>;
    };
  };
}

/**
 * Values that ask for nothing, by parameter: accepted even for a parameter that is otherwise
 * refused.
 */
const idle: Record<string, readonly unknown[]> = {
  n: [1],
  logprobs: [false],
  frequency_penalty: [0],
  presence_penalty: [0],
  parallel_tool_calls: [true, false],
  store: [false],
  stream: [true, false],
};
/** Checks of the supported parameters. */
const fields = {
  messages: list(object),
  model: orNone(text),
  max_completion_tokens: orNone(whole(1, 2 ** 32 - 1)),
  max_tokens: orNone(whole(1, 2 ** 32 - 1)),
  stop: orNone(stops),
  ...(Object.fromEntries(
    sampled.map((name) => [requestNames[name], orNone(samplingChecks[name])]),
  ) as Record<keyof SamplingParams, ReturnType<typeof orNone<number>>>),
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

function samplingIn(params: SamplingParams): Partial<Sampling> {
  const set = sampled.map((name) => [name, params[requestNames[name]]] as const);
  return Object.fromEntries(set.filter(([, value]) => value != null));
}

/** One text or several. */
function stops(data: unknown, path: string): string | string[] {
  return Array.isArray(data) ? list(text)(data, path) : text(data, path);
}

/**
 * Makes OpenAI's client interface over these members. `create` throws as `Conclave.ask` does, and
 * AbortError when its signal aborts. A stream is returned once the members begin to read: later
 * errors are thrown by its iteration, and a later abort ends that.
 */
export function createChatCompletions(conclave: Conclave): ChatCompletions {
  checked("The ensemble", conclave, ensemble);
  async function create(
    params: ChatParams,
    options: ChatOptions = {},
  ): Promise<ChatCompletion | ChatStream> {
    refuseForeign(params);
    // The client's own options (timeout, retries) are ignored.
    const { signal } = checked(
      "The options of create",
      options,
      shape({ signal: orNone(signalCheck) }),
    );
    const { model, seed, stop, stream_options: streamOptions } = params;
    const maxTokens = params.max_completion_tokens ?? params.max_tokens;
    const controller = new AbortController();
    const stopping = signal ? AbortSignal.any([signal, controller.signal]) : controller.signal;
    const events = conclave.ask(params.messages.map(messageOf), {
      signal: stopping,
      ...(maxTokens != null && { maxTokens }),
      ...(params.response_format && { responseFormat: formatOf(params.response_format) }),
      ...(stop != null && { stop: typeof stop === "string" ? [stop] : [...stop] }),
      sampling: {
        ...samplingIn(params),
        ...(seed != null && { seed: seedOf(seed) }),
      },
    });
    const head = {
      id: `chatcmpl-${crypto.randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: model ?? "conclave",
    };
    if (!params.stream) return completed(events, head, signal);
    // Also ends a stream that is never read.
    stopping.addEventListener("abort", () => void events.return());
    const first = await events.next();
    signal?.throwIfAborted();
    return streamOf(
      chunks(restOf(first, events), head, streamOptions?.include_usage ?? false),
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
  throw unfinished();
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

/** The events again, of which the first was taken. */
async function* restOf(
  first: IteratorResult<ConclaveEvent, void>,
  events: AsyncGenerator<ConclaveEvent, void>,
): AsyncGenerator<ConclaveEvent, void> {
  try {
    if (!first.done) yield first.value;
    yield* events;
  } finally {
    await events.return();
  }
}

async function* chunks(
  events: AsyncIterable<ConclaveEvent>,
  head: Head,
  withUsage: boolean,
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
  let sent = "";
  let members: string[] = [];
  for await (const event of events) {
    if (event.type === "begin") {
      members = event.members;
      yield chunk({ role: "assistant", content: "" });
    }
    if (event.type === "round") {
      sent += event.text;
      yield { ...chunk({ content: event.text }), conclave: voteOf(event, members) };
    }
    if (event.type !== "end") continue;
    // As in OpenAI's client, an abort just ends the iteration: of the request's signal, or of the
    // stream's controller.
    if (event.stop === "stopped") return;
    // Text withheld because it could begin a stop text.
    const rest = event.text.slice(sent.length);
    if (rest !== "") yield chunk({ content: rest });
    yield chunk({}, finishOf(event.stop));
    if (withUsage) yield { ...head, object, choices: [], usage: usageOf(event.usage) };
  }
}

function refuseForeign(params: ChatParams): void {
  checked("The parameters of create", params, object);
  for (const [name, value] of Object.entries(params)) {
    if (value == null || idle[name]?.includes(value)) continue;
    const reason = name === "logprobs" ? perSegment : "";
    if (!Object.hasOwn(fields, name))
      throw new BadSettings(
        `An ensemble can't honour ${JSON.stringify(name)}: ` +
          `${JSON.stringify(value)}.${reason} Leave it out.`,
      );
  }
  checked("create", params, shape(fields));
}

const perSegment =
  " Members agree on segments, and their tokens are not the same: " +
  "how likely each member found a segment is in `conclave`, as `logprobs`.";

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
  for (const name of ["tool_calls", "function_call"] as const) {
    const called = (message as object as Record<string, unknown>)[name] ?? [];
    if (!Array.isArray(called) || called.length > 0)
      throw new BadSettings(
        `The members call no tools, and messages[${index}].${name} are calls. Leave them out.`,
      );
  }
  // In the client's types an assistant's may be absent.
  if ((content ?? undefined) === undefined && role !== "assistant")
    throw new BadSettings(
      `messages[${index}].content must be a string or a list; it is missing. Say what it says.`,
    );
  const other = parts.find(({ type }) => type !== "text");
  if (other) throw notText(other.type);
  const pieces = checked(`messages[${index}].content`, parts, list(shape({ text })));
  return {
    role: role === "developer" ? "system" : role,
    content: pieces.map(({ text }) => text).join(""),
  };
}

/** A text, its parts, or none. */
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
