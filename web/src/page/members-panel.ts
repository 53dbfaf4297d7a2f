/** The members as cards: description, download, current weight, segments won, whether it left. */
import type { Progress } from "../library/conclave.ts";
import { endedTab, type Ending } from "../kept/risks.ts";
import type { ConclaveError } from "../protocol/errors.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { button, el, voice } from "./dom.ts";
import { bytes, percent, plural, timeLeft, written } from "./figures.ts";
import { description, facts, graphicsMemory, type Known } from "./member-facts.ts";
import { renameForm } from "./rename-form.ts";

type SlotState = "waiting" | "loading" | "ready" | "failed" | "stopped" | "held";

/** One slot of the ensemble: a bundled member, one of the catalogue, or the visitor's own. */
export interface Slot extends Known {
  state: SlotState;
  takesPart: boolean;
  /**
   * Whether the page added the member by itself. Such a member leaves once one of the visitor's own
   * is ready.
   */
  byDefault?: boolean | undefined;
  /** Palette index. */
  voice: number;
  /** Context size that it was last loaded with. */
  contextTokens?: number;
  /** Handles of its picked files, where the browser gives them. */
  handles?: FileSystemFileHandle[] | undefined;
  /** Reference of the copy of its picked files in this browser. */
  copy?: string | undefined;
  /** Aborts its download. */
  loading?: AbortController | undefined;
}

interface PanelEvents {
  onRetry: (slot: Slot) => void;
  onStop: (slot: Slot) => void;
  onRemove: (slot: Slot) => void;
  /** The visitor gives it another name. */
  onRename: (slot: Slot, name: string) => void;
  onTakesPart: (slot: Slot) => void;
  /** Requests the list of stored models. */
  onStored: () => void;
  /** Text for a screen reader. */
  onNews: (text: string) => void;
}

interface Card {
  root: HTMLElement;
  about: HTMLElement;
  memory: HTMLElement;
  description: HTMLElement;
  load: HTMLElement;
  progress: HTMLProgressElement;
  loaded: HTMLElement;
  votes: HTMLElement;
  weight: HTMLElement;
  weightText: HTMLElement;
  won: HTMLElement;
  failure: HTMLElement;
  actions: HTMLElement;
  box: HTMLInputElement;
  /** Last phase reported. */
  phase: string;
  /** Kind of its failure. */
  kind: string;
}

const phases: Record<Progress["phase"], string> = {
  waiting: "waiting: another tab is fetching it",
  checking: "checking what is stored",
  downloading: "downloading",
  verifying: "verifying",
  core: "fetching the open core",
  loading: "starting",
};

export class MembersPanel {
  readonly #host: HTMLElement;
  readonly #events: PanelEvents;
  readonly #cards = new Map<Slot, Card>();
  /** Bytes of the open core's module, if it is missing and its size is known. */
  openCore: number | undefined;

  constructor(host: HTMLElement, events: PanelEvents) {
    this.#host = host;
    this.#events = events;
  }

  /** Shows a slot, or updates its card. */
  show(slot: Slot): void {
    const card = this.#cards.get(slot) ?? this.#card(slot);
    const was = card.root.dataset["state"];
    card.root.dataset["state"] = slot.state;
    const name = slot.source.name;
    card.box.checked = slot.takesPart;
    card.box.disabled = slot.state !== "ready";
    card.about.textContent = facts(slot, this.openCore);
    card.memory.textContent = graphicsMemory(slot);
    card.memory.hidden = slot.state !== "ready" || card.memory.textContent === "";
    card.description.textContent = description(slot);
    card.load.hidden = slot.state !== "loading" && slot.state !== "waiting";
    card.votes.hidden = slot.state !== "ready" || card.won.textContent === "";
    if (!["failed", "stopped", "held"].includes(slot.state)) card.failure.replaceChildren();
    this.#showActions(slot, card);
    if (slot.state === "loading" && was !== "loading") {
      card.phase = "";
      card.progress.removeAttribute("value");
      card.loaded.textContent = "waiting";
    }
    if (slot.state === "ready" && was === "loading") this.#events.onNews(`${name} is ready.`);
  }

  /** Shows a slot under its new name, in its place. */
  rename(slot: Slot): void {
    const former = this.#cards.get(slot)?.root;
    const next = former?.nextSibling ?? null;
    const hadFocus = former?.contains(document.activeElement) === true;
    this.drop(slot);
    this.show(slot);
    const card = this.#cards.get(slot);
    if (!card) return;
    this.#host.insertBefore(card.root, next);
    if (hadFocus) card.box.focus();
  }

