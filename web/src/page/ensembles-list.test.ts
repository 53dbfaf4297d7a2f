/** Whether an ensemble of the catalogue fits beside what is stored. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { StoredModel } from "../library/conclave.ts";
import { parseCatalogue } from "./catalogue.ts";
import { needOf, verdictOn } from "./ensembles-list.ts";
import type { Machine } from "./fit.ts";

const json = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}catalogue.json`, "utf8");
const [first] = parseCatalogue(JSON.parse(json))[0]!.members;
const { ref, bytes } = first!;
const machine: Machine = { backend: "webgpu", cores: 8, free: 1e6, deviceMemory: 8 };

/** The catalogue's first model with a tenth of it stored. */
const partial = (toReserve: number): StoredModel => ({
  ref,
  from: "https://hub.example",
  commit: null,
  files: [{ name: "model.gguf", bytes }],
  bytes,
  stored: bytes / 10,
  toReserve,
  complete: false,
  prompts: 0,
});

test("a download that was begun takes no more room than it has reserved", () => {
  const context = (stored: StoredModel[]) => ({ machine, roomOf: () => 1024, stored });
  const only = [first!];
  assert.equal(verdictOn(only, context([]))?.tone, "no");
  assert.equal(verdictOn(only, context([partial(bytes)]))?.tone, "no");
  assert.notEqual(verdictOn(only, context([partial(0)]))?.tone, "no");
  const { missing } = needOf({ members: only }, context([partial(0)]));
  assert.equal(missing, bytes - bytes / 10, "it has to be fetched nevertheless");
});
