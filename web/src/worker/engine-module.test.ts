/** The modules of both cores are fetched from their addresses; errors name a missing one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compileModule } from "./engine-module.ts";

/** The smallest valid module. */
const smallest = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

/** The module in two pieces, as over a slow line. */
const slowly = (): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const piece of [smallest.slice(0, 3), smallest.slice(3)]) controller.enqueue(piece);
      controller.close();
    },
  });

test("a core's module is fetched and compiled, its bytes told as they come", async (context) => {
  const asked: string[] = [];
  const address = "https://host/open-core.wasm";
  let headers: Record<string, string> = {};
  context.mock.method(
    globalThis,
    "fetch",
    async (address: string) => (asked.push(address), new Response(slowly(), { headers })),
  );
  for (const type of ["application/wasm", "application/octet-stream"]) {
    for (const [told, total] of [
      [{ "content-length": "8" }, 8],
      [{}, 0],
      [{ "content-length": "5", "content-encoding": "gzip" }, 0],
    ] as const) {
      headers = { "content-type": type, ...told };
      const steps: [number, number][] = [];
      assert.ok(
        (await compileModule("burn", address, (loaded, of) => steps.push([loaded, of]))) instanceof
          WebAssembly.Module,
      );
      assert.deepEqual(steps, [
        [0, total],
        [3, total],
        [8, total],
      ]);
    }
  }
  assert.deepEqual([...new Set(asked)], [address]);
});

test("a file that is not there is named, with what to do", async (context) => {
  context.mock.method(globalThis, "fetch", async () => new Response("", { status: 404 }));
  for (const [core, what] of [
    ["fused", "The engine"],
    ["burn", "The open core"],
  ] as const) {
    const message = new RegExp(
      `^${what} could not be started from https://host/a.wasm .*404.*Check that the file is there`,
    );
    await assert.rejects(compileModule(core, "https://host/a.wasm"), { name: "Download", message });
  }
});
