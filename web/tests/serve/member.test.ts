/**
 * `conclave serve` as a member of a page's ensemble, over real HTTP: detected capabilities, drafts
 * and scores. `cargo xtask test --only serve` starts the server and says where it is.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { settings } from "../../src/testing/scripted.ts";
import { RemoteMember } from "../../src/worker/remote/remote-member.ts";

const { CONCLAVE_SERVER: remote, CONCLAVE_KEY: key } = process.env;
assert.ok(
  remote && key,
  "CONCLAVE_SERVER and CONCLAVE_KEY say where the server is: run `cargo xtask test --only serve`",
);
const sampling = { temperature: 0, topP: 1, topK: 0, seed: 1 };
const question = [{ role: "user" as const, content: "What is 347 + 85?" }];
const join = (model?: string): Promise<RemoteMember> =>
  RemoteMember.connect(
    { name: "Far", remote, key, timeout: 60_000, ...(model === undefined ? {} : { model }) },
    new AbortController().signal,
  );

test("an ensemble drafts and scores, without anybody giving its template", async () => {
  const member = await join();
  assert.deepEqual(
    [member.remote.model, member.remote.can, member.remote.note],
    ["conclave", "drafts and scores", ""],
  );
  await member.begin(question, sampling, 1);
  let answer = "";
  for (let round = 0; round < 12; round++) {
    const draft = await member.draft(10);
    assert.ok(draft, "it is not late");
    const [own, wrong] = await member.verify(
      [draft, { text: " unheard of é 🙂", ended: false }],
      settings,
    );
    assert.ok(
      own!.harmonic! < 0 && own!.harmonic! > wrong!.harmonic!,
      JSON.stringify([draft, own, wrong]),
    );
    answer += draft.text;
    await member.keep(0);
    if (draft.ended) break;
  }
  assert.match(answer, /432/);
});

test("an ended candidate is scored on what closes a turn, without text on that alone", async () => {
  const member = await join("Ada");
  await member.begin(question, sampling, 1);
  const text = "347 + 85 = 432";
  const scores = await member.verify(
    [
      { text, ended: false },
      { text, ended: true },
      { text: "", ended: true },
    ],
    { ...settings, scoreEnd: true },
  );
  assert.equal(scores[0]!.tokens, scores[1]!.tokens);
  assert.notEqual(scores[0]!.meanLogprob, scores[1]!.meanLogprob);
  assert.equal(scores[2]!.tokens, 0);
  // An end at the very beginning is improbable.
  assert.ok(scores[2]!.harmonic! < -5, String(scores[2]!.harmonic));
});
