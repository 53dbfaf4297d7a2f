import assert from "node:assert/strict";
import { test } from "node:test";
import { headlineOf } from "./headline.ts";
import type { MemberReport } from "./report.ts";

const adapter = { name: "a GPU", software: false };
const member = (name: string, prefix: number, ms: number | null): MemberReport =>
  ({
    name,
    prefix,
    draftStep: { ms: ms && { median: ms, low: 0.8 * ms, high: 1.25 * ms, count: 5 } },
  }) as MemberReport;
const smol = {
  models: "SmolLM2-135M",
  format: "Q8_0",
  members: [member("SmolLM2-135M 1", 512, 50), member("SmolLM2-135M 1", 64, 32)],
};

test("the headline tells words a second of the first member, after the shortest prefix", () => {
  assert.deepEqual(headlineOf(smol, { backend: "webgpu", adapter }), {
    text: "SmolLM2 135M: 23 words a second on this machine's GPU",
    note:
      "Measured: 31 tokens a second (25–39) after 64 tokens, in Q8_0. " +
      "Four tokens make about three English words.",
  });
  const slow = { ...smol, members: [member("SmolLM2-135M 1", 64, 750)] };
  assert.equal(
    headlineOf(slow, { backend: "cpu", adapter })?.text,
    "SmolLM2 135M: 1 word a second on this machine's CPU",
  );
});

test("toys have tokens, not words; without a time there is no headline", () => {
  const toys = { models: "bundled", format: "Q8_0", members: [member("Ada", 64, 2)] };
  assert.equal(
    headlineOf(toys, { backend: "cpu", adapter })?.text,
    "Ada, a toy: 500 tokens a second on this machine's CPU",
  );
  assert.equal(
    headlineOf(smol, { backend: "webgpu", adapter: { ...adapter, software: true } }),
    undefined,
  );
  assert.equal(
    headlineOf({ ...smol, members: [member("a", 64, null)] }, { backend: "cpu", adapter }),
    undefined,
  );
});
