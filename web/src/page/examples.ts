/**
 * Example questions: for the toys one button for each trained skill (crates/eval/src/skills), with
 * numbers and words drawn at every press, so that no answer can be memorised; for real models,
 * general knowledge and writing.
 */
import { button, el } from "./dom.ts";

/** An integer from `low` to `high`, inclusive. */
const between = (low: number, high: number): number =>
  low + Math.floor(Math.random() * (high - low + 1));
const pick = <T>(items: readonly T[]): T => items[between(0, items.length - 1)]!;

function several<T>(count: number, items: readonly T[]): T[] {
  const left = [...items];
  return Array.from({ length: count }, () => left.splice(between(0, left.length - 1), 1)[0]!);
}

const animals = [
  "bear",
  "camel",
  "deer",
  "eagle",
  "fox",
  "goose",
  "horse",
  "lion",
  "owl",
  "panda",
  "tiger",
  "wolf",
];
const foods = [
  "apple",
  "bread",
  "cheese",
  "honey",
  "lemon",
  "pasta",
  "potato",
  "rice",
  "soup",
  "walnut",
];
const tools = ["axe", "broom", "drill", "hammer", "ladder", "rake", "shovel", "wrench"];
const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

export const skills: { name: string; label: string; ask: () => string }[] = [
  { name: "add", label: "Add", ask: () => `What is ${between(100, 999)} + ${between(100, 999)}?` },
  {
    name: "subtract",
    label: "Subtract",
    ask: () => `What is ${between(500, 999)} minus ${between(100, 499)}?`,
  },
  {
    name: "convert",
    label: "Convert units",
    ask: () => `How many minutes are ${between(2, 9)} hours and ${between(5, 55)} minutes?`,
  },
  {
    name: "sort",
    label: "Sort words",
    ask: () => `Sort these words alphabetically: ${several(5, [...animals, ...foods]).join(", ")}.`,
  },
  {
    name: "filter",
    label: "Filter a list",
    ask: () => {
      const words = several(5, [...several(3, animals), ...several(3, tools)]);
      return `Which of these are animals: ${words.join(", ")}?`;
    },
  },
  {
    name: "count",
    label: "Count letters",
    ask: () => `How many vowels are in "${pick(animals)} ${pick(foods)}"?`,
  },
  {
    name: "calendar",
    label: "Calendar",
    ask: () => `Today is ${pick(days)}. What day is it in ${between(8, 40)} days?`,
  },
  {
    name: "problem",
    label: "Word problem",
    ask: () =>
      `Anna has ${between(3, 8)} boxes with ${between(4, 12)} apples in each and ` +
      `${between(2, 9)} loose apples. How many apples does Anna have?`,
  },
  { name: "story", label: "Story", ask: () => `Tell me a short story about a ${pick(animals)}.` },
];

const general: typeof skills = [
  {
    name: "explain",
    label: "Explain",
    ask: () => {
      const what = pick([
        "why the sky is blue",
        "how a refrigerator cools",
        "what inflation is",
        "why leaves turn red",
      ]);
      return `Explain in three sentences ${what}.`;
    },
  },
  {
    name: "plan",
    label: "Plan",
    ask: () => {
      const city = pick(["Lisbon", "Kyoto", "Edinburgh", "Vienna"]);
      const taste = pick(["gardens", "books", "good food", "old buildings"]);
      return `Plan a day in ${city} for someone who likes ${taste}.`;
    },
  },
  {
    name: "write",
    label: "Write",
    ask: () => {
      const subject = pick(["rain", "an old bicycle", "the first train home", "salt"]);
      return `Write a four-line poem about ${subject}.`;
    },
  },
  {
    name: "translate",
    label: "Translate",
    ask: () => {
      const language = pick(["French", "German", "Spanish", "Italian"]);
      return `Translate into ${language}: "Where can I leave my luggage until this evening?"`;
    },
  },
  {
    name: "reason",
    label: "Reason",
    ask: () =>
      `A train leaves at ${between(6, 11)}:40 and takes ${between(2, 5)} hours and ` +
      `${between(25, 55)} minutes. When does it arrive?`,
  },
  {
    name: "code",
    label: "Code",
    ask: () => "Write a Python function that tells whether a word reads the same backwards.",
  },
];

/** Fills `host` with a button for each example; `choose` is called with the question. */
export function showExamples(
  host: HTMLElement,
  kind: "skills" | "general",
  choose: (question: string) => void,
): void {
  host.replaceChildren(
    el("span", { class: "examples-title", id: "examples-title" }, "Try"),
    ...(kind === "skills" ? skills : general).map((skill) =>
      button(skill.label, () => choose(skill.ask()), { class: "chip", "data-skill": skill.name }),
    ),
  );
}
