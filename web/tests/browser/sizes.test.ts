/**
 * Download size of a visit: each module as published, without the names for stack traces, with
 * brotli.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { brotliCompressSync, constants } from "node:zlib";
import { takesRelaxedSimd } from "../../src/protocol/relaxed-simd.ts";
import { dist } from "./stage.ts";

/** A module without its custom sections (WebAssembly core, 5.5.3). */
function bare(module: Buffer): Buffer<ArrayBuffer> {
  const kept = [module.subarray(0, 8)];
  for (let at = 8; at < module.length; ) {
    let [size, next, shift] = [0, at + 1, 0];
    for (let more = true; more; shift += 7) {
      const byte = module[next++]!;
      size += (byte & 0x7f) * 2 ** shift;
      more = byte >= 0x80;
    }
    if (module[at] !== 0) kept.push(module.subarray(at, next + size));
    at = next + size;
  }
  return Buffer.concat(kept);
}

const brotli = (data: Buffer): number =>
  brotliCompressSync(data, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }).length;

/** Bytes as hosts send it. */
function sent(file: string): number {
  const module = bare(readFileSync(`${dist}${file}`));
  assert.equal(WebAssembly.validate(module), takesRelaxedSimd() || !file.includes("relaxed"), file);
  return brotli(module);
}

test("the engine is at most 1.2 MB, the open core 2.85, grammars 400 kB, remote members 120", () => {
  const engines = [
    "engine.wasm",
    "engine-relaxed.wasm",
    "engine-shared.wasm",
    "engine-shared-relaxed.wasm",
  ].map(sent);
  const [fused, burn, grammar] = [engines[0]!, sent("open-core.wasm"), sent("grammar.wasm")];
  const remote = sent("remote.wasm");
  for (const engine of engines) assert.ok(engine <= 1.2e6, `${engine} bytes`);
  assert.ok(burn < 2.85e6, `${burn} bytes`);
  assert.ok(grammar <= 4e5 && grammar > 1e5, `${grammar} bytes`);
  assert.ok(remote <= 1.2e5 && remote > 3e4, `${remote} bytes`);
  assert.ok(fused > 5e5 && burn > fused, `${fused} and ${burn} bytes: something is missing`);
});

test("the page's own scripts and style are at most 120 kB before a model", () => {
  const found = new Set<string>();
  const add = (file: string): void => {
    if (found.has(file)) return;
    found.add(file);
    if (!file.endsWith(".js")) return;
    const script = readFileSync(dist + file, "utf8");
    for (const [, other] of script.matchAll(/(?:from|import)\s*"\.\/([\w-]+\.js)"/g)) add(other!);
  };
  const html = readFileSync(`${dist}index.html`, "utf8");
  for (const [, file] of html.matchAll(/(?:src|href)="\.\/([\w-]+\.(?:js|css))"/g)) add(file!);
  assert.ok(found.has("page.js") && found.has("style.css"), [...found].join(", "));
  const bytes = [...found].reduce((sum, file) => sum + brotli(readFileSync(dist + file)), 0);
  assert.ok(bytes <= 120e3, `${bytes} bytes`);
  assert.ok(bytes > 40e3, `${bytes} bytes: something is missing`);
});
