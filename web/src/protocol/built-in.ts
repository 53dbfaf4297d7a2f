/**
 * Messages between a judge in the engine's worker and the browser's own language model, which only
 * windows have. Checked on arrival like all messages.
 */
import { list, number, shape, text, variant, type Checked } from "./check.ts";
import { failure } from "./messages.ts";

const asked = variant({
  /** Asks for one of `letters`. */
  ask: shape({ id: number, question: text, letters: list(text) }),
  /** Aborts the question `id`. */
  stop: shape({ id: number }),
});

const said = variant({
  said: shape({ id: number, text }),
  failed: shape({ id: number, error: failure }),
});

export type Asked = Checked<typeof asked>;
export type Said = Checked<typeof said>;

/** Throws a TypeError that names the fault if `data` is no question. */
export const parseAsked = (data: unknown): Asked => asked(data, "question");
/** Throws a TypeError that names the fault if `data` is no answer. */
export const parseSaid = (data: unknown): Said => said(data, "answer");
