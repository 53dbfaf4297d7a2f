/** Writes a random model of the bench to a file. */
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { RandomModel } from "../../src/bench/random-model.ts";
import { shapes, type BlockFormat } from "../../src/bench/shapes.ts";

const piece = 16 << 20;

/** Throws a RangeError for an unknown shape. */
export async function writeModel(
  name: string,
  format: BlockFormat,
  seed: number,
  file: string,
): Promise<void> {
  const shape = shapes.find((candidate) => candidate.name === name);
  if (!shape)
    throw new RangeError(
      `there is no shape ${name}; take one of ${shapes.map((known) => known.name).join(", ")}`,
    );
  const model = new RandomModel(shape, format, seed);
  const { bytes } = model.files[0]!;
  mkdirSync(dirname(file), { recursive: true });
  // Written under another name first, so that an interrupted run leaves no partial model.
  const out = openSync(`${file}.part`, "w");
  for (let offset = 0; offset < bytes; offset += piece)
    writeSync(out, await model.read(0, offset, Math.min(piece, bytes - offset)));
  closeSync(out);
  renameSync(`${file}.part`, file);
}
