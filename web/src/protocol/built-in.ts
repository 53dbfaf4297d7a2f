/**
 * The line between a judge in the engine's worker and the browser's own language model, which
 * windows have and workers don't: what is asked of it, and what it says. Checked on arrival, as
 * everything that crosses.
 */
import { list, number, shape, text, variant, type Checked } from "./check.ts";
import { failure } from "./messages.ts";

const asked = variant({
  /** One of `letters` is to be named. */
  ask: shape({ id: number, question: text, letters: list(text) }),
  /** Nobody waits for the answer to the question `id` any more. */
  stop: shape({ id: number }),
});

const said = variant({
  said: shape({ id: number, text }),
  failed: shape({ id: number, error: failure }),
});

export type Asked = Checked<typeof asked>;
export type Said = Checked<typeof said>;

/** Throws a TypeError that names the fault when `data` is no question. */
export const parseAsked = (data: unknown): Asked => asked(data, "question");
/** Throws a TypeError that names the fault when `data` is no answer. */
export const parseSaid = (data: unknown): Said => said(data, "answer");
