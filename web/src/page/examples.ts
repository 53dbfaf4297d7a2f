/**
 * Example questions, a button for each skill the bundled members learned (crates/skills). Numbers
 * and words are drawn at every press, so that no answer can have been learned by heart.
 */
import { button, el } from "./dom.ts";

/** A whole number from `low` to `high`, both included. */
const between = (low: number, high: number): number => low + Math.floor(Math.random() * (high - low + 1));
const pick = <T>(items: readonly T[]): T => items[between(0, items.length - 1)]!;

function several<T>(count: number, items: readonly T[]): T[] {
  const left = [...items];
  return Array.from({ length: count }, () => left.splice(between(0, left.length - 1), 1)[0]!);
}

const animals = ["bear", "camel", "deer", "eagle", "fox", "goose", "horse", "lion", "owl", "panda", "tiger", "wolf"];
const foods = ["apple", "bread", "cheese", "honey", "lemon", "pasta", "potato", "rice", "soup", "walnut"];
const tools = ["axe", "broom", "drill", "hammer", "ladder", "rake", "shovel", "wrench"];
const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

export const skills: { name: string; label: string; ask: () => string }[] = [
  { name: "add", label: "Add", ask: () => `What is ${between(100, 999)} + ${between(100, 999)}?` },
  { name: "subtract", label: "Subtract", ask: () => `What is ${between(500, 999)} minus ${between(100, 499)}?` },
  { name: "convert", label: "Convert units", ask: () => `How many minutes are ${between(2, 9)} hours and ${between(5, 55)} minutes?` },
  { name: "sort", label: "Sort words", ask: () => `Sort these words alphabetically: ${several(5, [...animals, ...foods]).join(", ")}.` },
  { name: "filter", label: "Filter a list", ask: () => `Which of these are animals: ${several(5, [...several(3, animals), ...several(3, tools)]).join(", ")}?` },
  { name: "count", label: "Count letters", ask: () => `How many vowels are in "${pick(animals)} ${pick(foods)}"?` },
  { name: "calendar", label: "Calendar", ask: () => `Today is ${pick(days)}. What day is it in ${between(8, 40)} days?` },
  { name: "problem", label: "Word problem", ask: () => `Anna has ${between(3, 8)} boxes with ${between(4, 12)} apples in each and ${between(2, 9)} loose apples. How many apples does Anna have?` },
  { name: "story", label: "Story", ask: () => `Tell me a short story about a ${pick(animals)}.` },
];

/** Fills `host` with one button a skill; `choose` gets the question. */
export function showExamples(host: HTMLElement, choose: (question: string) => void): void {
  host.replaceChildren(
    el("span", { class: "examples-title", id: "examples-title" }, "Try"),
    ...skills.map((skill) => button(skill.label, () => choose(skill.ask()), { class: "chip", "data-skill": skill.name })),
  );
}
