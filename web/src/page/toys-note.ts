/** A note with the bundled toys' answers to what they have never learnt. */
import { button, el } from "./dom.ts";
import { toysTitle } from "./ensembles-list.ts";
import { isToySkill } from "./toy-skills.ts";

/** The note, if the ensemble of this `title` is the toys; `onModels` opens the choice of models. */
export function toysNote(
  title: string,
  question: string,
  onModels: () => void,
): HTMLElement | undefined {
  if (title !== toysTitle || isToySkill(question)) return undefined;
  return el(
    "p",
    { class: "note" },
    "The bundled toys know only their exercises, and this question is none of them: the answer is a demonstration of the voting. ",
    button("Bring real models", onModels, { class: "quiet" }),
  );
}
