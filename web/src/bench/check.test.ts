import assert from "node:assert/strict";
import { test } from "node:test";
import { compared, tableOf, verdict, type Check } from "./check.ts";

const cpu = new Float32Array([0.5, -8, 4, 3.999]);

test("differences are shares of the largest logit, whatever its sign", () => {
  const member = compared("Ada", 7, {
    fused: new Float32Array([0.5, -8, 4, 4.007]),
    burn: new Float32Array([0.5, -7.6, 4, 3.999]),
    cpu,
  });
  assert.deepEqual([member.tokens, member.largest], [7, 8]);
  assert.ok(
    Math.abs(member.fused! - 0.001) < 1e-6 && Math.abs(member.burn! - 0.05) < 1e-6,
    JSON.stringify(member),
  );
  assert.deepEqual(member.likeliest, { fused: 3, burn: 2, cpu: 2 });
});

test("what is no number agrees with nothing", () => {
  const broken = compared("Ada", 7, { fused: new Float32Array([NaN, -8, 4, 4]), burn: cpu, cpu });
  assert.deepEqual([broken.fused, broken.burn], [null, 0]);
  assert.match(tableOf({ adapter: "a GPU", members: [broken] }).rows[0]!.join(" "), /no number/);
  assert.throws(() => compared("Ada", 7, { fused: cpu.slice(1), burn: cpu, cpu }), RangeError);
  assert.throws(
    () => compared("Ada", 7, { fused: cpu, burn: cpu, cpu: new Float32Array([NaN, 1, 1, 1]) }),
    /no logits on the CPU/,
  );
});

test("the verdict names the engine that is wrong, in any member", () => {
  const check = (fused: number | null, burn: number | null): Check => {
    const right = {
      name: "Ada",
      tokens: 1,
      largest: 8,
      likeliest: { fused: 1, burn: 1, cpu: 1 },
      fused: 1e-5,
      burn: 1e-5,
    };
    return { adapter: "a GPU", members: [right, { ...right, fused, burn }] };
  };
  assert.match(verdict(check(2e-3, 1e-4)), /computes correctly/);
  assert.match(verdict(check(3e-3, 1e-4)), /fused engine's kernels are wrong/);
  assert.match(verdict(check(1e-4, null)), /open core is wrong/);
  assert.match(verdict(check(null, 1)), /driver computes wrongly, or a kernel that they share/);
  assert.throws(() => verdict({ adapter: "a GPU", members: [] }), RangeError);
});
