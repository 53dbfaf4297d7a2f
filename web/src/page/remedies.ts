/** Offers after an answer that failed, lost a member, or ran out of room. */
import { isFatal, type ConclaveError, type EndEvent } from "../library/conclave.ts";
import { button } from "./dom.ts";
import type { Exchange } from "./exchange.ts";
import type { Slot } from "./members-panel.ts";
import type { Action } from "./notices.ts";

interface RemedyEvents {
  /** Ways to open the engine again. */
  reloads: () => Action[];
  /** Removes a member; `stopping`: and ends an answer under way. */
  onRemove: (slot: Slot, stopping: boolean) => void;
  /** Puts a question back into the box. */
  onAgain: (exchange: Exchange) => void;
  onNew: () => void;
}

export class Remedies {
  readonly #events: RemedyEvents;

  constructor(events: RemedyEvents) {
    this.#events = events;
  }

  /** A full context has no room for another question either. */
  afterEnd({ stop }: EndEvent): HTMLElement[] {
    if (stop !== "context") return [];
    return [button("Start a new conversation", () => this.#events.onNew())];
  }

  /** Actions offered after an error; `slots` are the members that were asked. */
  after(error: ConclaveError, exchange: Exchange, slots: Slot[]): HTMLElement[] {
    const remedies: HTMLElement[] = [];
    // Earlier turns were left out already: the question alone is too long.
    if (error.kind === "ContextFull")
      remedies.push(button("Shorten the question", () => this.#events.onAgain(exchange)));
    remedies.push(...this.removal(error.member, slots, exchange));
    if (isFatal(error))
      remedies.push(...this.#events.reloads().map(({ label, run }) => button(label, run)));
    return remedies;
  }

  /**
   * Action that removes a failed member; an exchange `without` an answer can be asked of the
   * others.
   */
  removal(name: string | undefined, slots: Slot[], without?: Exchange): HTMLElement[] {
    const failed = slots.find((slot) => slot.source.name === name);
    if (!failed) return [];
    const remove = button(`Remove ${failed.source.name}`, () => {
      remove.remove();
      this.#events.onRemove(failed, without !== undefined);
      if (without) this.#events.onAgain(without);
    });
    return [remove];
  }
}
