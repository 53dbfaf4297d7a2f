/** Arguments and errors of the Prompt API: checked, and translated to and from the library's. */
import {
  fault,
  flag,
  list,
  object,
  optional,
  shape,
  text,
  type Check,
  type Fields,
} from "../protocol/check.ts";
import { defaultSampling, maxTemperature } from "../protocol/generated-settings.ts";
import {
  ConclaveError,
  type ErrorKind,
  type Message,
  type ResponseFormat,
  type Sampling,
} from "./conclave.ts";
import type {
  PromptInput,
  PromptOptions,
  PromptPart,
  SamplingLimits,
  SessionNeeds,
  SessionOptions,
} from "./language-model.ts";
import { callback, checked, signal as signalCheck } from "./options.ts";

const mostTokens = 2 ** 32 - 1;
export const limits: SamplingLimits = {
  defaultTopK: mostTokens,
  maxTopK: mostTokens,
  defaultTemperature: defaultSampling.temperature,
  maxTemperature,
};

export const unsupported = (message: string): DOMException =>
  new DOMException(message, "NotSupportedError");

/** Clamps infinity to the largest number. */
const amount: Check<number> = (data, path) => {
  if (typeof data !== "number" || Number.isNaN(data)) throw fault(path, "a number", data);
  return data;
};
export const needFields = {
  expectedInputs: optional(list(object)),
  expectedOutputs: optional(list(object)),
  tools: optional(list(object)),
  temperature: optional(amount),
  topK: optional(amount),
  samplingMode: optional(text),
};
export const signalFields = { signal: optional(signalCheck) };
export const sessionFields = {
  ...needFields,
  ...signalFields,
  initialPrompts: optional(list(object)),
  monitor: optional(callback<NonNullable<SessionOptions["monitor"]>>()),
};
export const promptFields = {
  ...signalFields,
  responseConstraint: optional(object),
  omitResponseConstraintInput: optional(flag),
};

/** Error of the API for a value of a wrong type. */
const wrong = (message: string): TypeError => new TypeError(message);

/** Follows the API: unknown members are ignored, a wrong type is a TypeError, null means absent. */
export function known(method: string, options: unknown, fields: Fields): object {
  const dictionary = checked(`The options of ${method}`, options ?? {}, object, wrong);
  return checked(method, dictionary, shape(fields), wrong);
}

/** Response format for the constraint. Throws for an unsupported one. */
export function formatOf({ responseConstraint, omitResponseConstraintInput }: PromptOptions): {
  responseFormat?: ResponseFormat;
} {
  if (responseConstraint instanceof RegExp)
    throw unsupported(
      "An ensemble can't honour a responseConstraint that is a RegExp. Give a JSON schema.",
    );
  if (responseConstraint !== undefined)
    return { responseFormat: { type: "json_schema", schema: responseConstraint } };
  if (omitResponseConstraintInput)
    throw new TypeError("omitResponseConstraintInput goes with responseConstraint. Leave it out.");
  return {};
}

/** Throws for unsupported needs of a session. */
export function refuseNeeds(needs: SessionNeeds): void {
  const {
    expectedInputs = [],
    expectedOutputs = [],
    tools = [],
    samplingMode = "balanced",
  } = needs;
  const other = [...expectedInputs, ...expectedOutputs].find(({ type }) => type !== "text");
  if (other)
    throw unsupported(
      `The members read and write text alone, and ${JSON.stringify(other.type)} is expected. ` +
        "Leave it out.",
    );
  if (tools.length > 0) throw unsupported("The members call no tools. Leave them out.");
  if (samplingMode !== "balanced")
    throw unsupported(
      `An ensemble can't honour samplingMode: ${JSON.stringify(samplingMode)}. Give a temperature.`,
    );
}

export function samplingOf({
  temperature,
  topK,
  samplingMode,
}: SessionNeeds): Pick<Sampling, "temperature" | "topK"> {
  if (samplingMode !== undefined && (temperature ?? topK) !== undefined)
    throw new TypeError("samplingMode goes with neither temperature nor topK. Leave it out.");
  if (temperature !== undefined && !(temperature >= 0))
    throw new RangeError(`The temperature is ${temperature}, and is at least 0.`);
  if (topK !== undefined && !(topK >= 1))
    throw new RangeError(`topK is ${topK}, and is at least 1.`);
  return {
    temperature: Math.min(temperature ?? limits.defaultTemperature, limits.maxTemperature),
    // 0 makes the engine draw from all tokens.
    topK: topK === undefined || topK >= limits.maxTopK ? 0 : Math.floor(topK),
  };
}

/**
 * Reads a question. `appended`: it follows other messages, so that a system message is too late.
 */
export function messagesOf(input: PromptInput, appended: boolean): Message[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const entries = checked("The prompt", input, list(object), wrong);
  if (entries.length === 0) return [{ role: "user", content: "" }];
  return input.map(({ role, content, prefix }, index) => {
    if (!["system", "user", "assistant"].includes(role))
      throw new TypeError(
        `There is no role ${JSON.stringify(role)}. Take system, user or assistant.`,
      );
    if (role === "system" && (appended || index > 0))
      throw new TypeError(
        "The system's message comes first of all. Begin the conversation with it.",
      );
    if (prefix && (role !== "assistant" || index < input.length - 1))
      throw new DOMException(
        "A prefix is the last message, and the assistant's. Leave it out.",
        "SyntaxError",
      );
    if (prefix)
      throw unsupported("The members draft an answer from its first word. Leave prefix out.");
    if (typeof content === "string") return { role, content };
    const parts = checked(
      `The content of message ${index + 1}`,
      content,
      list(object),
      wrong,
    ) as PromptPart[];
    const texts = parts.map(({ type, value }) => {
      if (type !== "text")
        throw unsupported(
          `The members read text alone, and a message has ${JSON.stringify(type)}. Leave it out.`,
        );
      if (typeof value !== "string") throw new TypeError("The value of a text is a string.");
      return value;
    });
    return { role, content: texts.join("") };
  });
}

/** Merges consecutive messages of one role: many chat templates require alternating roles. */
export function joined(messages: readonly Message[]): Message[] {
  const turns: Message[] = [];
  for (const { role, content } of messages) {
    const last = turns.at(-1);
    if (last?.role === role)
      turns[turns.length - 1] = { role, content: `${last.content}\n\n${content}` };
    else turns.push({ role, content });
  }
  return turns;
}

/** The API's name for each kind of error; OperationError for the rest. */
const names: Partial<Record<ErrorKind, string>> = {
  NoGpu: "NotSupportedError",
  NoPlan: "NotSupportedError",
  ModelFile: "NotSupportedError",
  Template: "NotSupportedError",
  Settings: "NotSupportedError",
  Reference: "NotSupportedError",
  Download: "NetworkError",
  ContextFull: "QuotaExceededError",
};

/** The API's form of a library error; other errors are returned as they are. */
export function exceptionOf(error: unknown): unknown {
  if (!(error instanceof ConclaveError)) return error;
  const name = names[error.kind] ?? "OperationError";
  // A class of its own in newer browsers, which callers may test for.
  const { QuotaExceededError } = globalThis as {
    QuotaExceededError?: new (message: string) => DOMException;
  };
  const exception =
    name === "QuotaExceededError" && QuotaExceededError
      ? new QuotaExceededError(error.message)
      : new DOMException(error.message, name);
  return Object.assign(exception, { cause: error });
}
