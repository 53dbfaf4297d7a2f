/** Weights before the first round: one bar of parts in the members' colours, with their names. */
import { el, voice } from "./dom.ts";
import { percent } from "./figures.ts";

/** `weights` sum to 1; `voices` are the members' palette indices. */
export function trustRow(names: string[], voices: number[], weights: number[]): HTMLElement {
  const style = (member: number): string => voice(voices[member] ?? member);
  const part = (member: number): HTMLElement => {
    const drawn = el("span", { class: style(member) });
    drawn.style.width = `${(weights[member] ?? 0) * 100}%`;
    return drawn;
  };
  const label = (name: string, member: number): HTMLElement =>
    el(
      "li",
      { class: style(member) },
      el("span", { class: "name" }, name),
      ` ${percent(weights[member] ?? 0)}`,
    );
  return el(
    "div",
    { class: "trust" },
    el(
      "div",
      { class: "trust-bar", "aria-hidden": "true" },
      ...names.map((_, member) => part(member)),
    ),
    el("ul", { "aria-label": "Part of the vote at the start" }, ...names.map(label)),
    el(
      "p",
      { class: "hint" },
      "Each member's part of the vote at the start, " +
        "by its model's size and whether it was taught to converse.",
    ),
  );
}
