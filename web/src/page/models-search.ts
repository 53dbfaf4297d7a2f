/** Search in the models' dialog: leaves the models and ensembles whose names have all the words. */
import { hasWords } from "../kept/records.ts";
import { searchField } from "./dialog.ts";
import { el } from "./dom.ts";
import { plural } from "./figures.ts";

/** Entries of the dialog's lists, and the names in each. */
const lists: [entry: string, names: string][] = [
  [".pick-list li", "label"],
  [".ensemble", "h4, .ensemble-members li > :first-child"],
  [".stored li", ".stored-name"],
];

export class ModelsSearch {
  readonly root: HTMLElement;
  readonly #dialog: () => HTMLElement;
  readonly #input: HTMLInputElement;
  readonly #found = el("span", { class: "hint", role: "status" });
  /** Whether a search is shown. */
  #searching = false;

  constructor(dialog: () => HTMLElement) {
    this.#dialog = dialog;
    const { line, input } = searchField("search-models", "Search models by name", () =>
      this.show(),
    );
    this.#input = input;
    line.append(this.#found);
    this.root = line;
  }

  clear(): void {
    this.#input.value = "";
    this.show();
  }

  /** Shows what is found, also after the lists were rebuilt. */
  show(): void {
    const words = this.#input.value;
    const searching = words.trim() !== "";
    if (!searching && !this.#searching) return;
    const counts = lists.map(([entry, names]) => {
      const entries = [...this.#dialog().querySelectorAll<HTMLElement>(entry)];
      const found = entries.filter((one) => {
        const parts = [...one.querySelectorAll(names)].map(({ textContent }) => textContent);
        const has = hasWords(parts.join(" "), words.trim());
        // One that is ticked is opened with those that are found.
        one.hidden = !has && one.querySelector("input:checked") === null;
        return has;
      });
      return found.length;
    });
    const more = this.#dialog().querySelector<HTMLDetailsElement>(".picker details");
    if (more && searching) more.open = true;
    this.#searching = searching;
    const [models = 0, ensembles = 0, stored = 0] = counts;
    const none = "No model here has such a name. Add it below by its address.";
    this.#found.textContent = !searching
      ? ""
      : models + ensembles + stored === 0
        ? none
        : `${plural(models, "model")}, ${plural(ensembles, "ensemble")}, ${stored} stored.`;
  }
}
