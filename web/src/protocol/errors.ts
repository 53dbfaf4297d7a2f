/**
 * Typed errors. Every failure a caller can meet is one of these kinds; its message says what to do
 * next, and `partial` holds the text of the answer accepted before.
 */

/** The kinds of errors. */
export const errorKinds = [
  "NoGpu",
  "DeviceLost",
  "ModelFile",
  "NoPlan",
  "OutOfMemory",
  "ContextFull",
  "Template",
  "Engine",
  "Settings",
  "Download",
  "Storage",
  "Reference",
  "Remote",
] as const;

/** One of {@link errorKinds}. */
export type ErrorKind = (typeof errorKinds)[number];

/** An error as it crosses the worker boundary. */
export interface ErrorRecord {
  kind: ErrorKind;
  message: string;
  partial?: string;
  member?: string;
}

/**
 * Base class of all errors of this library: test `kind`, or use `instanceof` with a class below.
 */
export class ConclaveError extends Error {
  readonly kind: ErrorKind;
  /** Accepted text of the answer under way, byte for byte; undefined outside an answer. */
  partial?: string;
  /** Name of the member concerned, if any. */
  member?: string;

  constructor(kind: ErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
    this.name = kind;
  }
}

function kindOf<K extends ErrorKind>(kind: K) {
  return class extends ConclaveError {
    constructor(message: string, options?: ErrorOptions) {
      super(kind, message, options);
    }
  };
}

/** There is no usable WebGPU here, or its kernels compute wrongly: use the CPU backend. */
export class NoGpu extends kindOf("NoGpu") {}
/** The GPU device was lost: open a new engine. */
export class DeviceLost extends kindOf("DeviceLost") {}
/** The file is not GGUF, is truncated, or holds a model that the engine does not support. */
export class ModelFile extends kindOf("ModelFile") {}
/** The fused core does not support this model: use the open core. */
export class NoPlan extends kindOf("NoPlan") {}
/** The members do not fit into memory. */
export class OutOfMemory extends kindOf("OutOfMemory") {}
/** The conversation is longer than a member's context. */
export class ContextFull extends kindOf("ContextFull") {}
/** The member's chat template can't render the conversation. */
export class Template extends kindOf("Template") {}
/** The engine failed in any other way; it must be opened again. */
export class EngineFailure extends kindOf("Engine") {}
/** A setting is outside its range. */
export class BadSettings extends kindOf("Settings") {}
/** A file could not be fetched, or arrived damaged. Valid parts are kept for the next try. */
export class Download extends kindOf("Download") {}
/** There is no room or no storage for a model: delete stored models, or use a smaller one. */
export class StorageFailure extends kindOf("Storage") {}
/** A model's reference is invalid. */
export class BadReference extends kindOf("Reference") {}
/**
 * A remote member's server, or the browser's own language model, refuses, fails, or is repeatedly
 * late.
 */
export class RemoteFailure extends kindOf("Remote") {}

const classes: Record<ErrorKind, new (message: string, options?: ErrorOptions) => ConclaveError> = {
  NoGpu,
  DeviceLost,
  ModelFile,
  NoPlan,
  OutOfMemory,
  ContextFull,
  Template,
  Engine: EngineFailure,
  Settings: BadSettings,
  Download,
  Storage: StorageFailure,
  Reference: BadReference,
  Remote: RemoteFailure,
};

/** Whether the engine is unusable after this error and must be opened again. */
export function isFatal(error: ConclaveError): boolean {
  return (
    error.kind === "NoGpu" ||
    error.kind === "DeviceLost" ||
    error.kind === "Engine" ||
    error.kind === "OutOfMemory"
  );
}

/**
 * Turns any thrown value into a typed error. The engine's own errors carry their kind as `name`; a
 * wasm trap is a RuntimeError, failed memory growth a RangeError.
 */
export function typed(thrown: unknown): ConclaveError {
  if (thrown instanceof ConclaveError) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const known = errorKinds.find((kind) => kind === error.name);
  if (known) return new classes[known](error.message, { cause: thrown });
  if (error instanceof RangeError && /memory|allocation|array buffer/i.test(error.message)) {
    return new OutOfMemory(
      `${error.message}. Close other tabs, or load fewer or smaller members.`,
      { cause: thrown },
    );
  }
  const why = error.message || error.name;
  const fault =
    error instanceof WebAssembly.RuntimeError
      ? `The engine stopped by a fault of its own (${why})`
      : why;
  return new EngineFailure(`${fault}. Reload the engine to go on; the text so far is kept.`, {
    cause: thrown,
  });
}

/** Whether this is the error of an aborted AbortSignal. */
export function isAbort(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === "AbortError";
}

/** The error as plain data, for postMessage. */
export function toRecord(error: ConclaveError): ErrorRecord {
  return {
    kind: error.kind,
    message: error.message,
    ...(error.partial === undefined ? {} : { partial: error.partial }),
    ...(error.member === undefined ? {} : { member: error.member }),
  };
}

/** The inverse of {@link toRecord}. */
export function fromRecord(record: ErrorRecord): ConclaveError {
  const error = new classes[record.kind](record.message);
  if (record.partial !== undefined) error.partial = record.partial;
  if (record.member !== undefined) error.member = record.member;
  return error;
}
