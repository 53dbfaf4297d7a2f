/** Offers the browser's own language model as a judge, if there is one. */
import { availability } from "../library/built-in.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { button, el } from "./dom.ts";

export class BuiltInOffer {
  readonly root = el("div", { class: "built-in add-form", hidden: true });
  readonly #about = el("p", { class: "hint" });
  readonly #take: HTMLButtonElement;

  constructor(onAdd: (source: MemberSource) => void) {
    // The user gesture that lets the browser download the model.
    this.#take = button("Let it judge", () => onAdd({ name: "Browser", builtIn: true }));
    this.root.append(this.#about, el("p", { class: "actions" }, this.#take));
  }

  /** Asks the browser whether it has one. */
  async refresh(): Promise<void> {
    const found = await availability().catch(() => "unavailable" as const);
    const here = found === "available";
    this.root.hidden = found === "unavailable";
    const first = here
      ? ""
      : " The browser has to download it first, once for all pages: that can be some gigabytes.";
    this.#about.textContent =
      "This browser has a language model of its own. It judges what the others draft, " +
      `and what it hears stays on this machine.${first}`;
    this.#take.textContent = here ? "Let it judge" : "Download it and let it judge";
  }
}
