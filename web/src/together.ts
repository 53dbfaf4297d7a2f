/**
 * Runs one task for every member side by side. Unlike Promise.all it lets all of them settle before
 * it throws the first failure: a member must not be called again while a call of it is under way.
 */
import { typed } from "./errors.ts";

export async function together<M extends { readonly name: string }, T>(
  members: readonly M[],
  task: (member: M, index: number) => Promise<T>,
): Promise<T[]> {
  const settled = await Promise.allSettled(members.map(async (member, index) => task(member, index)));
  return settled.map((outcome, index) => {
    if (outcome.status === "fulfilled") return outcome.value;
    const error = typed(outcome.reason);
    error.member ??= members[index]!.name;
    throw error;
  });
}
