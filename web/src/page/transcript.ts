/** The exchanges of the conversation, and those that were taken out of it last. */
import type { Exchange } from "./exchange.ts";
import type { Notices } from "./notices.ts";
import { plural } from "./figures.ts";

export class Transcript {
  readonly #host: HTMLElement;
  readonly #notices: Notices;
  #exchanges: readonly Exchange[] = [];

  constructor(host: HTMLElement, notices: Notices) {
    this.#host = host;
    this.#notices = notices;
  }

  get exchanges(): readonly Exchange[] {
    return this.#exchanges;
  }

  /** Replaces the conversation. */
  show(exchanges: readonly Exchange[]): void {
    this.#exchanges = exchanges;
    this.#host.replaceChildren(...exchanges.map(({ root }) => root));
    this.#notices.clear("replaced");
  }

  add(exchange: Exchange): void {
    this.#exchanges = [...this.#exchanges, exchange];
    this.#host.append(exchange.root);
    exchange.root.scrollIntoView({ block: "nearest" });
    this.#notices.clear("replaced");
  }

  /** Takes an exchange and all later ones out; `onBack` brings all of them back. */
  cut(exchange: Exchange, onBack: (exchanges: readonly Exchange[]) => void): () => void {
    const before = this.#exchanges;
    const place = before.indexOf(exchange);
    this.show(before.slice(0, place));
    const later = before.length - place - 1;
    const text =
      later === 0
        ? "The earlier answer was taken out of the conversation."
        : `The earlier answer and ${plural(later, "answer")} after it were taken out of the conversation.`;
    return () =>
      this.#notices.show("replaced", "hint", text, [
        { label: "Bring back", run: () => onBack(before) },
      ]);
  }
}
