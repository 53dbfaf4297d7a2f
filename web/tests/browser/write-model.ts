/**
 * Writes a random model of the bench to a file, for what reads files:
 * `node scripts/test.mjs write-model SHAPE Q4_0|Q8_0 SEED FILE.gguf`.
 */
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { RandomModel } from "../../src/bench/random-model.ts";
import { shapes } from "../../src/bench/shapes.ts";

const piece = 16 << 20;

const [name, format, seed = "1", file] = process.argv.slice(2);
const shape = shapes.find((candidate) => candidate.name === name);
if (!shape || (format !== "Q4_0" && format !== "Q8_0") || file === undefined) {
  throw new Error(`usage: write-model SHAPE Q4_0|Q8_0 SEED FILE, where SHAPE is one of ${shapes.map((known) => known.name).join(", ")}`);
}
const model = new RandomModel(shape, format, Number(seed));
const { bytes } = model.files[0]!;
mkdirSync(dirname(file), { recursive: true });
// Under another name until it is whole: a run that was stopped leaves no half model to be used.
const out = openSync(`${file}.part`, "w");
for (let offset = 0; offset < bytes; offset += piece) writeSync(out, await model.read(0, offset, Math.min(piece, bytes - offset)));
closeSync(out);
renameSync(`${file}.part`, file);
