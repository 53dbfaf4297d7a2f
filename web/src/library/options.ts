/**
 * What callers hand over, checked before it is used: what is of a wrong type, or of a name that
 * means nothing, is refused by that name. The one place for all entries of the package.
 */
import {
  fault,
  flag,
  list,
  misnamed,
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

/** How a fault is told: a value of a wrong type, and a name that is not known. */
export interface Refusals {
  wrong: (message: string) => Error;
  unknown: (message: string) => Error;
}

const settings: Refusals = {
  wrong: (message) => new BadSettings(message),
  unknown: (message) => new BadSettings(message),
};

/** A value of this type, or what refuses it by its name: Settings if left out. */
export function checked<T>(
  name: string,
  value: unknown,
  check: Check<T>,
  { wrong }: Pick<Refusals, "wrong"> = settings,
): T {
  try {
    return check(value, name);
  } catch (error) {
    throw wrong(`${(error as Error).message}.`);
  }
}

/**
 * Options of something, those alone that are given. A name that is none of these fields' is
 * refused: a misspelt option would be as if it were left out.
 */
export function checkedOptions<F extends Fields>(
  of: string,
  options: unknown,
  fields: F,
  refusals: Refusals = settings,
): Checked<ReturnType<typeof shape<F>>> {
  checked(`The options of ${of}`, options, object, refusals);
  const unknown = misnamed(options as object, fields, of);
  if (unknown !== undefined) throw refusals.unknown(`${unknown}.`);
  return checked(of, options, shape(fields), refusals);
}

/** An object of whatever fields; who uses it knows them. */
export const object: Check<object> = (data, path) => {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw fault(path, "an object", data);
  return data;
};

/** Members that answer, by what they do. */
export const ensemble: Check<object> = (data, path) => {
  if (typeof (data as { ask?: unknown } | null | undefined)?.ask !== "function")
    throw fault(path, "what Conclave.load gives", data);
  return data as object;
};

export const signal: Check<AbortSignal> = (data, path) => {
  const given = data as Partial<AbortSignal> | null | undefined;
  // By what it does: it may be of another window.
  if (typeof given?.aborted !== "boolean" || typeof given.addEventListener !== "function")
    throw fault(path, "an AbortSignal", data);
  return data as AbortSignal;
};

/** An address as text, or a URL. */
export const address: Check<string | URL> = (data, path) => {
  if (typeof data !== "string" && Object.prototype.toString.call(data) !== "[object URL]")
    throw fault(path, "an address", data);
  return data as string | URL;
};

/** A function of whatever kind. */
export function callback<F>(): Check<F> {
  return (data, path) => {
    if (typeof data !== "function") throw fault(path, "a function", data);
    return data as F;
  };
}

/** A list of them, or the address of one. */
const members: Check<string | URL | Checked<typeof memberSource>[]> = (data, path) => {
  if (typeof data === "object" && !Array.isArray(data) && data !== null) return address(data, path);
  if (typeof data === "string") return data;
  const sources = list(memberSource)(data, path);
  // Before either is fetched.
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

/** What of an answer's options goes for all answers of a model. */
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
  /** `schemaOf` looks into it. */
  responseFormat: optional(object),
};

export const askFields = { ...questionFields, signal: optional(signal) };

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
/** Drafts have more fields, and are candidates as they are. */
export const candidates = list(shape({ text, ended: flag }));
