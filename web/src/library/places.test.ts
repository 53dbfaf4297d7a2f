/**
 * Every file of the engine and of the bundled members has an address, beside the scripts or in a
 * named folder.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { takesRelaxedSimd } from "../protocol/relaxed-simd.ts";
import { places, toys } from "./places.ts";

const files = (assets?: string | URL): string[] => {
  const { engine, openCore, grammar, remote } = places(assets);
  return [
    engine.worker,
    engine.wasm,
    openCore.worker,
    openCore.wasm,
    grammar,
    remote,
    ...toys(assets).map(({ url }) => url!),
  ];
};
/** Suffix of the engine's name under this runtime, which may or may not support relaxed SIMD. */
const relaxed = takesRelaxedSimd() ? "-relaxed" : "";
const names = [
  "engine.js",
  `engine${relaxed}.wasm`,
  "open-core.js",
  "open-core.wasm",
  "grammar.wasm",
  "remote.wasm",
  "members/ada.gguf",
  "members/quill.gguf",
  "members/juno.gguf",
];

test("files lie beside the library's script, or below the address that is given", () => {
  assert.deepEqual(
    files(),
    names.map((name) => new URL(`./${name}`, import.meta.url).href),
  );
  for (const assets of [
    "https://host/of/files/",
    "https://host/of/files",
    new URL("https://host/of/files?v=1"),
  ])
    assert.deepEqual(
      files(assets),
      names.map((name) => `https://host/of/files/${name}`),
      String(assets),
    );
});

test("bundled members come with their names, sizes and hashes", () => {
  assert.deepEqual(
    toys().map(({ name }) => name),
    ["Ada", "Quill", "Juno"],
  );
  for (const { bytes, sha256 } of toys()) assert.ok(bytes! > 1e6 && /^[0-9a-f]{64}$/.test(sha256!));
});

test("a page isolated from other origins starts the engine for shared memory", (context) => {
  const page = globalThis as { crossOriginIsolated?: boolean };
  page.crossOriginIsolated = true;
  context.after(() => delete page.crossOriginIsolated);
  assert.deepEqual(places("https://host/").engine, {
    worker: "https://host/engine-shared.js",
    wasm: `https://host/engine-shared${relaxed}.wasm`,
  });
});
