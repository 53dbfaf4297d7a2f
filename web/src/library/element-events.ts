/** The events of `<conclave-chat>`, typed for its listeners. */
import type { ConclaveError, ConclaveEvent, EndEvent, RoundEvent } from "./conclave.ts";

/** Progress of a load: its share from 0 to 1, and the bytes of downloads. */
export interface LoadProgress {
  share: number;
  loaded: number;
  total: number;
}

/** The events of `<conclave-chat>` by name. */
export interface ConclaveChatEventMap {
  "conclave-event": CustomEvent<ConclaveEvent>;
  round: CustomEvent<RoundEvent>;
  end: CustomEvent<EndEvent>;
  progress: CustomEvent<LoadProgress>;
  error: CustomEvent<ConclaveError>;
}

/** An element whose listeners receive these events. */
export interface ChatEvents extends HTMLElement {
  addEventListener<K extends keyof ConclaveChatEventMap>(
    type: K,
    listener: (event: ConclaveChatEventMap[K]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener<K extends keyof HTMLElementEventMap>(
    type: K,
    listener: (this: HTMLElement, event: HTMLElementEventMap[K]) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | AddEventListenerOptions,
  ): void;
  removeEventListener<K extends keyof ConclaveChatEventMap>(
    type: K,
    listener: (event: ConclaveChatEventMap[K]) => void,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener<K extends keyof HTMLElementEventMap>(
    type: K,
    listener: (this: HTMLElement, event: HTMLElementEventMap[K]) => void,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener(
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: boolean | EventListenerOptions,
  ): void;
}
