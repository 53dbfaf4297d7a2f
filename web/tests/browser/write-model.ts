/**
 * `node scripts/test.mjs write-model SHAPE Q4_0|Q8_0 SEED FILE.gguf` writes a random model of the
 * bench.
 */
import { formats } from "../../src/bench/plan.ts";
import { writeModel } from "./random-file.ts";

const [name, wanted, seed = "1", file] = process.argv.slice(2);
const format = formats.find((candidate) => candidate === wanted);
if (name === undefined || !format || file === undefined)
  throw new Error(`usage: write-model SHAPE ${formats.join("|")} SEED FILE`);
await writeModel(name, format, Number(seed), file);