  #edit(slot: Slot, card: Card): void {
    const heading = card.root.querySelector("h3");
    if (!heading) return;
    const form = renameForm(
      slot.source.name,
      (name) => this.#events.onRename(slot, name),
      () => {
        form.replaceWith(heading);
        card.actions.querySelector("button")?.focus();
      },
    );
    heading.replaceWith(form);
  }

  drop(slot: Slot): void {
    this.#cards.get(slot)?.root.remove();
    this.#cards.delete(slot);
  }

  progress(slot: Slot, { loaded, total, rate, secondsLeft, phase, note }: Progress): void {
    const card = this.#cards.get(slot);
    if (!card) return;
    // The open core is fetched for members that need it, and is present when one starts.
    if (phase === "core") slot.core = "burn";
    else if (phase === "loading" && slot.core === "burn") this.openCore = undefined;
    if (phase !== card.phase)
      for (const [other, { about }] of this.#cards) about.textContent = facts(other, this.openCore);
    if (total > 0) card.progress.value = loaded / total;
    else card.progress.removeAttribute("value");
    // Browsers only report a share for their own model.
    const measured = slot.source.builtIn
      ? percent(loaded / total)
      : `${bytes(loaded)} of ${total > 0 ? bytes(total) : "?"}`;
    const parts =
      phase === "waiting" || phase === "checking"
        ? [phases[phase]]
        : phase === "downloading"
          ? [measured]
          : [phases[phase], measured];
    if (note !== undefined) parts.push(note);
    else if (phase === "downloading" && rate !== null)
      parts.push(`${bytes(Math.round(rate))}/s`, secondsLeft === null ? "" : timeLeft(secondsLeft));
    card.loaded.textContent = parts.filter(Boolean).join(" · ");
    // A screen reader hears the phases, not every byte.
    if (phase !== card.phase) this.#events.onNews(`${slot.source.name}: ${phases[phase]}.`);
    card.phase = phase;
  }

  /** Marks that the visitor stopped the member's download. */
  stopped(slot: Slot): void {
    slot.state = "stopped";
    this.show(slot);
    this.#cards
      .get(slot)
      ?.failure.replaceChildren(el("p", { role: "status" }, "Stopped. What has arrived is kept."));
  }

  /** Shows that a member ended a tab, and is therefore not loaded by itself. */
  hold(slot: Slot, ending: Ending): void {
    this.wait(
      slot,
      `${endedTab(ending)}. It stays out until you try it again; ` +
        "with less room for a conversation, or fewer members, it may fit.",
    );
  }

  /** Shows why a member is not loaded before the visitor wants it. */
  wait(slot: Slot, why: string): void {
    this.show(slot);
    this.#cards.get(slot)?.failure.replaceChildren(el("p", { role: "status", class: "held" }, why));
  }

  fail(slot: Slot, error: ConclaveError): void {
    slot.state = "failed";
    const known = this.#cards.get(slot);
    if (known) known.kind = error.kind;
    this.show(slot);
    this.#cards
      .get(slot)
      ?.failure.replaceChildren(el("p", { role: "alert", "data-kind": error.kind }, error.message));
  }

  /** Clears weights and segments: no question has been asked. */
  rest(): void {
    for (const card of this.#cards.values()) {
      card.root.classList.remove("aside", "left");
      card.won.textContent = "";
      card.votes.hidden = true;
    }
  }

  /** A question begins: clears segments won, and weights until they are known. */
  begin(slots: readonly (Slot | undefined)[]): void {
    for (const [slot, card] of this.#cards) {
      const here = slots.includes(slot);
      card.root.classList.toggle("aside", !here && slot.state === "ready");
      card.root.classList.remove("left");
      this.#weigh(card, undefined, here ? "" : "no vote");
      card.won.textContent = !here
        ? ""
        : slot.about?.remote?.can === "judges only"
          ? "judges what the others draft"
          : "no segment yet";
      card.votes.hidden = !here || slot.state !== "ready";
    }
  }

  /** Shows the weights before the first round. */
  weigh(slots: Slot[], weights: number[]): void {
    slots.forEach((slot, member) => {
      const card = this.#cards.get(slot);
      if (card) this.#weigh(card, weights[member]);
    });
  }

  /**
   * Shows an answer with all its `rounds` so far. `slots` are its members in order, as far as they
   * are here; `open`: the round whose weights are shown, instead of the last.
   */
  rounds(
    slots: readonly (Slot | undefined)[],
    rounds: RoundEvent[],
    open = rounds.at(-1)?.round,
  ): void {
    const last = rounds.at(-1);
    const shown = rounds.find(({ round }) => round === open);
    if (!last || !shown) return;
    this.begin(slots);
    slots.forEach((slot, member) => {
      const card = slot && this.#cards.get(slot);
      if (!card) return;
      const place = shown.active.indexOf(member);
      // A member that leaves with the last round has missed nothing.
      const stayed = rounds.findLast((round) => round.active.includes(member));
      const left = stayed !== last;
      card.root.classList.toggle("left", left);
      this.#weigh(card, place < 0 ? undefined : shown.weights[place]);
      const { segments, shared } = written(rounds, member);
      const together =
        shared === 0
          ? ""
          : shared === segments
            ? ", in the same words as others"
            : `, ${shared} in the same words as others`;
      const part = percent(segments / rounds.length);
      const share = `wrote ${segments} of ${plural(rounds.length, "segment")} (${part})${together}`;
      const judges = slot.about?.remote?.can === "judges only";
      const since = stayed ? `after round ${stayed.round}` : "in the first round";
      const silent =
        shown.abstained.includes(member) && slot.about?.remote?.can !== "drafts only"
          ? ", abstained in this round"
          : "";
      card.won.textContent = left
        ? `${judges ? "judged" : share}, left ${since}`
        : `${judges ? "judges what the others draft" : share}${silent}`;
    });
  }

  #weigh(card: Card, weight: number | undefined, without = "no vote"): void {
    card.weight.setAttribute("aria-valuenow", (weight ?? 0).toFixed(3));
    card.weight.querySelector("span")!.style.width = `${(weight ?? 0) * 100}%`;
    card.weightText.textContent = weight === undefined ? without : weight.toFixed(3);
  }

  #showActions(slot: Slot, card: Card): void {
    const name = slot.source.name;
    const named = (label: string, run: () => void, spoken = label): HTMLButtonElement =>
      button(label, run, { class: "quiet", "aria-label": `${spoken} ${name}` });
    const hadFocus = card.actions.contains(document.activeElement);
    const buttons: HTMLButtonElement[] = [];
    if (slot.state === "loading") buttons.push(named("Stop", () => this.#events.onStop(slot)));
    if (slot.state === "stopped")
      buttons.push(named("Go on", () => this.#events.onRetry(slot), "Go on with"));
    if (slot.state === "failed" || slot.state === "held")
      buttons.push(named("Try again", () => this.#events.onRetry(slot), "Try again with"));
    if (slot.state === "failed" && card.kind === "Storage")
      buttons.push(button("Stored models", this.#events.onStored, { class: "quiet" }));
    // The toys' names are part of their demonstration.
    if (slot.state === "ready" && !slot.entry)
      buttons.push(named("Rename", () => this.#edit(slot, card)));
    if (slot.state !== "waiting") buttons.push(named("Remove", () => this.#events.onRemove(slot)));
    card.actions.replaceChildren(...buttons);
    // The pressed button is gone: the focus goes to its replacement.
    if (hadFocus) buttons[0]?.focus();
  }

  #card(slot: Slot): Card {
    const name = slot.source.name;
    const box = el("input", { type: "checkbox", "aria-label": `${name} takes part` });
    box.addEventListener("change", () => {
      slot.takesPart = box.checked;
      this.#events.onTakesPart(slot);
    });
    const card: Card = {
      root: el("li", { class: `member ${voice(slot.voice)}` }),
      about: el("p", { class: "about" }),
      memory: el("p", { class: "share" }),
      description: el("p", { class: "description" }),
      load: el("div", { class: "load" }),
      progress: el("progress", { max: 1, "aria-label": `${name}: download` }),
      loaded: el("span", { class: "loaded" }, "waiting"),
      votes: el("div", { class: "votes" }),
      weight: el(
        "div",
        {
          class: "meter",
          role: "meter",
          "aria-valuemin": 0,
          "aria-valuemax": 1,
          "aria-label": `${name}: weight`,
        },
        el("span", {}),
      ),
      weightText: el("span", { class: "figure" }),
      won: el("span", { class: "won" }),
      failure: el("div", { class: "failure" }),
      actions: el("div", { class: "member-actions" }),
      box,
      phase: "",
      kind: "",
    };
    // A second click, or a held key, meets the button that has taken the pressed one's place.
    const second = (event: MouseEvent): void => {
      if (event.detail > 1) event.stopPropagation();
    };
    card.actions.addEventListener("click", second, { capture: true });
    card.actions.addEventListener("keydown", (event) => {
      if (event.repeat && event.key === "Enter") event.preventDefault();
    });
    card.load.append(card.progress, card.loaded);
    card.votes.append(card.weight, card.weightText, card.won);
    card.root.append(
      el(
        "div",
        { class: "member-head" },
        el("h3", {}, el("span", { class: "name" }, name)),
        el("label", { class: "takes-part" }, box, "takes part"),
      ),
      card.about,
      card.memory,
      card.description,
      card.load,
      card.votes,
      card.failure,
      card.actions,
    );
    this.#cards.set(slot, card);
    this.#host.append(card.root);
    return card;
  }
}

/** First unused name of `name`, `name 2`, `name 3` … */
export function freeName(name: string, slots: Slot[]): string {
  const taken = new Set(slots.map((slot) => slot.source.name));
  if (!taken.has(name)) return name;
  let count = 2;
  while (taken.has(`${name} ${count}`)) count++;
  return `${name} ${count}`;
}
