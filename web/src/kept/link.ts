/**
 * A link with a question and an ensemble in its fragment, which no server sees. Who opens it finds
 * the question in the box; nothing is asked or fetched by itself.
 */
import { list, optional, shape, text } from "../protocol/check.ts";
import { parseReference, referenceText } from "../store/reference.ts";

/**
 * Most characters of an address: some programs that pass addresses on cut or refuse longer ones.
 */
const longest = 8000;

const linked = shape({
  question: text,
  title: optional(text),
  members: optional(list(shape({ name: text, ref: text }))),
});

export interface Linked {
  question: string;
  /** Name and members of the ensemble; undefined if it can't be passed on. */
  ensemble: { title: string; members: { name: string; ref: string }[] } | undefined;
}

/** The fragment of a link; undefined if the question is too long for one. */
export function fragmentOf(
  question: string,
  title: string,
  members: readonly { name: string; ref?: string | undefined }[],
): string | undefined {
  const named = members.flatMap(({ name, ref }) => (ref === undefined ? [] : [{ name, ref }]));
  const whole = named.length > 0 && named.length === members.length;
  const data = { question, ...(whole ? { title, members: named } : {}) };
  const fragment = `#ask=${encodeURIComponent(JSON.stringify(data))}`;
  return fragment.length > longest ? undefined : fragment;
}

/** Reads a fragment; undefined if there is no question in it. References are checked. */
export function readFragment(fragment: string): Linked | undefined {
  const encoded = /^#ask=(.*)$/.exec(fragment)?.[1];
  if (encoded === undefined) return undefined;
  try {
    const { question, title, members } = linked(JSON.parse(decodeURIComponent(encoded)), "link");
    const seats = (members ?? []).map(({ name, ref }) => ({
      name,
      ref: referenceText(parseReference(ref)),
    }));
    const usable = seats.length > 0 && seats.length <= 8;
    return {
      question,
      ensemble: usable ? { title: title ?? "The link's ensemble", members: seats } : undefined,
    };
  } catch {
    return undefined;
  }
}
