/**
 * Runs one task for every member side by side. Unlike Promise.all it lets all of them settle before
 * it throws the first failure: a member must not be called again while a call of it is under way.
 * And it lets the event loop turn once: on the CPU backend everything else resolves in microtasks,
 * and a stop, which comes as a message, would wait for the end of the answer.
 */
import { typed } from "./errors.ts";

export async function together<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: (member: M, index: number) => Promise<T>,
): Promise<T[]> {
  const settled = await Promise.allSettled(members.map(async (member, index) => task(member, index)));
  await turn();
  return settled.map((outcome, index) => {
    if (outcome.status === "fulfilled") return outcome.value;
    const error = typed(outcome.reason);
    error.member ??= members[index]!.name;
    throw error;
  });
}

/** One turn of the event loop; a timer would be held back by 4 ms. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
