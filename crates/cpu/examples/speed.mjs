// Times the module of speed.rs in CPU time: `node speed.mjs speed.wasm`.
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const { prepare, products, attention } = instance.exports;

/** CPU time of a run in ms: the least of three tens, once the compiler has had its time. */
function least(run) {
  const ten = () => {
    for (let i = 0; i < 10; i++) run();
  };
  ten();
  const times = Array.from({ length: 3 }, () => {
    const begin = process.cpuUsage();
    ten();
    return process.cpuUsage(begin).user / 10_000;
  });
  return Math.min(...times).toFixed(2);
}

const formats = {
  F32: 0, F16: 1, BF16: 30, Q8_0: 8, Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, IQ4_NL: 20, MXFP4: 39,
  Q2_K: 10, Q3_K: 11, Q4_K: 12, Q5_K: 13, Q6_K: 14, IQ4_XS: 23,
};
for (const [format, type] of Object.entries(formats)) {
  prepare(type);
  for (const tokens of [1, 20, 64]) {
    console.log(`${format} products of ${tokens} tokens: ${least(() => products(tokens))} ms`);
  }
}
for (const [tokens, prefix] of [[1, 128], [1, 1024], [1, 4096], [20, 128], [20, 1024]]) {
  console.log(`attention of ${tokens} tokens after ${prefix}: ${least(() => attention(tokens, prefix))} ms`);
}
