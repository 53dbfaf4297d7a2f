/**
 * A model of a gigabyte goes to the GPU in pieces: the module's memory, which never shrinks, hardly
 * grows.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { writeModel } from "./generated-model.ts";
import { stage } from "./stage.ts";

const stand = stage("swiftshader");
const mebibyte = 1 << 20;
/** As wide as Llama 3.2 1B, with its vocabulary. */
const shape = {
  layers: 12,
  hidden: 2048,
  heads: 32,
  kvHeads: 8,
  feedForward: 8192,
  vocabulary: 128_256,
};

test("loading 1 GB from a file grows the module's memory by 17 MiB at most", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "conclave-heap-"));
  const visitor = await stand.arrive();
  try {
    const path = join(folder, "large.gguf");
    const size = await writeModel(path, shape);
    assert.ok(size >= 1e9, `${size} bytes`);
    const { page } = visitor;
    await visitor.offer(path);
    const seen = await page.evaluate(async () => {
      const { Conclave } = (await import(
        new URL("./library/conclave.js", document.baseURI).href
      )) as typeof import("../../src/library/conclave.ts");
      const conclave = await Conclave.open({ backend: "webgpu" });
      await conclave.add(
        { name: "Small", url: new URL("./members/ada.gguf", document.baseURI).href },
        {},
      );
      const before = conclave.heapBytes;
      const files = [...(document.querySelector("#offered") as HTMLInputElement).files!];
      const steps: [number, number][] = [];
      const about = await conclave.add(
        { name: "Large", files },
        {
          contextTokens: 512,
          onProgress: ({ loaded, total }) => void steps.push([loaded, total]),
        },
      );
      const after = conclave.heapBytes;
      conclave.close();
      return { before, after, bytes: about.bytes, weights: about.memory.weights, steps };
    });
    const grown = seen.after - seen.before;
    const [by, from] = [grown, seen.before].map((bytes) => (bytes / mebibyte).toFixed(1));
    context.diagnostic(`${size} bytes loaded: the module's memory grew by ${by} MiB, from ${from}`);
    assert.ok(seen.bytes > 0.99e9 && seen.weights > 0.99e9, "the weights are the file");
    assert.ok(Math.round(grown / mebibyte) <= 17, `the memory grew by ${grown} bytes`);
    // Progress is reported throughout, however fast, and to the end.
    const leaps = seen.steps.map(([loaded], index) => loaded - (seen.steps[index - 1]?.[0] ?? 0));
    assert.ok(
      Math.min(...leaps) >= 0 && Math.max(...leaps) <= size / 5,
      `${Math.max(...leaps)} bytes at once`,
    );
    assert.deepEqual(seen.steps.at(-1), [size, size]);
    visitor.clean();
  } finally {
    await visitor.leave();
    await rm(folder, { recursive: true });
  }
});
