import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultPlan, planFrom, planHere, queryOf } from "./plan.ts";

test("a plan's address is read as that plan", () => {
  assert.deepEqual(planFrom(new URLSearchParams(queryOf(defaultPlan))), defaultPlan);
  const other = planFrom(
    new URLSearchParams(
      [
        "backend=cpu",
        "models=bundled,Qwen3-0.6B:Q8_0,files:a-1.Q4.gguf:b.gguf",
        "ensembles=1,5",
        "drafting=all,leader",
        "prefixes=1024,4096",
        "segmentTokens=6",
        "repeats=2",
        "limitSeconds=30",
        "threads=4",
      ].join("&"),
    ),
  );
  assert.deepEqual(other.models.slice(1), [
    { kind: "random", shape: "Qwen3-0.6B", format: "Q8_0" },
    { kind: "files", names: ["a-1.Q4.gguf", "b.gguf"] },
  ]);
  assert.deepEqual(
    [other.ensembles, other.drafting, other.limitSeconds],
    [[1, 5], ["all", "leader"], 30],
  );
  assert.deepEqual(planFrom(new URLSearchParams(queryOf(other))), other);
});

test("what an address leaves out is as this machine is best measured", () => {
  const here = planHere("cpu", 128);
  assert.deepEqual(planFrom(new URLSearchParams(queryOf(here))), here, "within the bounds");
  const asked = planFrom(new URLSearchParams("models=bundled&repeats=2"), here);
  assert.deepEqual(
    [asked.models, asked.repeats, asked.backend, asked.threads],
    [[{ kind: "bundled" }], 2, "cpu", 64],
  );
});

test("what a plan can't have is told", () => {
  for (const query of [
    "models=tiny:Q9",
    "repeats=0",
    "limitSeconds=-1",
    "threads=65",
    "prefixes=128,x",
    "backend=gpu",
    "drafting=nobody",
    "models=files:../a.gguf",
    "models=files:a.gguf:",
    "models=files:a/b.gguf",
  ]) {
    assert.throws(() => planFrom(new URLSearchParams(query)), RangeError, query);
  }
});
