/**
 * Scores from servers' responses, in their formats: recorded from llama.cpp's server (xllamacpp
 * 2026.10), and as in the sources of vLLM and llama-cpp-python.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { RemoteFailure } from "../../protocol/errors.ts";
import { choicesOf, echoed, endingBy, forced, forcing, scoreOf } from "./logprobs.ts";

const close = (a: number | undefined, b: number): void =>
  assert.ok(Math.abs((a ?? Number.NaN) - b) < 1e-9, `${a} is not ${b}`);
/** −ln(1 + Σ (1/p − 1)) by definition, without care for overflow. */
const harmonic = (logprobs: number[]): number =>
  -Math.log(1 + logprobs.reduce((sum, logprob) => sum + Math.exp(-logprob) - 1, 0));

test("a score is the mean of the log-probabilities, and −ln of the sum of one over each", () => {
  const score = scoreOf([-0.5, -2, -0.1], 3);
  close(score.meanLogprob, -2.6 / 3);
  close(score.harmonic, harmonic([-0.5, -2, -0.1]));
  const impossible = scoreOf([Number.NEGATIVE_INFINITY, -1], 2);
  assert.ok(
    Number.isFinite(impossible.harmonic) &&
      impossible.harmonic! < -600 &&
      Number.isFinite(impossible.meanLogprob),
  );
  close(scoreOf([0.001], 1).meanLogprob, 0);
});

const prefix = "<s>Hi 👋<a>";
const echo = (
  tokens: string[],
  logprobs: (number | null)[],
  offsets?: number[],
): Record<string, unknown> => ({
  logprobs: { tokens, token_logprobs: logprobs, ...(offsets && { text_offset: offsets }) },
});

test("an echo's tokens behind the prefix are the candidate's, those generated after it not", () => {
  const tokens = ["<s>", "Hi", " 👋", "<a>", " one", " two", " three"];
  const score = echoed(
    echo(tokens, [null, -1, -1, -1, -0.25, -0.5, -9]),
    prefix,
    " one two",
    "",
    "host",
  );
  assert.equal(score.tokens, 2);
  close(score.harmonic, harmonic([-0.25, -0.5]));
});

test("what closes a turn counts, if asked, with its first token, not among the tokens", () => {
  const tokens = ["<s>", "Hi", " 👋", "<a>", " one", "</", "s>", "x"];
  const logprobs = [null, -1, -1, -1, -0.25, -0.5, -9, -9];
  const score = echoed(echo(tokens, logprobs), prefix, " one", "</s>", "host");
  assert.equal(score.tokens, 1);
  close(score.meanLogprob, -0.375);
  const alone = echoed(
    echo(tokens.toSpliced(4, 1), logprobs.toSpliced(4, 1)),
    prefix,
    "",
    "</s>",
    "host",
  );
  assert.deepEqual([alone.tokens, alone.meanLogprob], [0, -0.5]);
});

test("a first token that the server adds, and tokens of parts of characters, move nothing", () => {
  const added = echoed(
    echo(["<bos>", "<s>", "Hi", " 👋", "<a>", " one", "x"], [null, -1, -1, -1, -1, -0.25, -9]),
    prefix,
    " one",
    "",
    "host",
  );
  close(added.meanLogprob, -0.25);
  // Parts of a character have no text of their own; some servers strip white space of tokens.
  const halves = echoed(
    echo(
      ["<s>", "Hi", " \ufffd", "\ufffd", "\ufffd", "<a>", "one", "x"],
      [null, -1, -1, -1, -1, -1, -0.25, -9],
    ),
    prefix,
    " one",
    "",
    "host",
  );
  close(halves.meanLogprob, -0.25);
  const emoji = echoed(
    echo(
      ["<s>", "Hi", " \ufffd", "\ufffd", "<a>", " \ufffd", "\ufffd", "!", "x"],
      [null, -1, -1, -1, -1, -0.25, -0.5, -0.75, -9],
    ),
    prefix,
    " 👋!",
    "",
    "host",
  );
  assert.equal(emoji.tokens, 3);
  close(emoji.meanLogprob, -0.5);
});

test("a token that reaches over the seam counts as the candidate's", () => {
  close(
    echoed(
      echo(["<s>", "Hi", " 👋<a> on", "e", "x"], [null, -1, -0.75, -0.25, -9]),
      prefix,
      " one",
      "",
      "host",
    ).meanLogprob,
    -0.5,
  );
});

test("an answer without an echo, lists of two lengths and false numbers are refused", () => {
  const wrong = [
    echo(["x"], [-1]),
    echo(["<s>", "Hi", " 👋", "<a>", " one"], [-1]),
    { logprobs: null },
    {},
    { logprobs: { tokens: [], token_logprobs: [] } },
    { logprobs: { tokens: ["x"], token_logprobs: ["-1"] } },
  ];
  for (const choice of wrong)
    assert.throws(
      () => echoed(choice, prefix, " one", "", "host"),
      RemoteFailure,
      JSON.stringify(choice),
    );
});

// Recorded: Ada's file, "The answer" after a question, by the grammar `<[56]> <[274]> <[262]>
// <[271]>`.
const recorded = {
  text: "The answer",
  logprobs: {
    content: [
      { id: 56, token: "T", bytes: [84], logprob: -17.677507400512695 },
      { id: 274, token: "he", bytes: [104, 101], logprob: -8.831435203552246 },
      { id: 262, token: " a", bytes: [32, 97], logprob: -9.777972221374512 },
      { id: 271, token: "nswer", bytes: [110, 115, 119, 101, 114], logprob: -9.797082901000977 },
      { id: 1, token: "", bytes: [], logprob: -1.2071208953857422 },
    ],
  },
};

test("forced tokens are scored as written, the one behind them where the answer is to end", () => {
  const tokens = [56, 274, 262, 271];
  assert.equal(forcing(tokens), "root ::= <[56]> <[274]> <[262]> <[271]>");
  const own = [-17.677507400512695, -8.831435203552246, -9.777972221374512, -9.797082901000977];
  close(forced(recorded, tokens, false, "host").harmonic, harmonic(own));
  const ended = forced(recorded, tokens, true, "host");
  close(ended.harmonic, harmonic([...own, -1.2071208953857422]));
  assert.equal(ended.tokens, 4);
  assert.deepEqual([endingBy(1), endingBy(undefined)], [{ logit_bias: [[1, 10_000]] }, {}]);
});

test("a server that wrote something else than it was told is refused", () => {
  assert.throws(() => forced(recorded, [56, 274, 262, 272], false, "host"), /did not write/);
  assert.throws(() => forced(recorded, [56, 274, 262, 271, 9], true, "host"), /did not write/);
});

test("choices come in order of their index, and as many as were asked for", () => {
  assert.deepEqual(
    choicesOf(
      {
        choices: [
          { index: 1, text: "b" },
          { index: 0, text: "a" },
        ],
      },
      2,
      "host",
    ).map(({ text }) => text),
    ["a", "b"],
  );
  assert.throws(() => choicesOf({ choices: [{ index: 0 }] }, 2, "host"), RemoteFailure);
  for (const answer of [null, [], "x", {}, { choices: {} }, { choices: [null] }])
    assert.throws(() => choicesOf(answer, 1, "host"), RemoteFailure);
});
