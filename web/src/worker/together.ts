/**
 * Runs one task for every member side by side. Unlike Promise.all it lets all of them settle before
 * it throws the first failure: a member must not be called again while a call of it is under way.
 * And it lets the event loop take its next task: on the CPU backend everything else resolves in
 * microtasks, and a stop, which comes as a message, would wait for the end of the answer.
 */
import { typed, type ConclaveError } from "../protocol/errors.ts";

type Task<M, T> = (member: M, index: number) => Promise<T>;

export async function together<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: Task<M, T>,
): Promise<T[]> {
  const settled = await settle(members, task);
  const failed = settled.find((outcome) => "error" in outcome);
  if (failed && "error" in failed) throw failed.error;
  return settled.flatMap((outcome) => ("value" in outcome ? [outcome.value] : []));
}

/** The same, one member after the other, until one fails. */
export async function inTurn<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: Task<M, T>,
): Promise<T[]> {
  const done: T[] = [];
  for (const [index, member] of members.entries())
    done.push(...(await together([member], () => task(member, index))));
  return done;
}

/** The same for what some may fail in while it counts for the others: their failures. */
export async function failures<M extends { readonly name: string }>(
  members: readonly M[],
  task: Task<M, void>,
): Promise<ConclaveError[]> {
  return (await settle(members, task)).flatMap((outcome) =>
    "error" in outcome ? [outcome.error] : [],
  );
}

async function settle<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: Task<M, T>,
): Promise<({ value: T } | { error: ConclaveError })[]> {
  const settled = await Promise.allSettled(
    members.map(async (member, index) => task(member, index)),
  );
  await nextTask();
  return settled.map((outcome, index) => {
    if (outcome.status === "fulfilled") return { value: outcome.value };
    const error = typed(outcome.reason);
    error.member ??= members[index]!.name;
    return { error };
  });
}

/** Lets the event loop take its next task; a timer would be held back by 4 ms. */
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
