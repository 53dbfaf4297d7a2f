/** The speed of one model in a sentence that people outside the field understand. */
import type { Surroundings, WorkloadReport } from "./report.ts";

/** Words per token, usual for English text and the vocabularies of real models. */
const wordsPerToken = 3 / 4;

interface Headline {
  text: string;
  /** The exact measurement. */
  note: string;
}

/** Rate with two significant digits below ten, else as a whole number. */
const rounded = (rate: number): string =>
  rate < 10 ? String(Number(rate.toPrecision(2))) : Math.round(rate).toLocaleString("en");

/**
 * The first member's speed after the shortest prefix; undefined if it was not measured, or by a
 * software adapter, whose times hold for no machine.
 */
export function headlineOf(
  { models, format, members }: Pick<WorkloadReport, "models" | "format" | "members">,
  { backend, adapter }: Pick<Surroundings, "backend" | "adapter">,
): Headline | undefined {
  if (adapter.software) return undefined;
  const [first] = [...members].sort((a, b) => a.prefix - b.prefix);
  const step = first?.draftStep.ms;
  if (!first || !step || !(step.median > 0)) return undefined;
  const perSecond = (ms: number): number => 1000 / ms;
  const tokens = perSecond(step.median);
  const place = `on this machine's ${backend === "webgpu" ? "GPU" : "CPU"}`;
  const [low, high] = [step.high, step.low].map((ms) => rounded(perSecond(ms)));
  const pace = `${rounded(tokens)} tokens a second (${low}–${high})`;
  const measured = `Measured: ${pace} after ${first.prefix} tokens`;
  // Tokens of the toys are parts of words.
  if (models === "bundled")
    return {
      text: `${first.name}, a toy: ${rounded(tokens)} tokens a second ${place}`,
      note: `${measured}.`,
    };
  const words = rounded(tokens * wordsPerToken);
  const speed = `${words} ${words === "1" ? "word" : "words"} a second`;
  return {
    text: `${models.replaceAll("-", " ")}: ${speed} ${place}`,
    note: `${measured}, in ${format}. Four tokens make about three English words.`,
  };
}
