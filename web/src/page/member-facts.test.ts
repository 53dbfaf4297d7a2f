import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import type { About } from "../protocol/engine.ts";
import type { MemberSource } from "../protocol/messages.ts";
import {
  description,
  facts,
  familyName,
  formats,
  graphicsMemory,
  memoryTogether,
  whereabouts,
} from "./member-facts.ts";

const about = (stored: [string, string | null][], change: Partial<About> = {}): About => ({
  name: "a",
  architecture: "llama",
  parameters: 1.5e9,
  quantisation: stored[0]?.[0] ?? "F32",
  bytes: 9e8,
  context: 1024,
  vocabulary: 1,
  layers: 1,
  hidden: 1,
  template: true,
  formats: stored.map(([stored, kept]) => ({ stored, kept })),
  memory: { weights: 1e9, kv: 2e8, scratch: 4e7 },
  core: "fused",
  ...change,
});
const source = { name: "a" };

test("formats are told as stored, and what the engine keeps otherwise is not passed over", () => {
  const mixture = about([
    ["Q4_K", "Q4_K"],
    ["Q6_K", "Q6_K"],
    ["Q5_K", "Q8_0"],
    ["Q5_0", "Q8_0"],
    ["Q3_K", "Q6_K"],
  ]);
  assert.equal(formats(mixture), "Q4_K, Q6_K; Q5_K, Q5_0 kept as Q8_0; Q3_K kept as Q6_K");
  assert.equal(formats(about([["BF16", "Q8_0"]])), "BF16 kept as Q8_0");
  assert.equal(
    formats(
      about([
        ["Q8_0", "Q8_0"],
        ["Q8_0", "F32"],
      ]),
    ),
    "Q8_0; Q8_0 kept as F32",
    "rows that do not fit its blocks",
  );
  assert.equal(formats(about([["Q8_0", null]])), "Q8_0");
  assert.equal(formats(about([])), "F32", "nothing but vectors");
});

test("a member's line says what is known of it", () => {
  assert.equal(facts({ source: { ...source, bytes: 9e8 } }), "900\u00a0MB");
  assert.equal(
    facts({ source, about: about([["Q8_0", "Q8_0"]]), backend: "webgpu" }),
    "1.5\u00a0G\u00a0parameters · 900\u00a0MB · Llama model, its numbers in Q8_0",
  );
  assert.equal(
    facts({ source, about: about([["Q8_0", "Q8_0"]], { core: "burn" }) }),
    "1.5\u00a0G\u00a0parameters · 900\u00a0MB · Llama model, " +
      "its numbers in Q8_0 · runs on the open core",
  );
  assert.equal(
    facts({ source: { ...source, bytes: 9e8 }, core: "burn" }, 3.8e6),
    "900\u00a0MB · runs on the open core, + 3.8\u00a0MB",
  );
  assert.equal(
    facts({ source: { ...source, bytes: 9e8 }, core: "burn" }),
    "900\u00a0MB · runs on the open core",
    "its module is here",
  );
  assert.equal(facts({ source: { ...source, bytes: 9e8 }, core: "fused" }, 3.8e6), "900\u00a0MB");
});

test("each family that the engine knows has a name, not its file's identifier", () => {
  const folder = `${process.env["CONCLAVE_WEB"] ?? "./"}../crates/model/src/families/`;
  const names = readdirSync(folder).flatMap((file) =>
    [...readFileSync(folder + file, "utf8").matchAll(/^ {4}gguf: "(.+)",$/gm)].map(([, id]) => id!),
  );
  assert.equal(names.length, 22);
  for (const name of names) assert.match(familyName(name), /^[A-Z]/, name);
  assert.equal(familyName("llama"), "Llama");
  assert.equal(familyName("unheard"), "unheard");
});

test("a base model is told from one that was taught to converse, once it is loaded", () => {
  const entry = {
    name: "a",
    file: "a.gguf",
    bytes: 1,
    sha256: "",
    architecture: "llama",
    tokenizer: "",
    skills: [],
    description: "Counts letters.",
  };
  assert.equal(description({ source }), "");
  assert.equal(description({ source, entry, about: about([]) }), "Counts letters.");
  const base =
    "Base model, no chat template: it reads questions with examples and answers in one paragraph.";
  assert.equal(description({ source, about: about([], { template: false }) }), base);
  assert.equal(
    description({ source, entry, about: about([], { template: false }) }),
    `Counts letters. ${base}`,
  );
});

test("graphics memory is told of each and of all, on the GPU only", () => {
  const one = { source, about: about([]), backend: "webgpu" as const };
  assert.equal(graphicsMemory(one), "1.2\u00a0GB of graphics memory");
  assert.equal(graphicsMemory({ ...one, backend: "cpu" }), "");
  assert.equal(
    memoryTogether([one, { source }, one], 5),
    "Together 2.5\u00a0GB of graphics memory: " +
      "weights 2.0\u00a0GB, keys and values 400\u00a0MB, working room 80\u00a0MB.",
  );
  assert.equal(
    memoryTogether([{ ...one, backend: "cpu" }], 2e8),
    "Loaded, they hold 200\u00a0MB of memory.",
  );
  assert.equal(memoryTogether([{ source }], 2e8), "");
});

test("who hears what is asked is named wherever members are elsewhere", () => {
  const far = (host: string): { source: MemberSource } => ({
    source: { name: host, remote: `https://${host}/v1` },
  });
  const own = { source: { name: "own", builtIn: true } };
  assert.equal(whereabouts([{ source }], true), "inside this tab");
  assert.equal(whereabouts([{ source }, own], true), "inside this browser");
  assert.equal(whereabouts([{ source }, own]), "here, on this machine. Nothing you type leaves it");
  assert.equal(
    whereabouts([{ source }, far("a.example"), far("b.example"), far("a.example")], true),
    "here and at a.example and b.example: what you ask and what is answered goes there",
  );
  assert.equal(
    whereabouts([far("a.example")]),
    "at a.example: what you ask and what is answered goes there",
  );
});

test("the browser's own model is told as such", () => {
  const known = {
    source: { name: "own", builtIn: true },
    about: about([], {
      remote: { host: "", model: "LanguageModel", can: "judges only", note: "" },
    }),
  };
  assert.equal(facts(known), "the browser's own model · judges only");
  assert.match(description(known), /stay here/);
});
