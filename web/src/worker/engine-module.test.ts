/** The modules of both cores are asked for where they lie; what is missing is named. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compileModule, startModule } from "./engine-module.ts";

/** The smallest module there is. */
const smallest = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);

/** In two pieces, as over a slow line. */
const slowly = (): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const piece of [smallest.slice(0, 3), smallest.slice(3)]) controller.enqueue(piece);
      controller.close();
    },
  });

test("a core's module is compiled as it comes, and its bytes are told", async (context) => {
  const asked: string[] = [];
  let headers: Record<string, string> = {};
  context.mock.method(globalThis, "fetch", async (address: string) => (asked.push(new URL(address).pathname.split("/").slice(-2).join("/")), new Response(slowly(), { headers })));
  for (const type of ["application/wasm", "application/octet-stream"]) {
    for (const [told, total] of [
      [{ "content-length": "8" }, 8],
      [{}, 0],
      [{ "content-length": "5", "content-encoding": "gzip" }, 0],
    ] as const) {
      headers = { "content-type": type, ...told };
      const steps: [number, number][] = [];
      assert.ok((await compileModule("burn", (loaded, of) => steps.push([loaded, of]))) instanceof WebAssembly.Module);
      assert.deepEqual(steps, [
        [0, total],
        [3, total],
        [8, total],
      ]);
    }
  }
  await compileModule("fused");
  assert.deepEqual([...new Set(asked)], ["pkg-burn/conclave_burn_bg.wasm", "pkg/conclave_bg.wasm"]);
});

test("a file that is not there is named, with what to do", async (context) => {
  context.mock.method(globalThis, "fetch", async () => new Response("", { status: 404 }));
  for (const [core, folder, name] of [
    ["fused", "pkg", "conclave"],
    ["burn", "pkg-burn", "conclave_burn"],
  ] as const) {
    const says = (file: string): object => ({ name: "Download", message: new RegExp(`from \\S+/${folder}/${file} .*Check that ${folder}/ lies beside the page, then reload`) });
    await assert.rejects(compileModule(core), says(`${name}_bg.wasm`));
    await assert.rejects(startModule(core), says(`${name}.js`));
  }
});
