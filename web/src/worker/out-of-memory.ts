/**
 * Loads that find no memory: named with the model, its need and what there is. A wasm module that
 * can't allocate traps, which says nothing by itself.
 */
import { EngineFailure, OutOfMemory, typed, type ConclaveError } from "../protocol/errors.ts";
import { pieceBytes } from "../protocol/loaded-bytes.ts";

const pageBytes = 65_536;
/** Bytes that a 32-bit module addresses. */
const addressable = 2 ** 32;

/** A module's memory, and whether a trap in it ends only the member that was being loaded. */
interface Room {
  memory: Pick<WebAssembly.Memory, "buffer" | "grow">;
  alone: boolean;
}

const gigabytes = (bytes: number): string =>
  bytes < 1e9 ? `${Math.max(1, Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`;

const advice =
  "Choose less room for a conversation, a smaller model or format, or remove another member.";

/**
 * Throws OutOfMemory if a model can't fit the module's memory, before any of it is taken. `need`:
 * bytes of its weights once loaded. Beside them a load only takes the piece being read.
 */
export function refuseTooLarge(
  name: string,
  need: number,
  memory: Pick<WebAssembly.Memory, "buffer">,
): void {
  const taken = memory.buffer.byteLength;
  if (need + pieceBytes + taken <= addressable) return;
  throw new OutOfMemory(
    `${name} needs ${gigabytes(need)} of memory, ` +
      `and a thread here has ${gigabytes(addressable)}, of which ${gigabytes(taken)} are taken. ` +
      "Take a smaller model or format, or a machine with WebGPU. The other members go on.",
  );
}

/** The error of a load, with the model, its `need` and what there is if memory ran out. */
export function loadError(
  thrown: unknown,
  name: string,
  need: number,
  { memory, alone }: Room,
): ConclaveError {
  const error = typed(thrown);
  if (error.kind === "OutOfMemory")
    return new OutOfMemory(
      `There is no memory for ${name}, which needs ${gigabytes(need)} ` +
        `and more for a conversation (${error.message.replace(/\.$/, "")}). ` +
        `${advice} What it had taken is free again, and the other members go on.`,
      { cause: thrown },
    );
  if (!isTrap(thrown)) return error;
  const taken = memory.buffer.byteLength;
  if (canGrow(memory, need))
    return new EngineFailure(
      `The engine stopped while it loaded ${name}; ` +
        `memory was left (${gigabytes(taken)} are taken). Remove ${name}, or reload the engine.`,
      { cause: thrown },
    );
  const told =
    `There is no memory for ${name}: it needs ${gigabytes(need)} and more for a conversation, ` +
    `and the browser gives no more than the ${gigabytes(taken)} that are taken. ${advice}`;
  return alone
    ? new OutOfMemory(`${told} What it had taken is free again, and the other members go on.`, {
        cause: thrown,
      })
    : new EngineFailure(`${told} The engine has to start again.`, { cause: thrown });
}

/** Bytes that a step of an answer takes at a time, at most; less than that left is none. */
const stepBytes = 16e6;

/** The error of a trap in an answer, if there was no memory for `who`. */
export function lackOfMemory(
  thrown: unknown,
  who: string,
  memory: Room["memory"],
): OutOfMemory | undefined {
  if (!isTrap(thrown) || canGrow(memory, stepBytes)) return undefined;
  return new OutOfMemory(
    `There is no memory left for ${who} to go on: the browser gives no more than the ` +
      `${gigabytes(memory.buffer.byteLength)} that are taken. ${advice}`,
    { cause: thrown },
  );
}

const isTrap = (thrown: unknown): thrown is Error =>
  thrown instanceof Error && thrown.name === "RuntimeError";

/** Whether the memory could have grown by so much; a trapped module is not used again. */
function canGrow(memory: Room["memory"], bytes: number): boolean {
  try {
    memory.grow(Math.ceil(bytes / pageBytes));
    return true;
  } catch {
    return false;
  }
}
