/** Actions offered with an answer that failed or ended for lack of room. */
import { isFatal, type ConclaveError, type EndEvent } from "../library/conclave.ts";
import { button } from "./dom.ts";
import type { Slot } from "./members-panel.ts";

export interface RemedyEvents {
  /** Whether the conversation has an answer. */
  isLong: () => boolean;
  isPresent: (slot: Slot) => boolean;
  onNew: (question?: string) => void;
  /** Restores a question. */
  onAskAgain: (question: string) => void;
  /** `stopping`: also ends an answer under way. */
  onRemove: (slot: Slot, stopping: boolean) => void;
  reloads: () => { label: string; run: () => void }[];
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

  /** Actions after an error; `slots` are the members that were asked. */
  afterError(error: ConclaveError, question: string, slots: Slot[]): HTMLElement[] {
    const { isLong, onNew, onAskAgain, reloads } = this.#events;
    const remedies: HTMLElement[] = [];
    if (error.kind === "ContextFull")
      remedies.push(
        isLong()
          ? button("Start a new conversation", () => onNew(question))
          : button("Shorten the question", () => onAskAgain(question)),
      );
    remedies.push(...this.removal(error.member, slots, question));
    if (isFatal(error)) remedies.push(...reloads().map(({ label, run }) => button(label, run)));
    return remedies;
  }

  /**
   * Action that removes a failed member; a `question` without an answer can be asked of the others.
   */
  removal(name: string | undefined, slots: Slot[], question?: string): HTMLElement[] {
    const { isPresent, onRemove, onAskAgain } = this.#events;
    const failed = slots.find((slot) => slot.source.name === name);
    if (!failed) return [];
    const remove = button(`Remove ${failed.source.name}`, () => {
      remove.remove();
      // It may have been removed already by its card.
      if (isPresent(failed)) onRemove(failed, question !== undefined);
      if (question !== undefined) onAskAgain(question);
    });
    return [remove];
  }
}
