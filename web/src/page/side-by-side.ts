/** The ensemble's answer beside members' own, in cards; members answer in turn. */
import type { Conclave, ConclaveEvent } from "../library/conclave.ts";
import { showMarkdown } from "../library/markdown/show.ts";
import { isFatal, type ConclaveError } from "../protocol/errors.ts";
import type { RoundEvent } from "../protocol/messages.ts";
import { cost, eachAlone, type Asked } from "./alone.ts";
import { button, el, voice } from "./dom.ts";
import { stops, type Exchange } from "./exchange.ts";
import { plural } from "./figures.ts";

/** Cards have no room for buttons in code. */
const plain = { copy: false };

interface Card {
  root: HTMLElement;
  answer: HTMLElement;
  /** Progress in reading the question. */
  reading: HTMLProgressElement;
  status: HTMLElement;
  rounds: RoundEvent[];
  over: boolean;
}

export class SideBySide {
  readonly root: HTMLElement;
  readonly #asked: Asked;
  readonly #cards: Card[];
  readonly #title = el("h3", { tabindex: -1 }, "Side by side");
  readonly #state = el("p", { role: "status" });
  /** Hidden while members answer: the page's Stop ends that. */
  readonly #close: HTMLButtonElement;

  /** `exchange` is complete; `asked`: indices of its members to answer alone. */
  constructor(exchange: Exchange, asked: readonly number[], onClose: () => void) {
    const { context, begun, rounds } = exchange;
    const { messages, members, voices } = context;
    this.#asked = {
      messages,
      members: asked.map((index) => members[index] ?? ""),
      ...(begun && {
        settings: begun.settings,
        sampling: begun.sampling,
        thinking: begun.thinking,
      }),
    };
    this.#cards = asked.map((index) => card(members[index] ?? "", voice(voices[index] ?? index)));
    const together = card("Together", "together");
    const colour = ({ drafters, winner, writers }: RoundEvent): string =>
      writers.length > 1 ? "alike" : voice(voices[drafters[winner] ?? 0] ?? 0);
    showMarkdown(
      together.answer,
      rounds.map((round) => ({
        text: round.text,
        attributes: { class: `wrote ${colour(round)}` },
      })),
      plain,
    );
    together.rounds.push(...rounds);
    end(together, exchange.stop);
    this.#close = button("Close", onClose, { class: "quiet", hidden: true });
    this.root = el(
      "section",
      { class: "side-by-side", "aria-label": "Side by side" },
      el("div", { class: "inspector-head" }, this.#title, this.#state, this.#close),
      el(
        "ul",
        { class: "cards", "aria-label": "Answers" },
        together.root,
        ...this.#cards.map(({ root }) => root),
      ),
    );
  }

  /** Scrolls it into view and focuses its heading. */
  focus(): void {
    this.#title.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }

  /**
   * Asks each member until all have answered or `signal` aborts; returns the engine's failure, if
   * any.
   */
  async run(
    conclave: Pick<Conclave, "ask">,
    signal: AbortSignal,
  ): Promise<ConclaveError | undefined> {
    let fatal: ConclaveError | undefined;
    this.#showStatus();
    for await (const alone of eachAlone(conclave, this.#asked, signal)) {
      const card = this.#cards[alone.member]!;
      if ("error" in alone) {
        end(card, "failed", alone.error);
        if (isFatal(alone.error)) fatal = alone.error;
      } else hear(card, alone.event);
      this.#showStatus();
    }
    // Members not asked, or interrupted.
    for (const card of this.#cards) if (!card.over) end(card, fatal ? "failed" : "stopped");
    this.#showStatus(true);
    this.#close.hidden = false;
    return fatal;
  }

  /** Shows which member answers; a screen reader hears changes. */
  #showStatus(over = false): void {
    const finished = this.#cards.filter(({ root }) => root.dataset["state"] === "ended").length;
    const now = this.#cards.findIndex((card) => !card.over);
    const all = plural(this.#cards.length, "member");
    const [only, ...others] = this.#asked.members;
    const one = others.length === 0;
    let text = `${this.#asked.members[now]} answers alone${one ? "" : `, ${now + 1} of ${all}`}.`;
    if (over || now < 0) {
      text = one ? `${only} has not finished alone.` : `${finished} of ${all} have finished alone.`;
      if (finished === this.#cards.length)
        text = `${one ? only : "Every member"} has answered alone, under the same settings.`;
    }
    if (this.#state.textContent !== text) this.#state.textContent = text;
  }
}

function card(name: string, style: string): Card {
  const made: Card = {
    root: el("li", { class: `alone ${style}`, "data-state": "waiting" }),
    answer: el("div", { class: "alone-answer prose", dir: "auto" }),
    reading: el("progress", {
      max: 1,
      value: 0,
      hidden: true,
      "aria-label": `${name}: reading the question`,
    }),
    status: el("p", { class: "facts" }, "waits for its turn"),
    rounds: [],
    over: false,
  };
  made.root.append(
    el("h4", {}, el("span", { class: "name" }, name)),
    made.answer,
    made.reading,
    made.status,
  );
  return made;
}

function hear(card: Card, event: ConclaveEvent): void {
  card.root.dataset["state"] = "answering";
  card.answer.classList.add("growing");
  if (event.type === "reading") {
    card.reading.hidden = event.done >= event.total;
    card.reading.value = event.done / event.total;
    card.status.textContent = `reads the question: ${event.done} of ${event.total} tokens`;
  } else if (event.type === "begin") {
    card.reading.hidden = true;
    card.status.textContent = "drafts its first words";
  } else if (event.type === "thinking") {
    card.status.textContent = "thinks first";
  } else if (event.type === "round") {
    card.rounds.push(event);
    const text = card.rounds.map(({ text }) => text).join("");
    showMarkdown(card.answer, [{ text, attributes: { class: "whole" } }], plain);
    card.status.textContent = `answers · ${cost(card.rounds)}`;
  } else if (event.type === "end") {
    end(card, event.stop);
  }
}

/** Ends a card; its text stays. */
function end(card: Card, stop: string, error?: ConclaveError): void {
  const asked = card.rounds.length > 0 || card.root.dataset["state"] !== "waiting";
  card.over = true;
  card.root.dataset["state"] = stop;
  card.answer.classList.remove("growing");
  card.reading.hidden = true;
  const why = stops[stop] ?? stop;
  const how = stop === "ended" ? why : `${asked ? "unfinished" : "not asked"}: ${why}`;
  card.status.textContent = card.rounds.length > 0 ? `${how} · ${cost(card.rounds)}` : how;
  if (error) card.root.append(el("p", { role: "alert", "data-kind": error.kind }, error.message));
}
