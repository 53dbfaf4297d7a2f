/**
 * The writers of an answer, and the members whose vote alone decided rounds against all others. The
 * tool has the same text (crates/tool/src/credits.rs); tests/credits/lines.json tests both.
 */
import type { RoundEvent } from "../protocol/messages.ts";
import { nameTag } from "./dom.ts";
import { plural, written } from "./figures.ts";

/** Used fields of a round. */
export type Credited = Pick<RoundEvent, "active" | "drafters" | "writers" | "turnedBy">;

/** Whether this member's vote alone turned the round. */
export const isTurnedBy = (
  { active, turnedBy }: Pick<RoundEvent, "active" | "turnedBy">,
  member: number,
): boolean => turnedBy.some((place) => active[place] === member);

/**
 * The line below an answer of these members, shorter for a single one; `voices` are their palette
 * indices.
 */
export function creditLine(
  names: string[],
  voices: number[],
  rounds: Credited[],
): (Node | string)[] {
  if (rounds.length === 0) return [];
  const tag = (member: number): HTMLElement => nameTag(names, voices, member);
  const all = [...names.keys()];
  const counts = all.map((member) => written(rounds, member).segments);
  if (names.length === 1) return ["Written by ", tag(0), ` in ${plural(counts[0]!, "segment")}.`];
  const some = all.filter((member) => counts[member]! > 0).sort((a, b) => counts[b]! - counts[a]!);
  const none = all.filter((member) => counts[member] === 0);
  const line: (Node | string)[] = ["Written by "];
  some.forEach((member, place) =>
    line.push(
      place === 0 ? "" : ", ",
      tag(member),
      place === 0
        ? ` ${counts[member]} of ${plural(rounds.length, "segment")}`
        : ` ${counts[member]}`,
    ),
  );
  for (const member of none) line.push(", ", tag(member), " none");
  const alike = rounds.filter(({ writers }) => writers.length > 1).length;
  line.push(alike > 0 ? `; ${alike} in the same words.` : ".");
  const turned = all
    .map((member) => ({
      member,
      count: rounds.filter((round) => isTurnedBy(round, member)).length,
    }))
    .filter(({ count }) => count > 0);
  turned.sort((a, b) => b.count - a.count);
  turned.forEach(({ member, count }, place) => {
    if (place === 0)
      line.push(
        " ",
        tag(member),
        `'s vote decided ${plural(count, "round")} against all the others`,
      );
    else line.push(", ", tag(member), `'s ${count}`);
  });
  if (turned.length > 0) line.push(".");
  return line;
}
