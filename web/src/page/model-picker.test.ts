/** The models that the first press offers suit the machine. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseCatalogue } from "./catalogue.ts";
import { badge, type Machine } from "./fit.ts";
import { recommended, type PickerContext } from "./model-picker.ts";

const json = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}catalogue.json`, "utf8");
const ensembles = parseCatalogue(JSON.parse(json));
const gpu: Machine = { backend: "webgpu", cores: 8, free: 50e9, deviceMemory: 8 };
const offered = (machine: Partial<Machine>, among = ensembles): string | undefined => {
  const context: PickerContext = {
    machine: { ...gpu, ...machine },
    roomOf: () => 1024,
    stored: [],
    host: "hub.example",
    onEnsemble: () => undefined,
  };
  return recommended(among, context)?.name;
};

test("of what fits and comes in minutes the largest measured set is offered, or the least", () => {
  assert.equal(offered({}), "Starter");
  assert.equal(offered({ backend: "cpu" }), "Starter");
  assert.equal(offered({ free: 5e8 }), "Starter", "nothing fits");
});

test("without a measured set the largest is offered", () => {
  const unmeasured = ensembles.filter(({ measured }) => measured === undefined);
  assert.equal(offered({}, unmeasured), "Pocket");
  assert.equal(offered({ backend: "cpu" }, unmeasured), "Thimble", "larger ones are slow there");
  assert.equal(offered({ free: 1e9 }, unmeasured), "Thimble", "the disk has no room for more");
  assert.equal(offered({ free: 1e6 }, unmeasured), "Thimble", "nothing fits");
});

test("a badge says whether a model fits", () => {
  assert.equal(badge(undefined), "fits");
  assert.equal(badge({ tone: "no", text: "" }), "too large here");
  assert.equal(badge({ tone: "warning", text: "" }), "may be too large");
});
