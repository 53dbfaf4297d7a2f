/**
 * Where an answer ends by its tokens and by texts to stop before, however those fall into segments.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Ending, type Limits } from "./ending.ts";

/**
 * What is told of these segments, a token a character, one after the other; `|` stands between
 * them.
 */
function told(segments: string[], limits: Limits): string {
  const ending = new Ending(limits);
  const texts: string[] = [];
  for (const segment of segments) {
    const { text, over } = ending.take(segment, segment.length);
    texts.push(text);
    if (over) return `${texts.join("|")}|${ending.rest()} ${over}`;
  }
  return `${texts.join("|")}|${ending.rest()}`;
}

test("an answer ends before a text, wherever segments part it", () => {
  const stop = ["\n\n", "User:"];
  assert.equal(told(["one two", " three"], { stop }), "one two| three|");
  assert.equal(told(["one\n\ntwo"], { stop }), "one| stop");
  assert.equal(told(["one\n", "\ntwo"], { stop }), "one|| stop");
  assert.equal(told(["one\n", "two"], { stop }), "one|\ntwo|");
  assert.equal(told(["one Us", "er", ": two"], { stop }), "one ||| stop");
  assert.equal(told(["one User:\n\n"], { stop }), "one | stop", "the first of several");
  assert.equal(
    told(["one\n"], { stop }),
    "one|\n",
    "what was held back is in the answer after all",
  );
  assert.equal(told(["aaab"], { stop: ["aab"] }), "a| stop");
  assert.equal(told(["aa", "ab"], { stop: ["aab"] }), "|a| stop");
});

test("segments are as short as the tokens that are left, and the last one ends the answer", () => {
  const ending = new Ending({ maxTokens: 12 });
  assert.equal(ending.most(10), 10);
  assert.deepEqual(ending.take("ten tokens", 10), { text: "ten tokens", over: undefined });
  assert.equal(ending.most(10), 2);
  assert.deepEqual(ending.take("!!", 2), { text: "!!", over: "tokens" });
  assert.equal(ending.tokens, 12);
  assert.equal(new Ending({}).most(10), 10);
});
