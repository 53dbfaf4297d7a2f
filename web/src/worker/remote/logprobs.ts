/**
 * A candidate's score from the log-probabilities of its tokens as a server reports them. There are
 * two ways: `echo`, where a server returns a prompt with those of all its tokens (vLLM,
 * llama-cpp-python), and forced tokens, where a grammar lets llama.cpp's own server write only the
 * candidate's.
 */
import { list, nullable, number, optional, record, shape, text } from "../../protocol/check.ts";
import type { Candidate, VerifiedScore } from "../../protocol/engine.ts";
import { RemoteFailure } from "../../protocol/errors.ts";

/**
 * Log-probability, in nats, of an impossible token, which servers report as null or a non-JSON
 * value.
 */
const nothing = -700;

const legacy = shape({ tokens: list(text), token_logprobs: list(nullable(number)) });
const entries = shape({
  content: list(shape({ logprob: nullable(number), id: optional(number) })),
});
const choices = shape({ choices: list(record((data) => data)) });

/** Choices of an answer in order of their `index`; exactly `count`. Throws Remote otherwise. */
export function choicesOf(answer: unknown, count: number, host: string): Record<string, unknown>[] {
  const found = checked(() => choices(answer, "answer"), host).choices;
  const ordered = [...found.keys()].map(
    (place) => found.find(({ index }) => index === place) ?? found[place]!,
  );
  if (ordered.length !== count)
    throw new RemoteFailure(
      `${host} answered with ${ordered.length} choices where ${count} were asked for. ` +
        "Remove its member.",
    );
  return ordered;
}

/** Runs a check; its error is the server's. */
export function checked<T>(check: () => T, host: string): T {
  try {
    return check();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RemoteFailure(
      `${host} answered what it should not: ${why}. Remove its member, or update the server.`,
      { cause: error },
    );
  }
}

/** One number of each kind from the log-probabilities of a candidate's tokens. */
export function scoreOf(logprobs: readonly number[], tokens: number): VerifiedScore {
  const held = logprobs.map((logprob) => Math.max(nothing, Math.min(0, logprob)));
  const sum = (of: (logprob: number) => number) =>
    held.reduce((all, logprob) => all + of(logprob), 0);
  // −ln(1 + Σ (1/p − 1)) without overflow: next to a nearly impossible token
  // the 1 is negligible.
  const least = Math.min(...held);
  const harmonic =
    least > -30
      ? -Math.log1p(sum((logprob) => Math.expm1(-logprob)))
      : least - Math.log(sum((logprob) => Math.exp(least - logprob)));
  return { meanLogprob: sum((logprob) => logprob) / held.length, harmonic, tokens };
}

/**
 * Score of the text after `prefix` in an echoed prompt (`prefix` + `candidate` + `end`, which may
 * be empty): of the candidate's tokens, and of the first of `end`'s. Throws Remote if the echo
 * lacks them.
 */
export function echoed(
  choice: Record<string, unknown>,
  prefix: string,
  candidate: string,
  end: string,
  host: string,
): VerifiedScore {
  const { tokens, token_logprobs: logprobs } = checked(
    () => legacy(choice["logprobs"], "logprobs"),
    host,
  );
  const [from, to] = [prefix.length, (prefix + candidate).length];
  const places = placesOf(tokens, prefix + candidate + end);
  const own: number[] = [];
  let ends: number | undefined;
  for (const [index, { begins, over }] of places.entries()) {
    const logprob = logprobs[index] ?? nothing;
    // A token across the seam belongs to the text after it.
    if (over > from && begins < to) own.push(logprob);
    else if (begins >= to && end !== "") ends ??= logprob;
  }
  const count = own.length;
  if (ends !== undefined) own.push(ends);
  if (own.length === 0 || logprobs.length !== tokens.length || (places.at(-1)?.over ?? 0) < to) {
    throw new RemoteFailure(
      `${host} gave no log-probabilities of the candidate back. ` +
        "Remove its member, or let it only judge.",
    );
  }
  return scoreOf(own, count);
}

/**
 * Maximum characters between a token and the one before it: servers may strip its white space, or
 * it follows parts of characters.
 */
const gap = 16;

/**
 * Offset of each token in the prompt, found by its text: the offsets that servers report count a
 * first token that is in no prompt, and each part of a character as a whole one. A token that is
 * not found lies between its neighbours.
 */
function placesOf(tokens: readonly string[], prompt: string): { begins: number; over: number }[] {
  let at = 0;
  const places = tokens.map((token) => {
    const found = token === "" ? -1 : prompt.indexOf(token, at);
    if (found < 0 || found - at > gap) return { begins: at, over: undefined };
    at = found + token.length;
    return { begins: found, over: at };
  });
  const next = (index: number): number =>
    places.slice(index).find(({ over }) => over !== undefined)?.begins ?? at;
  return places.map(({ begins, over }, index) => ({ begins, over: over ?? next(index) }));
}

/** A grammar that allows only these tokens, then the end of the answer. */
export const forcing = (tokens: readonly number[]): string =>
  `root ::= ${tokens.length === 0 ? '""' : tokens.map((token) => `<[${token}]>`).join(" ")}`;

/**
 * Option for the server that leaves one end token, the one that closes a turn. Without it a server
 * ends forced tokens with its likeliest end token. Logits are some tens apart.
 */
export const endingBy = (token: number | undefined): object =>
  token === undefined ? {} : { logit_bias: [[token, 10_000]] };

/** Score of forced tokens; the one that ended the answer counts if `scoresEnd` says so. */
export function forced(
  choice: Record<string, unknown>,
  tokens: readonly number[],
  scoresEnd: boolean,
  host: string,
): VerifiedScore {
  const { content } = checked(() => entries(choice["logprobs"], "logprobs"), host);
  const own = content.slice(0, tokens.length + Number(scoresEnd));
  const wrong = own.findIndex(
    ({ id }, index) => index < tokens.length && id !== undefined && id !== tokens[index],
  );
  if (wrong >= 0 || own.length < tokens.length + Number(scoresEnd))
    throw new RemoteFailure(
      `${host} did not write what it was told to score. Remove its member, or let it only judge.`,
    );
  return scoreOf(
    own.map(({ logprob }) => logprob ?? nothing),
    tokens.length,
  );
}

/** Whether a candidate's score includes the tokens that close its turn. */
export const scoresEnd = ({ text, ended }: Candidate, scoreEnd: boolean): boolean =>
  text === "" || (ended && scoreEnd);
