/**
 * Checks a GPU: the next token's logits of the bundled members by the fused kernels, by burn on the
 * same GPU, and by burn on the CPU, which shares neither kernels nor driver with them. Pure:
 * `check-worker.ts` computes the logits, `page.ts` shows the result.
 */
import { figure, type Table } from "./tables.ts";

/** The fused engine's kernels, the open core on the same GPU, the open core on the CPU. */
export const ways = ["fused", "burn", "cpu"] as const;
export type Way = (typeof ways)[number];

/** Next token of one member, by all three ways. */
export interface CheckedMember {
  name: string;
  /** Number of tokens of the conversation. */
  tokens: number;
  /** The largest magnitude of a logit, on the CPU. */
  largest: number;
  /** Id of the likeliest token by each way. */
  likeliest: Record<Way, number>;
  /**
   * Largest difference of any logit from burn's on the CPU, relative to the largest logit; null if
   * any is NaN.
   */
  fused: number | null;
  burn: number | null;
}

export interface Check {
  adapter: string;
  members: CheckedMember[];
}

/**
 * Largest difference of two logits that rounding explains, relative to the largest logit. Engines
 * round differently: KV caches hold 16-bit numbers, and adapters add in any order.
 */
const tolerance = 2e-3;

/**
 * Compares one member's logits, one list for each way. Throws a RangeError for lists of different
 * lengths.
 */
export function compared(
  name: string,
  tokens: number,
  logits: Record<Way, Float32Array>,
): CheckedMember {
  const { fused, burn, cpu } = logits;
  if (fused.length !== cpu.length || burn.length !== cpu.length)
    throw new RangeError(`${name} has ${fused.length}, ${burn.length} and ${cpu.length} logits.`);
  const largest = cpu.reduce((most, logit) => Math.max(most, Math.abs(logit)), 0);
  if (!(largest > 0 && Number.isFinite(largest)))
    throw new RangeError(
      `${name} has no logits on the CPU either: its file is damaged. Reload the page.`,
    );
  const apart = (found: Float32Array): number | null => {
    const most = found.reduce((most, logit, id) => Math.max(most, Math.abs(logit - cpu[id]!)), 0);
    return Number.isFinite(most) ? most / largest : null;
  };
  const likeliest = (found: Float32Array): number =>
    found.reduce((best, logit, id) => (logit > found[best]! ? id : best), 0);
  return {
    name,
    tokens,
    largest,
    likeliest: { fused: likeliest(fused), burn: likeliest(burn), cpu: likeliest(cpu) },
    fused: apart(fused),
    burn: apart(burn),
  };
}

/** Whether the logits equal the CPU's except for rounding. */
const agrees = (apart: number | null): boolean => apart !== null && apart <= tolerance;

/**
 * The result in a sentence that says what to do next. Throws a RangeError if nothing was compared.
 */
export function verdict({ members }: Check): string {
  if (members.length === 0) throw new RangeError("No member was compared. Reload the page.");
  const fused = members.every((member) => agrees(member.fused));
  const burn = members.every((member) => agrees(member.burn));
  if (fused && burn)
    return "This GPU computes correctly: both engines agree with the CPU except for rounding.";
  if (burn)
    return (
      "The fused engine's kernels are wrong on this GPU. " +
      "Run members on the open core (?core=burn) or on the CPU (?backend=cpu), " +
      "and please report this with the JSON below."
    );
  if (fused)
    return (
      "The open core is wrong on this GPU; the fused engine, which the page runs on, is right. " +
      "Please report this with the JSON below."
    );
  return (
    "Both engines differ from the CPU on this GPU: " +
    "its driver computes wrongly, or a kernel that they share does. " +
    "Run members on the CPU (?backend=cpu), update the graphics driver, " +
    "and please report this with the JSON below."
  );
}

/** The check as a table. */
export function tableOf(check: Check): Table {
  const share = (apart: number | null): string =>
    apart === null ? "no number" : apart.toExponential(1);
  return {
    caption: `Logits on ${check.adapter}`,
    note:
      `${verdict(check)} Differences are the largest of any logit, ` +
      `as a share of the largest logit; up to ${tolerance} is rounding.`,
    head: [
      "member",
      "tokens read",
      "largest logit",
      "likeliest token: fused",
      "open core",
      "CPU",
      "difference: fused",
      "open core",
    ],
    rows: check.members.map(({ name, tokens, largest, likeliest, fused, burn }) => [
      name,
      String(tokens),
      figure(largest),
      String(likeliest.fused),
      String(likeliest.burn),
      String(likeliest.cpu),
      share(fused),
      share(burn),
    ]),
  };
}
