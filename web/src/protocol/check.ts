/**
 * Checks data from outside (worker messages, the members' manifest) against a shape and derives its
 * static type from it, so that type and check can't drift apart.
 */

import { isShared } from "./shared-memory.ts";

/** Returns unknown data typed, or throws a TypeError that names the path of the fault. */
export type Check<T> = (data: unknown, path: string) => T;
export type Checked<C> = C extends Check<infer T> ? T : never;

/** Error thrown by a check. */
export function fault(path: string, expected: string, data: unknown): TypeError {
  return new TypeError(`${path} must be ${expected}; it was ${found(data)}`);
}

/** Short description of the data. */
function found(data: unknown): string {
  if (data === undefined) return "missing";
  if (typeof data === "string")
    return JSON.stringify(data.length > 60 ? `${data.slice(0, 60)}…` : data);
  if (Array.isArray(data)) return "a list";
  if (data === null || typeof data === "number" || typeof data === "boolean") return String(data);
  return typeof data === "object" ? "an object" : `a ${typeof data}`;
}

export const text: Check<string> = (data, path) => {
  if (typeof data !== "string") throw fault(path, "a string", data);
  return data;
};

export const flag: Check<boolean> = (data, path) => {
  if (typeof data !== "boolean") throw fault(path, "true or false", data);
  return data;
};

/** A finite number: a NaN among the scores must not pass for a vote. */
export const number: Check<number> = (data, path) => {
  if (typeof data !== "number" || !Number.isFinite(data))
    throw fault(path, "a finite number", data);
  return data;
};

/** A number from `low` to `high`. */
export function within(low: number, high: number): Check<number> {
  return (data, path) => {
    if (typeof data === "number" && data >= low && data <= high) return data;
    throw fault(path, `a number from ${low} to ${high}`, data);
  };
}

/** An integer from `low` to `high`. */
export function whole(low: number, high: number): Check<number> {
  return (data, path) => {
    if (typeof data === "number" && Number.isInteger(data) && data >= low && data <= high)
      return data;
    throw fault(path, `a whole number from ${low} to ${high}`, data);
  };
}

/** A number that the engine reads as a whole one. */
export const count = whole(0, 2 ** 32 - 1);

export const blob: Check<Blob> = (data, path) => {
  // By tag, since it may be of another window.
  const tag = Object.prototype.toString.call(data);
  if (tag !== "[object Blob]" && tag !== "[object File]") throw fault(path, "a file", data);
  return data as Blob;
};

export const bytes: Check<Uint8Array> = (data, path) => {
  if (!(data instanceof Uint8Array)) throw fault(path, "bytes", data);
  return data;
};

export const messagePort: Check<MessagePort> = (data, path) => {
  if (!(data instanceof MessagePort)) throw fault(path, "a port", data);
  return data;
};

export const fileHandle: Check<FileSystemFileHandle> = (data, path) => {
  if (!(data instanceof FileSystemFileHandle)) throw fault(path, "a file's handle", data);
  return data;
};

export const compiledModule: Check<WebAssembly.Module> = (data, path) => {
  if (!(data instanceof WebAssembly.Module)) throw fault(path, "a compiled module", data);
  return data;
};

/** Memory that several workers share. */
export const sharedMemory: Check<WebAssembly.Memory> = (data, path) => {
  if (!(data instanceof WebAssembly.Memory && isShared(data)))
    throw fault(path, "shared memory", data);
  return data;
};

/** One number that several workers share. */
export const sharedNumber: Check<Int32Array<SharedArrayBuffer>> = (data, path) => {
  if (!(data instanceof Int32Array && isShared(data) && data.length === 1))
    throw fault(path, "a shared number", data);
  return data as Int32Array<SharedArrayBuffer>;
};

export function oneOf<const T extends readonly string[]>(...values: T): Check<T[number]> {
  return (data, path) => {
    const value = values.find((candidate) => candidate === data);
    if (value === undefined)
      throw fault(path, values.map((v) => JSON.stringify(v)).join(" or "), data);
    return value;
  };
}

