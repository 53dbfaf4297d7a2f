/** Answers of an ensemble with remote members, and their events. */
import type { Conclave } from "../../src/library/conclave.ts";
import type { ConclaveEvent, LeftEvent, RoundEvent } from "../../src/protocol/messages.ts";
import { collect, hello } from "../../src/testing/staged.ts";

export const answer = (
  conclave: Conclave,
  maxRounds: number,
  more: object = {},
): Promise<ConclaveEvent[]> => collect(conclave.ask(hello, { settings: { maxRounds }, ...more }));
export const roundsOf = (events: ConclaveEvent[]): RoundEvent[] =>
  events.filter((event) => event.type === "round");
export const leftIn = (events: ConclaveEvent[]): LeftEvent[] =>
  events.filter((event) => event.type === "left");
