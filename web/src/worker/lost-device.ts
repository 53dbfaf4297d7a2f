/**
 * A lost device shows in many ways, as exceptions or as stale results; all are reported as
 * DeviceLost.
 */
import { DeviceLost, typed, type ConclaveError } from "../protocol/errors.ts";

/** Why an engine's device is lost, if it is. A trap leaves the engine's objects in use. */
export function lossOf(engine: { lost(): string | undefined } | undefined): string | undefined {
  try {
    return engine?.lost();
  } catch {
    return undefined;
  }
}

/** The error, typed. `reason`: why the engine's device is lost, if it is. */
export function diagnosed(thrown: unknown, reason: string | undefined): ConclaveError {
  const error = typed(thrown);
  if (reason === undefined) return error;
  const lost = new DeviceLost(
    `The graphics device was lost (${reason}). ` +
      "Reload the engine on the GPU or on the CPU; the text so far is kept.",
    {
      cause: error,
    },
  );
  if (error.partial !== undefined) lost.partial = error.partial;
  return lost;
}
