/** The page's heading: the ensemble's name, what it is, example questions, and missing toys. */
import { byId } from "./dom.ts";
import { toysTitle } from "./ensembles-list.ts";
import { showExamples } from "./examples.ts";
import { sentence } from "./figures.ts";
import { whereabouts } from "./member-facts.ts";
import type { Roster } from "./roster.ts";

export class Masthead {
  readonly #onExample: (question: string) => void;
  /** Last ensemble shown: its name and its members'. */
  #shown = "";

  constructor(onExample: (question: string) => void) {
    this.#onExample = onExample;
  }

  show(roster: Roster): void {
    this.#showTitle(roster);
    this.#showMadeRoom(roster);
  }

  /** Shows why the toys are gone, and when they return. */
  #showMadeRoom({ madeRoom }: Roster): void {
    const text = madeRoom
      ? "The bundled toys have made room. They come back when the last model that you added goes."
      : "";
    const notice = byId("made-room", HTMLElement);
    if (notice.textContent !== text) notice.textContent = text;
    byId("bring-toys", HTMLElement).hidden = !madeRoom;
  }

  /** Shows the ensemble's name, who answers (or is to, while members load), and examples for them. */
  #showTitle({ title, slots, taking, loading }: Roster): void {
    const here =
      loading || taking.length === 0 ? slots.filter(({ takesPart }) => takesPart) : taking;
    const names = here.map((slot) => slot.source.name);
    const toys = here.length > 0 ? here.every(({ entry }) => entry) : title === toysTitle;
    const shown = [title, toys, ...names].join("\n");
    if (this.#shown === shown) return;
    this.#shown = shown;
    byId("ensemble", HTMLElement).textContent = title;
    byId("about-toys", HTMLElement).hidden = !toys;
    const about = byId("about-models", HTMLElement);
    about.hidden = toys || here.length === 0;
    const verb = names.length === 1 ? "answers" : "answer";
    about.textContent = `${sentence(names)} ${verb} ${whereabouts(here)}.`;
    byId("tagline", HTMLElement).textContent =
      `Several small models, one answer, ${whereabouts(here, true)}.`;
    byId("choose", HTMLElement).textContent = toys ? "Bring real models" : "Choose other models";
    showExamples(byId("examples", HTMLElement), toys ? "skills" : "general", this.#onExample);
  }
}
