/**
 * Runs one task per member in parallel. Unlike Promise.all it lets all of them settle before it
 * throws the first failure: a member must not be called during another call. And it yields to the
 * event loop: on the CPU backend everything else resolves in microtasks, and a stop, which comes as
 * a message, would wait for the end of the answer.
 */
import type { Failure } from "../protocol/engine.ts";
import { typed, type ConclaveError } from "../protocol/errors.ts";

/** A member, by index, that failed. */
export interface Failed {
  index: number;
  error: ConclaveError;
}

/** Results of the members that made a move, and failures of the others. */
interface Outcome<T> {
  results: T[];
  failed: Failed[];
}

export async function together<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: (member: M, index: number) => Promise<T>,
): Promise<T[]> {
  const { results, failed } = await settled(members, [...members.keys()], task);
  if (failed[0]) throw failed[0].error;
  return results;
}

/**
 * Runs the task for the members of these indices; a failure does not affect the others. A trap is
 * thrown: it leaves the module that the members of this thread share in an unknown state.
 */
export async function settled<M extends { readonly name: string }, T>(
  members: readonly M[],
  indices: readonly number[],
  task: (member: M, index: number) => Promise<T>,
): Promise<Outcome<T>> {
  const outcomes = await Promise.allSettled(
    indices.map(async (index) => task(members[index]!, index)),
  );
  await nextTask();
  const outcome: Outcome<T> = { results: [], failed: [] };
  for (const [at, index] of indices.entries()) {
    const one = outcomes[at]!;
    if (one.status === "fulfilled") {
      outcome.results.push(one.value);
      continue;
    }
    const error = typed(one.reason);
    error.member ??= members[index]!.name;
    if (one.reason instanceof WebAssembly.RuntimeError) throw error;
    outcome.failed.push({ index, error });
  }
  return outcome;
}

/** Runs the task for these members one after the other, until one fails. */
export async function inTurn<M extends { readonly name: string }, T>(
  members: readonly M[],
  indices: readonly number[],
  task: (member: M, index: number) => Promise<T>,
): Promise<Outcome<T>> {
  const all: Outcome<T> = { results: [], failed: [] };
  for (const index of indices) {
    const { results, failed } = await settled(members, [index], task);
    all.results.push(...results);
    all.failed.push(...failed);
    if (failed.length > 0) break;
  }
  return all;
}

/** A failed member as an event of the rounds. */
export function failureOf(member: number, { kind }: ConclaveError): Failure {
  const ofDevice = kind === "Engine" || kind === "OutOfMemory";
  return { member, kind: kind === "ContextFull" ? "contextFull" : ofDevice ? "device" : "other" };
}

/** Yields to the event loop; a timer would be delayed by 4 ms. */
export function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
