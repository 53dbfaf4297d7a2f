/**
 * A candidate's score from what a server tells of its tokens' log-probabilities. Two ways lead
 * there: `echo`, where a server gives a prompt back with those of all its tokens (vLLM,
 * llama-cpp-python), and forced tokens, where a grammar lets llama.cpp's own server write nothing
 * but the candidate's.
 */
import { list, nullable, number, optional, record, shape, text } from "../../protocol/check.ts";
import type { Candidate, VerifiedScore } from "../../protocol/engine.ts";
import { RemoteFailure } from "../../protocol/errors.ts";

/** A probability of nothing, in nats: servers say it as null, or as what JSON has no word for. */
const nothing = -700;

const legacy = shape({ tokens: list(text), token_logprobs: list(nullable(number)) });
const entries = shape({
  content: list(shape({ logprob: nullable(number), id: optional(number) })),
});
const choices = shape({ choices: list(record((data) => data)) });

/**
 * The choices of an answer in order of their `index`; exactly `count`. Throws Remote where they are
 * not.
 */
export function choicesOf(answer: unknown, count: number, host: string): Record<string, unknown>[] {
  const found = checked(() => choices(answer, "answer"), host).choices;
  const ordered = [...found.keys()].map(
    (place) => found.find(({ index }) => index === place) ?? found[place]!,
  );
  if (ordered.length !== count)
    throw new RemoteFailure(
      `${host} answered with ${ordered.length} choices where ${count} were asked for. Remove its member.`,
    );
  return ordered;
}

/** Runs a check; what it finds wrong is the server's fault. */
export function checked<T>(check: () => T, host: string): T {
  try {
    return check();
  } catch (error) {
    throw new RemoteFailure(
      `${host} answered what it should not: ${error instanceof Error ? error.message : String(error)}. Remove its member, or update the server.`,
      { cause: error },
    );
  }
}

/** One number of each kind from the log-probabilities of a candidate's tokens. */
export function scoreOf(logprobs: readonly number[], tokens: number): VerifiedScore {
  const held = logprobs.map((logprob) => Math.max(nothing, Math.min(0, logprob)));
  const sum = (of: (logprob: number) => number) =>
    held.reduce((all, logprob) => all + of(logprob), 0);
  // −ln(1 + Σ (1/p − 1)) without overflow: beside a token that is as good as impossible, 1 is lost.
  const least = Math.min(...held);
  const harmonic =
    least > -30
      ? -Math.log1p(sum((logprob) => Math.expm1(-logprob)))
      : least - Math.log(sum((logprob) => Math.exp(least - logprob)));
  return { meanLogprob: sum((logprob) => logprob) / held.length, harmonic, tokens };
}

/**
 * The score of what stands behind `prefix` in an echoed prompt (`prefix` + `candidate` + `end`, the
 * last of which may be empty): of the candidate's tokens, and of the first of `end`'s. Throws
 * Remote where the echo does not have them.
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
    // One that reaches over the seam belongs to what is behind it.
    if (over > from && begins < to) own.push(logprob);
    else if (begins >= to && end !== "") ends ??= logprob;
  }
  const count = own.length;
  if (ends !== undefined) own.push(ends);
  if (own.length === 0 || logprobs.length !== tokens.length || (places.at(-1)?.over ?? 0) < to) {
    throw new RemoteFailure(
      `${host} gave no log-probabilities of the candidate back. Remove its member, or let it only judge.`,
    );
  }
  return scoreOf(own, count);
}

/**
 * Characters that a token may lie behind the one before it: one that servers strip white space of,
 * or that follows parts of characters.
 */
const gap = 16;

/**
 * Where in the prompt each token stands. By their texts: the offsets that servers tell count a
 * first token that is in no prompt, and each part of a character as a whole one. What is not found
 * stands between its neighbours.
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

/** A grammar that lets nothing but these tokens be written, and the answer end behind them. */
export const forcing = (tokens: readonly number[]): string =>
  `root ::= ${tokens.length === 0 ? '""' : tokens.map((token) => `<[${token}]>`).join(" ")}`;

/**
 * Behind them a server ends by whichever of its end tokens is likeliest: this leaves the one that
 * closes a turn. Logits are some tens apart.
 */
export const endingBy = (token: number | undefined): object =>
  token === undefined ? {} : { logit_bias: [[token, 10_000]] };

/**
 * The score of tokens that were forced; the one that ended the answer counts where `scoresEnd` says
 * so.
 */
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

/** Whether a candidate is scored on what closes a turn as well. */
export const scoresEnd = ({ text, ended }: Candidate, scoreEnd: boolean): boolean =>
  text === "" || (ended && scoreEnd);
