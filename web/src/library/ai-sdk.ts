/**
 * An ensemble as a model of the AI SDK:
 *
 * ```ts
 * import { streamText } from "ai";
 *
 * const model = conclaveModel(await Conclave.load());
 * const { textStream } = streamText({ model, prompt: "What is 14 plus 28?" });
 * for await (const text of textStream) show(text);
 * ```
 *
 * Implements version 4 of the language model specification (`ai` 7). Unsupported call settings are
 * reported in the call's warnings; an unreadable message is refused. `providerMetadata.conclave`
 * holds the writers of each segment and the votes; `providerOptions.conclave` takes
 * {@link ConclaveModelOptions} for one call. Members' thoughts arrive as reasoning.
 */
import type {
  JSONObject,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import { optional, text } from "../protocol/check.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import { finishOf, unfinished, voteOf, type SegmentVote } from "./answer.ts";
import {
  BadSettings,
  isAbort,
  type AskOptions,
  type Conclave,
  type EndEvent,
  type Message,
} from "./conclave.ts";
import { answerFields, checked, checkedOptions, ensemble, notText, seedOf } from "./options.ts";

export type { SegmentVote } from "./answer.ts";

/** Defaults for calls that leave a setting out. */
export interface ConclaveModelOptions
  extends Pick<AskOptions, "rule" | "settings" | "members" | "thinking" | "overflow"> {
  /** Reported in responses and telemetry; `ensemble` by default. */
  modelId?: string;
}

/** Makes a model of these members, which the caller still owns. Throws as `Conclave.ask` does. */
export function conclaveModel(
  conclave: Conclave,
  options: ConclaveModelOptions = {},
): LanguageModelV4 {
  checked("The ensemble", conclave, ensemble);
  const { modelId = "ensemble", ...defaults } = checkedOptions("conclaveModel", options, {
    modelId: optional(text),
    ...answerFields,
  });
  const asked = (call: LanguageModelV4CallOptions, signal: AbortSignal | undefined): Asked => ({
    conclave,
    messages: call.prompt.map(messageOf),
    options: { ...(defaults as AskOptions), ...optionsOf(call), ...(signal && { signal }) },
    signal,
  });
  return {
    specificationVersion: "v4",
    provider: "conclave",
    modelId,
    supportedUrls: {},

    async doGenerate(call) {
      const timestamp = new Date();
      const warnings = warningsOf(call);
      const blocks = new Map<string, Said>();
      for await (const part of partsOf(asked(call, call.abortSignal))) {
        if (part.type === "text-start") blocks.set(part.id, { type: "text", text: "" });
        if (part.type === "reasoning-start")
          blocks.set(part.id, {
            type: "reasoning",
            text: "",
            ...(part.providerMetadata && { providerMetadata: part.providerMetadata }),
          });
        if (part.type === "text-delta" || part.type === "reasoning-delta")
          blocks.get(part.id)!.text += part.delta;
        if (part.type !== "finish") continue;
        const { finishReason, usage, providerMetadata = {} } = part;
        return {
          content: [...blocks.values()],
          finishReason,
          usage,
          providerMetadata,
          warnings,
          response: { timestamp, modelId },
        };
      }
      throw unfinished();
    },

    async doStream(call) {
      const cancelled = new AbortController();
      const { abortSignal: callerSignal } = call;
      const warnings = warningsOf(call);
      const request = asked(
        call,
        callerSignal ? AbortSignal.any([callerSignal, cancelled.signal]) : cancelled.signal,
      );
      const stream = new ReadableStream<LanguageModelV4StreamPart>({
        async start(controller) {
          controller.enqueue({ type: "stream-start", warnings });
          controller.enqueue({ type: "response-metadata", timestamp: new Date(), modelId });
          try {
            for await (const part of partsOf(request))
              if (part.type !== "raw" || call.includeRawChunks) controller.enqueue(part);
          } catch (error) {
            if (isAbort(error) || request.signal?.aborted) throw error;
            controller.enqueue({ type: "error", error });
            controller.enqueue({
              type: "finish",
              finishReason: { unified: "error", raw: undefined },
              usage: usageOf(undefined, undefined),
            });
          }
          controller.close();
        },
        cancel: (reason) => cancelled.abort(reason),
      });
      return { stream };
    },
  };
}

/** A call in the ensemble's terms. */
interface Asked {
  conclave: Conclave;
  messages: Message[];
  options: AskOptions;
  signal: AbortSignal | undefined;
}

type Said = Extract<LanguageModelV4Content, { type: "text" | "reasoning" }>;

const thoughtId = (member: string): string => `thought of ${member}`;

/**
 * Yields the parts of an answer: each segment is a delta of one text, each member's thought a
 * reasoning.
 */
async function* partsOf({
  conclave,
  messages,
  options,
  signal,
}: Asked): AsyncGenerator<LanguageModelV4StreamPart> {
  const id = "answer";
  const segments: SegmentVote[] = [];
  /** Members that have begun to think. */
  const thinking = new Set<string>();
  let reasoning = 0;
  let members: string[] = [];
  let text: string | undefined;
  function* delta(piece: string, vote?: SegmentVote): Generator<LanguageModelV4StreamPart> {
    if (piece === "") return;
    if (text === undefined) yield { type: "text-start", id };
    text = (text ?? "") + piece;
    yield {
      type: "text-delta",
      id,
      delta: piece,
      ...(vote && { providerMetadata: { conclave: { ...vote } } }),
    };
  }
  for await (const event of conclave.ask(messages, options)) {
    yield { type: "raw", rawValue: event };
    if (event.type === "begin") members = event.members;
    if (event.type === "thinking") {
      const { member } = event;
      if (!thinking.has(member))
        yield {
          type: "reasoning-start",
          id: thoughtId(member),
          providerMetadata: { conclave: { member } },
        };
      thinking.add(member);
      yield { type: "reasoning-delta", id: thoughtId(member), delta: event.text };
    } else if (event.type === "thought") {
      reasoning += event.tokens;
      if (thinking.delete(event.member))
        yield { type: "reasoning-end", id: thoughtId(event.member) };
    } else if (event.type === "round") {
      const vote = voteOf(event, members);
      segments.push(vote);
      yield* delta(event.text, vote);
    } else if (event.type === "end") {
      if (event.stop === "stopped") signal?.throwIfAborted();
      for (const member of thinking) yield { type: "reasoning-end", id: thoughtId(member) };
      // Text withheld because it could begin a stop text.
      yield* delta(event.text.slice(text?.length ?? 0));
      if (text !== undefined) yield { type: "text-end", id };
      const finishReason: LanguageModelV4FinishReason = {
        unified: finishOf(event.stop),
        raw: event.stop,
      };
      const conclave: JSONObject = {
        stop: event.stop,
        segments: segments.map((vote) => ({ ...vote })),
      };
      yield {
        type: "finish",
        finishReason,
        usage: usageOf(event.usage, reasoning),
        providerMetadata: { conclave },
      };
      return;
    }
  }
  throw unfinished();
}

function optionsOf(call: LanguageModelV4CallOptions): AskOptions {
  const {
    maxOutputTokens,
    stopSequences,
    temperature,
    topP,
    topK,
    seed,
    responseFormat,
    reasoning = "provider-default",
  } = call;
  const own = checkedOptions(
    "providerOptions.conclave",
    call.providerOptions?.["conclave"] ?? {},
    answerFields,
  );
  return {
    ...(maxOutputTokens !== undefined && { maxTokens: maxOutputTokens }),
    ...(stopSequences !== undefined && { stop: stopSequences }),
    ...(responseFormat?.type === "json" && {
      responseFormat: responseFormat.schema
        ? { type: "json_schema" as const, schema: responseFormat.schema }
        : { type: "json_object" as const },
    }),
    sampling: {
      ...definedFields({ temperature, topP, topK }),
      ...(seed !== undefined && { seed: seedOf(seed) }),
    },
    ...(reasoning !== "provider-default" && { thinking: reasoning === "none" ? "off" : "on" }),
    // `ask` checks the rule.
    ...(own as AskOptions),
  };
}

/** Lists the unsupported settings of a call. Headers only concern HTTP models. */
function warningsOf({
  tools,
  presencePenalty,
  frequencyPenalty,
  reasoning,
}: LanguageModelV4CallOptions): SharedV4Warning[] {
  const warnings: SharedV4Warning[] = [];
  const unsupported = (feature: string, details: string): void =>
    void warnings.push({ type: "unsupported", feature, details });
  if (tools && tools.length > 0)
    unsupported("tools", "The members call no tools: they answer in words alone.");
  if (presencePenalty) unsupported("presencePenalty", "Repetition is not penalised.");
  if (frequencyPenalty) unsupported("frequencyPenalty", "Repetition is not penalised.");
  if (reasoning !== undefined && !["provider-default", "none"].includes(reasoning)) {
    warnings.push({
      type: "compatibility",
      feature: "reasoning",
      details:
        "Members that can think aloud do so; " +
        `${JSON.stringify(reasoning)} does not say for how long.`,
    });
  }
  return warnings;
}

function messageOf({ role, content }: LanguageModelV4Message): Message {
  if (role === "tool")
    throw new BadSettings("The members call no tools, and a message is a tool's. Leave it out.");
  if (role === "system") return { role, content };
  let text = "";
  for (const part of content) {
    if (part.type === "text") text += part.text;
    // Thoughts are not part of the next question.
    else if (part.type !== "reasoning") throw notText(part.type);
  }
  return { role, content: text };
}

/**
 * Input tokens, by the member that counts the most; output tokens, each segment by its writer's
 * tokenizer.
 */
function usageOf(
  usage: EndEvent["usage"] | undefined,
  reasoning: number | undefined,
): LanguageModelV4Usage {
  const text = usage?.answerTokens;
  return {
    inputTokens: {
      total: usage?.promptTokens,
      noCache: undefined,
      cacheRead: undefined,
      cacheWrite: undefined,
    },
    outputTokens: {
      total: text === undefined ? undefined : text + (reasoning ?? 0),
      text,
      reasoning,
    },
  };
}
