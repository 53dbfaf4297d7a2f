/** Writes a random model to a file, for what reads files: `node write-model.mjs SHAPE FORMAT SEED FILE`. */
import { closeSync, openSync, writeSync } from "node:fs";
import { RandomModel } from "./random-model.ts";
import { shapes, type BlockFormat } from "./shapes.ts";

const [name, format, seed, file] = process.argv.slice(2);
const shape = shapes.find((candidate) => candidate.name === name);
if (!shape || (format !== "Q4_0" && format !== "Q8_0") || file === undefined) {
  throw new Error(`usage: write-model.mjs SHAPE Q4_0|Q8_0 SEED FILE, where SHAPE is one of ${shapes.map((known) => known.name).join(", ")}`);
}
const model = new RandomModel(shape, format satisfies BlockFormat, Number(seed));
const { bytes } = model.files[0]!;
const piece = 16 << 20;
const out = openSync(file, "w");
for (let offset = 0; offset < bytes; offset += piece) writeSync(out, await model.read(0, offset, Math.min(piece, bytes - offset)));
closeSync(out);
