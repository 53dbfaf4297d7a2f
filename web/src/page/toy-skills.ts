/** Questions that the bundled toys were trained for, and a note on all others. */
import toys from "../../members/members.json" with { type: "json" };
import { button, el } from "./dom.ts";

/**
 * Patterns of questions that belong to the exercises of the bundled toys (crates/eval/src/skills).
 */
const skills = [
  /\d.*(?:[-+−]|plus|minus|add|subtract|sum|differ|less|more|and|times)/i,
  /\bhow many\b/i,
  /\bsort\b|alphabetical|order\b/i,
  /\bwhich of (?:these|the following)\b/i,
  /\b(?:what|which) (?:day|month)\b|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b/i,
  /\bstory\b/i,
  /\b(?:letters?|vowels?)\b/i,
  /\d\s*(?:years?|months?|weeks?|days?|hours?|minutes?|seconds?)\b/i,
  /\d\s*(?:(?:kilo|centi)?met(?:er|re)s?|(?:kilo)?grams?|foot|feet|inch(?:es)?)\b/i,
];

export const isToySkill = (question: string): boolean =>
  skills.some((skill) => skill.test(question));

const names = new Set(toys.map(({ name }) => name));

/** Whether a bundled toy is among members of these names. */
export const hasToys = (members: readonly string[]): boolean =>
  members.some((name) => names.has(name));

/** Note that the toys can only answer their exercises, for any other question. */
export function toysNote(
  { question, members }: { question: string; members: readonly string[] },
  onModels: () => void,
): HTMLElement | undefined {
  if (!hasToys(members) || isToySkill(question)) return undefined;
  return el(
    "p",
    { class: "note" },
    "The bundled toys know only their exercises, and this question is none of them: " +
      "the answer is a demonstration of the voting. ",
    button("Bring real models", onModels, { class: "quiet" }),
  );
}
