/**
 * Validation of arguments, for all entry points of the package: wrong types and unknown names are
 * refused by name.
 */
import {
  count,
  fault,
  flag,
  list,
  misnamed,
  object,
  oneOf,
  optional,
  shape,
  text,
  whole,
  type Check,
  type Checked,
  type Fields,
} from "../protocol/check.ts";
import { BadSettings } from "../protocol/errors.ts";
import { contextTokens, core, memberSource, message, thinking } from "../protocol/messages.ts";

/** Checks a value's type. Throws `wrong`, by default Settings, with the value's name. */
export function checked<T>(
  name: string,
  value: unknown,
  check: Check<T>,
  wrong: (message: string) => Error = (message) => new BadSettings(message),
): T {
  try {
    return check(value, name);
  } catch (error) {
    throw wrong(`${(error as Error).message}.`);
  }
}

/**
 * Checks an options object and drops undefined fields. Refuses unknown names, so that a misspelt
 * option is not ignored.
 */
export function checkedOptions<F extends Fields>(
  method: string,
  options: unknown,
  fields: F,
): Checked<ReturnType<typeof shape<F>>> {
  checked(`The options of ${method}`, options, object);
  const unknown = misnamed(options as object, fields, method);
  if (unknown !== undefined) throw new BadSettings(`${unknown}.`);
  return checked(method, options, shape(fields));
}

/** Error for a question that comes too early. */
export const stillAnswering = (): BadSettings =>
  new BadSettings("A question is being answered. Wait for its end, or stop it.");

/** Error for a part of a message that is no text. */
export const notText = (type: string): BadSettings =>
  new BadSettings(
    "The members read text alone, and a message has a part of type " +
      `${JSON.stringify(type)}. Leave it out.`,
  );

/**
 * The members' seed for one of another client, which may be negative: members' seeds start at 0, so
 * that negative ones count back from 2^53.
 */
export const seedOf = (seed: number): number => (seed < 0 ? seed + 2 ** 53 : seed);

/** An object with an ensemble's methods. */
export const ensemble: Check<object> = (data, path) => {
  if (typeof (data as { ask?: unknown } | null | undefined)?.ask !== "function")
    throw fault(path, "what Conclave.load gives", data);
  return data as object;
};

export const signal: Check<AbortSignal> = (data, path) => {
  const signal = data as Partial<AbortSignal> | null | undefined;
  // Duck-typed: it may be of another window.
  if (typeof signal?.aborted !== "boolean" || typeof signal.addEventListener !== "function")
    throw fault(path, "an AbortSignal", data);
  return data as AbortSignal;
};

/** An address as text, or a URL. */
const address: Check<string | URL> = (data, path) => {
  if (typeof data !== "string" && Object.prototype.toString.call(data) !== "[object URL]")
    throw fault(path, "an address", data);
  return data as string | URL;
};

/** Any function. */
export function callback<F>(): Check<F> {
  return (data, path) => {
    if (typeof data !== "function") throw fault(path, "a function", data);
    return data as F;
  };
}

/** Whether this refers to a model, not to a list of members. */
export const namesModel = (text: string): boolean => /^hf:|\.gguf(?:[?#]|$)/i.test(text);

/** A list of members, or the address of one. */
const members: Check<string | URL | Checked<typeof memberSource>[]> = (data, path) => {
  const isObject = typeof data === "object" && data !== null && !Array.isArray(data);
  if (isObject || typeof data === "string") {
    const where = address(data, path);
    if (!namesModel(String(where))) return where;
    throw new TypeError(
      `${path} must be a list of members or the address of one; it was the name of a model. ` +
        `Give [{ name: "A name", ref: ${JSON.stringify(where)} }]`,
    );
  }
  const sources = list(memberSource)(data, path);
  // Checked before either is fetched.
  const names = sources.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined)
    throw new TypeError(`${path} has two members called ${JSON.stringify(twice)}`);
  return sources;
};

export const messages = list(message);

export const openFields = {
  backend: optional(oneOf("auto", "webgpu", "cpu")),
  hub: optional(text),
  threads: optional(whole(1, 1024)),
  core: optional(core),
  assets: optional(address),
  keepPrompts: optional(flag),
  signal: optional(signal),
};

/** Picked files: their copy is found again by their dates. */
export const pickedList = list<File>((data, path) => {
  if (!(data instanceof File)) throw fault(path, "a File", data);
  return data;
});

export const keepFields = {
  onProgress: optional(callback<(progress: never) => void>()),
  signal: optional(signal),
};

export const addFields = {
  contextTokens: optional(contextTokens),
  replace: optional(text),
  onProgress: optional(callback<(progress: never) => void>()),
  signal: optional(signal),
};

export const loadFields = {
  ...openFields,
  members: optional(members),
  contextTokens: addFields.contextTokens,
  onProgress: addFields.onProgress,
  onShare: optional(callback<(share: number) => void>()),
};

/** Options of an answer that can be set for all answers of a model. */
export const answerFields = {
  rule: optional(text),
  settings: optional(object),
  members: optional(list(text)),
  thinking: optional(thinking),
  overflow: optional(oneOf("error", "drop-oldest")),
};

export const questionFields = {
  ...answerFields,
  sampling: optional(object),
  maxTokens: optional(whole(1, 2 ** 32 - 1)),
  stop: optional(list(text)),
  /** Checked in detail by `schemaOf`. */
  responseFormat: optional(object),
};

export const askFields = {
  ...questionFields,
  signal: optional(signal),
  accepted: optional(list(shape({ text, tokens: count }))),
  drafts: optional(flag),
};

export const beginFields = {
  signal: askFields.signal,
  rule: askFields.rule,
  settings: askFields.settings,
  sampling: askFields.sampling,
  members: askFields.members,
  responseFormat: askFields.responseFormat,
};
export const measureFields = { members: askFields.members, thinking: askFields.thinking };
export const draftFields = { members: askFields.members, maxTokens: optional(whole(1, 256)) };
/** Drafts, which have more fields, are accepted as candidates. */
export const candidates = list(shape({ text, ended: flag }));
