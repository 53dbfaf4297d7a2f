import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { memoryOf, parseCatalogue } from "./catalogue.ts";

const json = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}catalogue.json`, "utf8");
const ensembles = parseCatalogue(JSON.parse(json));
const models = new Map(
  ensembles.flatMap(({ members }) => members).map((member) => [member.name, member]),
);

test("every ensemble joins two to eight models of two or more families, files of the hub", () => {
  for (const { name, members } of ensembles) {
    assert.ok(new Set(members.map(({ family }) => family)).size >= 2, `${name} is of one family`);
    for (const member of members) {
      assert.match(member.ref, /^hf:[\w.-]+\/[\w.-]+\/[\w.-]+\.gguf$/);
      assert.match(
        member.ref.toLowerCase(),
        new RegExp(`[-.]${member.format.toLowerCase()}\\.gguf$`),
        `${member.name} says its format`,
      );
    }
  }
  assert.ok([...models.values()].length >= 12);
});

test("the file sizes it gives come within 1.5 % of the hub's", () => {
  const known: [string, number][] = [
    ["SmolLM2 135M", 144_811_360],
    ["SmolLM2 360M", 386_404_992],
    ["Qwen2.5 Coder 1.5B", 1_117_320_768],
    ["Qwen2.5 0.5B", 675_710_816],
    ["Qwen3 0.6B", 639_446_688],
    ["Qwen3 1.7B", 1_834_426_016],
    ["Qwen3 4B", 2_497_281_120],
    ["Gemma 3 270M", 291_545_600],
    ["Llama 3.2 3B", 2_019_377_696],
    ["Phi-4 mini", 2_491_874_272],
    ["SmolLM3 3B", 1_915_305_312],
    ["OLMo 2 1B", 935_515_296],
    ["Granite 3.3 2B", 1_545_303_328],
  ];
  for (const [name, bytes] of known) {
    const given = (models.get(name) ?? assert.fail(`the catalogue lacks ${name}`)).bytes;
    assert.ok(Math.abs(given / bytes - 1) < 0.015, `${name}: ${given} are given, ${bytes} there`);
  }
});

test("memory grows with the context up to the model's own; on the CPU six bits take eight", () => {
  const olmo = models.get("OLMo 2 1B")!;
  const short = memoryOf(olmo, 1024, "webgpu");
  const long = memoryOf(olmo, 4096, "webgpu");
  // 128 numbers of 16 bits a head, and a scale of 16 bits for each eight.
  assert.equal(long.kv - short.kv, 2 * 16 * 3072 * 16 * (128 * 2 + 16 * 2));
  assert.equal(long.weights - short.weights, 4 * 3072 * 128, "the rotary table");
  assert.deepEqual(memoryOf(olmo, 1e6, "webgpu"), long);
  const cpu = memoryOf(olmo, 1024, "cpu");
  assert.ok(cpu.weights > short.weights && cpu.weights < short.weights * 1.25);
  assert.ok(Math.abs(cpu.kv / short.kv - 1) < 0.02);
});

test("a catalogue with a fault is refused by the place of the fault", () => {
  const broken = (
    change: (data: {
      models: Record<string, { bytes: unknown; memory: { cpu: object } }>;
      ensembles: { members: string[] }[];
    }) => void,
  ): (() => unknown) => {
    const data = JSON.parse(json) as Parameters<typeof change>[0];
    change(data);
    return () => parseCatalogue(data);
  };
  assert.throws(
    broken((data) => (data.models["qwen3-4b"]!.bytes = 0)),
    /models\.qwen3-4b\.bytes.*from 1/,
  );
  assert.throws(
    broken((data) => (data.models["qwen3-4b"]!.memory.cpu = {})),
    /models\.qwen3-4b\.memory\.cpu\.weights/,
  );
  assert.throws(
    broken((data) => data.ensembles[0]!.members.push("nobody")),
    /Starter names nobody/,
  );
  assert.throws(
    broken((data) => (data.ensembles[0]!.members.length = 1)),
    /Starter has 1 members/,
  );
  assert.throws(() => parseCatalogue([]), /catalogue/);
});
