/** The members as cards: what each is, its download, its weight now, the segments it won, whether it left. */
import type { About } from "../engine.ts";
import type { ManifestEntry } from "../load.ts";
import type { MemberSource, RoundEvent } from "../messages.ts";
import { button, el, voice } from "./dom.ts";
import { bytes, parameters, percent, plural } from "./figures.ts";

export type SlotState = "waiting" | "loading" | "ready" | "failed";

/** One place in the conclave: a bundled member, or a file of the visitor's own. */
export interface Slot {
  source: MemberSource;
  entry?: ManifestEntry | undefined;
  about?: About | undefined;
  state: SlotState;
  takesPart: boolean;
  /** Place in the palette. */
  voice: number;
}

export interface PanelEvents {
  /** A file for this slot, or for a new one. */
  onFile: (file: File, slot: Slot | undefined) => void;
  onRetry: (slot: Slot) => void;
  onTakesPart: (slot: Slot) => void;
}

interface Card {
  root: HTMLElement;
  about: HTMLElement;
  description: HTMLElement;
  load: HTMLElement;
  progress: HTMLProgressElement;
  loaded: HTMLElement;
  votes: HTMLElement;
  weight: HTMLProgressElement;
  weightText: HTMLElement;
  won: HTMLElement;
  failure: HTMLElement;
  box: HTMLInputElement;
}

export class MembersPanel {
  readonly #host: HTMLElement;
  readonly #events: PanelEvents;
  readonly #cards = new Map<Slot, Card>();
  readonly #add: HTMLElement;

  constructor(host: HTMLElement, events: PanelEvents) {
    this.#host = host;
    this.#events = events;
    this.#add = el("li", { class: "add-member" }, filePicker("Add a member from a GGUF file", (file) => events.onFile(file, undefined)));
    host.append(this.#add);
  }

  /** Shows a slot, or brings its card up to date. */
  show(slot: Slot): void {
    const card = this.#cards.get(slot) ?? this.#card(slot);
    card.root.dataset["state"] = slot.state;
    const name = slot.source.name;
    card.root.querySelector(".name")?.replaceChildren(name);
    card.box.checked = slot.takesPart;
    card.box.disabled = slot.state !== "ready";
    card.box.setAttribute("aria-label", `${name} takes part`);
    card.progress.setAttribute("aria-label", `${name}: download`);
    card.weight.setAttribute("aria-label", `${name}: weight`);
    card.root.querySelector(".file input")?.setAttribute("aria-label", `Use your own GGUF here, in the place of ${name}`);
    card.about.textContent = describe(slot);
    card.description.textContent = slot.entry?.description ?? (slot.source.file ? "Your own file; it stays on this machine." : "");
    card.load.hidden = slot.state === "ready" || slot.state === "failed";
    card.votes.hidden = slot.state !== "ready" || card.won.textContent === "";
    if (slot.state !== "failed") card.failure.replaceChildren();
  }

  drop(slot: Slot): void {
    this.#cards.get(slot)?.root.remove();
    this.#cards.delete(slot);
  }

  progress(slot: Slot, loaded: number, total: number): void {
    const card = this.#cards.get(slot);
    if (!card) return;
    if (total > 0) card.progress.value = loaded / total;
    else card.progress.removeAttribute("value");
    const whole = loaded === total && total > 0;
    card.loaded.textContent = whole ? `${bytes(total)}, starting` : `${bytes(loaded)} of ${total > 0 ? bytes(total) : "?"}`;
  }

  fail(slot: Slot, message: string): void {
    slot.state = "failed";
    this.show(slot);
    const retry = slot.source.file ? [] : [button("Try again", () => this.#events.onRetry(slot))];
    this.#cards.get(slot)?.failure.replaceChildren(el("p", { role: "alert" }, message), ...retry);
  }

  /** No question has been asked: no weights, no segments. */
  rest(): void {
    for (const card of this.#cards.values()) {
      card.root.classList.remove("aside", "left");
      card.won.textContent = "";
      card.votes.hidden = true;
    }
  }

  /** A question begins: equal weights, no segments won. */
  begin(slots: Slot[]): void {
    for (const [slot, card] of this.#cards) {
      const here = slots.includes(slot);
      card.root.classList.toggle("aside", !here && slot.state === "ready");
      card.root.classList.remove("left");
      this.#weigh(card, here ? 1 / slots.length : undefined);
      card.won.textContent = here ? "no segment yet" : "";
      card.votes.hidden = !here;
    }
  }

  /** A round ended. `slots` are the members of this question, in order; `rounds` all of it so far. */
  round(slots: Slot[], rounds: RoundEvent[]): void {
    const last = rounds.at(-1);
    if (!last) return;
    slots.forEach((slot, member) => {
      const card = this.#cards.get(slot);
      if (!card) return;
      const place = last.active.indexOf(member);
      const exit = rounds.find((round) => round.exited.includes(member));
      card.root.classList.toggle("left", exit !== undefined);
      this.#weigh(card, exit || place < 0 ? undefined : last.weights[place]);
      const won = rounds.filter((round) => round.active[round.winner] === member).length;
      const share = `wrote ${won} of ${plural(rounds.length, "segment")} (${percent(won / rounds.length)})`;
      card.won.textContent = exit ? `${share}, left after round ${exit.round}` : share;
    });
  }

  #weigh(card: Card, weight: number | undefined): void {
    card.weight.value = weight ?? 0;
    card.weightText.textContent = weight === undefined ? "no vote" : weight.toFixed(3);
  }

  #card(slot: Slot): Card {
    const box = el("input", { type: "checkbox" });
    box.addEventListener("change", () => {
      slot.takesPart = box.checked;
      this.#events.onTakesPart(slot);
    });
    const card: Card = {
      root: el("li", { class: `member ${voice(slot.voice)}` }),
      about: el("p", { class: "about" }),
      description: el("p", { class: "description" }),
      load: el("div", { class: "load" }),
      progress: el("progress", { max: 1, value: 0 }),
      loaded: el("span", { class: "loaded" }, "waiting"),
      votes: el("div", { class: "votes" }),
      weight: el("progress", { role: "meter", max: 1, value: 0 }),
      weightText: el("span", { class: "figure" }),
      won: el("span", { class: "won" }),
      failure: el("div", { class: "failure" }),
      box,
    };
    card.load.append(card.progress, card.loaded);
    card.votes.append(card.weight, card.weightText, card.won);
    card.root.append(
      el(
        "div",
        { class: "member-head" },
        el("h3", {}, el("span", { class: "name" }, slot.source.name)),
        el("label", { class: "takes-part" }, box, "takes part"),
      ),
      card.about,
      card.description,
      card.load,
      card.votes,
      card.failure,
      filePicker("Use your own GGUF here", (file) => this.#events.onFile(file, slot)),
    );
    this.#cards.set(slot, card);
    this.#host.insertBefore(card.root, this.#add);
    return card;
  }
}

function describe(slot: Slot): string {
  const { about, entry, source } = slot;
  if (about) {
    return [entry?.architecture ?? about.architecture, `${parameters(about.parameters)}\u00a0parameters`, about.quantisation, bytes(about.bytes)].join(" · ");
  }
  const size = source.file?.size ?? source.bytes;
  return [entry?.architecture, entry?.tokenizer, size === undefined ? undefined : bytes(size)].filter(Boolean).join(" · ");
}

function filePicker(label: string, onFile: (file: File) => void): HTMLElement {
  const input = el("input", { type: "file", accept: ".gguf" });
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    input.value = ""; // the same file may be chosen again
    if (file) onFile(file);
  });
  return el("label", { class: "file" }, input, el("span", {}, label));
}
