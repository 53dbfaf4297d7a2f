/** Progress of a load as one number. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Progress } from "../protocol/messages.ts";
import { file, stage, talker } from "../testing/staged.ts";
import { Conclave, type MemberSource } from "./conclave.ts";
import { Share } from "./share.ts";

function followed(...sources: MemberSource[]) {
  const told: number[] = [];
  let now = 0;
  const share = new Share(
    (share) => told.push(Math.round(share * 1000) / 1000),
    () => now,
  );
  share.await(sources);
  /** Reports a member's progress so many milliseconds later. */
  const tell = (
    name: string,
    phase: Progress["phase"],
    loaded: number,
    total: number,
    later = 100,
  ): void => {
    now += later;
    share.member(name, { phase, loaded, total });
  };
  const later = (then: () => void): void => {
    now += 100;
    then();
  };
  return { told, share, tell, later };
}

test("the engine and all members count by their bytes, and the number never falls", () => {
  const { told, share, tell, later } = followed(
    { name: "Ada", ref: "hf:a/b/c.gguf" },
    { name: "Bo", bytes: 1.5e6, url: "./bo.gguf" },
  );
  // Bo's size is known, Ada's is not.
  tell("Ada", "checking", 0, 0);
  later(() => share.opened());
  assert.deepEqual(told, [0, 0.25], "half of what is known, which is half of the members");
  tell("Ada", "downloading", 0, 3e6);
  assert.deepEqual(told.at(-1), 0.25, "it has not fallen");
  tell("Ada", "downloading", 1.5e6, 3e6);
  assert.equal(told.at(-1), 0.475);
  tell("Ada", "downloading", 1.2e6, 3e6);
  tell("Bo", "downloading", 1.5e6, 1.5e6);
  assert.equal(told.at(-1), 0.655);
  tell("Ada", "downloading", 3e6, 3e6);
  tell("Ada", "verifying", 0, 3e6);
  tell("Ada", "loading", 1.5e6, 3e6);
  later(() => share.added("Ada"));
  later(() => share.added("Bo"));
  assert.equal(told.at(-1), 0.99);
  later(() => share.done());
  assert.equal(told.at(-1), 1);
  assert.ok(
    told.every((each, index) => index === 0 || each > told[index - 1]!),
    told.join(", "),
  );
});

test("a model that is stored counts by its way to the engine", () => {
  const { told, tell } = followed({ name: "Ada", ref: "hf:a/b/c.gguf" });
  tell("Ada", "loading", 1.5e6, 3e6);
  assert.equal(told.at(-1), 0.333);
});

test("it is told ten times a second at most", () => {
  const { told, tell } = followed({ name: "Ada", bytes: 1e6, ref: "hf:a/b/c.gguf" });
  for (let loaded = 1; loaded <= 1000; loaded++) tell("Ada", "downloading", loaded * 1000, 1e6, 1);
  assert.equal(told.length, 11, told.join(", "));
});

test("a load tells 0 first and 1 last, and a load that fails never 1", async () => {
  const told: number[] = [];
  const members = ["Ada", "Bo"].map((name) => ({ name, files: [file] }));
  await Conclave.load(
    { backend: "cpu", members, onShare: (share) => told.push(share) },
    stage({ Ada: talker, Bo: talker }).port,
  );
  assert.deepEqual([told[0], told.at(-1)], [0, 1]);
  const failed: number[] = [];
  const broken = [...members.slice(0, 1), { name: "Bo", files: [new Blob(["nothing"])] }];
  await assert.rejects(
    Conclave.load(
      { backend: "cpu", members: broken, onShare: (share) => failed.push(share) },
      stage({ Ada: talker, Bo: talker }).port,
    ),
  );
  assert.ok(!failed.includes(1));
});