export function list<T>(item: Check<T>): Check<T[]> {
  return (data, path) => {
    if (!Array.isArray(data)) throw fault(path, "a list", data);
    return data.map((entry: unknown, index) => item(entry, `${path}[${index}]`));
  };
}

/** Any object; its fields are checked by its user. */
export const object: Check<object> = (data, path) => {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    throw fault(path, "an object", data);
  return data;
};

export function nullable<T>(check: Check<T>): Check<T | null> {
  return (data, path) => (data === null ? null : check(data, path));
}

/** An optional member of {@link shape}. */
export interface Optional<T> {
  optional: Check<T>;
}

export function optional<T>(check: Check<T>): Optional<T> {
  return { optional: check };
}

export type Fields = Record<string, Check<unknown> | Optional<unknown>>;
type RequiredKeys<F> = { [K in keyof F]: F[K] extends Check<unknown> ? K : never }[keyof F];
type OptionalKeys<F> = Exclude<keyof F, RequiredKeys<F>>;
/** By `keyof Pick`, so that the comments of the fields go with them. */
type Shaped<F> = { [K in keyof Pick<F, RequiredKeys<F>>]: Checked<F[K]> } & {
  [K in keyof Pick<F, OptionalKeys<F>>]?: F[K] extends Optional<infer T> ? T : never;
};
/**
 * Flattens an intersection, so that editors and the documentation show the plain object.
 *
 * @inline
 */
type Plain<T> = { [K in keyof T]: T[K] };

/** An object with any field names and values of one type. */
export function record<T>(item: Check<T>): Check<Record<string, T>> {
  return (data, path) =>
    Object.fromEntries(
      Object.entries(object(data, path)).map(([key, value]) => [
        key,
        item(value, `${path}.${key}`),
      ]),
    );
}

/** An object of these fields; others are dropped. */
export function shape<F extends Fields>(fields: F): Check<Plain<Shaped<F>>> {
  return (data, path) => {
    const source = object(data, path) as Record<string, unknown>;
    const result: Record<string, unknown> = {};
    for (const [key, field] of Object.entries(fields)) {
      const at = `${path}.${key}`;
      if (typeof field === "function") result[key] = field(source[key], at);
      else if (source[key] !== undefined) result[key] = field.optional(source[key], at);
    }
    return result as Plain<Shaped<F>>;
  };
}

/** An object of these fields and no others, so that a misspelt one is not ignored. */
export function exact<F extends Fields>(fields: F): Check<Plain<Shaped<F>>> {
  const check = shape(fields);
  return (data, path) => {
    const unknown =
      typeof data === "object" && data !== null ? misnamed(data, fields, path) : undefined;
    if (unknown !== undefined) throw new TypeError(unknown);
    return check(data, path);
  };
}

/** Message about an unknown field, if there is one. */
export function misnamed(data: object, fields: Fields, path: string): string | undefined {
  const unknown = Object.keys(data).find((name) => !Object.hasOwn(fields, name));
  return unknown === undefined
    ? undefined
    : `${path} knows no ${JSON.stringify(unknown)}. It knows ${Object.keys(fields).join(", ")}`;
}

/** One of several shapes, distinguished by the field `type`. */
export function variant<S extends Record<string, Check<object>>>(
  shapes: S,
): Check<{ [K in keyof S & string]: { type: K } & Checked<S[K]> }[keyof S & string]> {
  return (data, path) => {
    const type =
      typeof data === "object" && data !== null && "type" in data ? data.type : undefined;
    const check =
      typeof type === "string" && Object.hasOwn(shapes, type) ? shapes[type] : undefined;
    if (!check) throw fault(`${path}.type`, Object.keys(shapes).join(" or "), type);
    return { ...check(data, path), type } as {
      [K in keyof S & string]: { type: K } & Checked<S[K]>;
    }[keyof S & string];
  };
}
