import assert from "node:assert/strict";
import { test } from "node:test";
import type { Script } from "../testing/scripted.ts";
import { hello, open } from "../testing/staged.ts";
import { cost, eachAlone, strongest, type Alone } from "./alone.ts";

const says = (text: string, failure?: Script["failure"]): Script => ({
  drafts: [
    { text, ended: false },
    { text: ".", ended: true },
  ],
  taste: () => 1,
  ...(failure && { failure }),
});
const summary = ({ member, ...what }: Alone): string => {
  if ("error" in what) return `${member} ${what.error.kind}`;
  const { event } = what;
  return `${member} ${event.type === "round" ? event.text : event.type}`;
};

async function play(
  scripts: Record<string, Script>,
  onStep: (step: Alone, stop: () => void) => void = () => {},
): Promise<{ steps: Alone[]; journal: string[] }> {
  const { conclave, journal } = await open(scripts);
  const controller = new AbortController();
  const steps: Alone[] = [];
  for await (const step of eachAlone(
    conclave,
    { messages: hello, members: Object.keys(scripts), sampling: { seed: 7 } },
    controller.signal,
  )) {
    steps.push(step);
    onStep(step, () => controller.abort());
  }
  return { steps, journal };
}

test("members answer alone one after the other, each from the same question", async () => {
  const { steps, journal } = await play({ Ada: says("a"), Bo: says("b") });
  assert.deepEqual(steps.map(summary), [
    "0 reading",
    "0 begin",
    "0 a",
    "0 .",
    "0 end",
    "1 reading",
    "1 begin",
    "1 b",
    "1 .",
    "1 end",
  ]);
  const begun = steps.flatMap((step) =>
    "event" in step && step.event.type === "begin" ? [step.event] : [],
  );
  assert.deepEqual(
    begun.map(({ members, sampling }) => [members, sampling.seed]),
    [
      [["Ada"], 7],
      [["Bo"], 7],
    ],
  );
  assert.ok(journal.lastIndexOf("Ada keep 0") < journal.indexOf("Bo begin"), "never two at once");
});

test("a stop ends the one that answers, and nobody is asked after it", async () => {
  const { steps, journal } = await play(
    { Ada: says("a"), Bo: says("b") },
    (step, stop) => summary(step) === "0 a" && stop(),
  );
  assert.equal(summary(steps.at(-1)!), "0 end");
  const last = steps.at(-1)!;
  assert.equal("event" in last && last.event.type === "end" && last.event.stop, "stopped");
  assert.ok(!journal.includes("Bo begin"));
});

test("who fails leaves the others their turn, unless the engine has failed", async () => {
  const failing = (name: string): Script =>
    says("a", { move: "draft", call: 2, error: Object.assign(new Error("It failed."), { name }) });
  const one = await play({ Ada: failing("Template"), Bo: says("b") });
  assert.deepEqual(one.steps.map(summary).slice(2), [
    "0 a",
    "0 Template",
    "1 reading",
    "1 begin",
    "1 b",
    "1 .",
    "1 end",
  ]);
  const all = await play({ Ada: failing("DeviceLost"), Bo: says("b") });
  assert.deepEqual(all.steps.map(summary).slice(2), ["0 a", "0 DeviceLost"]);
});

test("what an answer cost is the tokens taken and the time of the rounds", () => {
  const round = (winner: number, tokens: number[], draft: number, verify: number) => ({
    winner,
    candidates: tokens.map((tokens) => ({ member: "Ada", text: "", ended: false, tokens })),
    ms: { draft, verify },
  });
  assert.equal(
    cost([round(1, [9, 4], 1000, 200), round(0, [3, 100], 300, 0)]),
    "7 tokens in 1.5 s",
  );
  assert.equal(cost([]), "0 tokens in 0 ms");
});

test("the strongest member is the one most trusted at the start, of those that draft", () => {
  const drafted = (...drafters: number[]) => [{ drafters }];
  assert.equal(strongest({ strengths: [2, 5, 3] }, drafted(0, 1, 2)), 1);
  assert.equal(strongest({ strengths: [2, 5, 3] }, [...drafted(2), ...drafted(0)]), 2, "a judge");
  assert.equal(strongest({ strengths: [2, null, 3] }, drafted(0, 1, 2)), 1, "of unknown strength");
  assert.equal(strongest({ strengths: [4, 4, 4] }, drafted(2, 1)), 1, "the first of equals");
  assert.equal(strongest(undefined, drafted(0, 1)), 0);
  assert.equal(strongest({ strengths: [1, 2] }, []), undefined);
});
