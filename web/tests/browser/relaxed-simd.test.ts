/** The engine's module with relaxed SIMD is fetched, and gives the same results as the other. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { ConclaveEvent } from "../../src/library/conclave.ts";
import { writeModel } from "./random-file.ts";
import { dist, stage } from "./stage.ts";

const stand = stage("none");

type Events = (Omit<ConclaveEvent, "ms"> & { ms: undefined })[];

/** All events of an ensemble of the files, and the modules fetched for it. */
async function answer(files: string[]): Promise<{ events: Events; modules: string[] }> {
  const visitor = await stand.arrive({
    search: "bench.html",
    loaded: false,
    serviceWorkers: "block",
  });
  const modules: string[] = [];
  visitor.page.on(
    "request",
    (request) =>
      void (request.url().endsWith(".wasm") && modules.push(request.url().split("/").at(-1)!)),
  );
  await visitor.offer(files);
  const events = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as typeof import("../../src/library/conclave.ts");
    const conclave = await Conclave.open({ backend: "cpu" });
    for (const file of (document.querySelector("#offered") as HTMLInputElement).files!)
      await conclave.add({ name: file.name, files: [file] }, { contextTokens: 512 });
    const events: Events = [];
    const messages = [
      { role: "user" as const, content: "Tell me a short story about a fox. ".repeat(5) },
    ];
    for await (const event of conclave.ask(messages, {
      sampling: { temperature: 0.8, seed: 3 },
      settings: { maxRounds: 4 },
    }))
      events.push({ ...event, ms: undefined });
    conclave.close();
    return events.filter(({ type }) => type !== "reading");
  });
  await visitor.leaveClean();
  return { events, modules };
}

test("with relaxed SIMD an ensemble makes the same numbers, to the last bit", async () => {
  const folder = await mkdtemp(join(tmpdir(), "conclave-relaxed-"));
  const files = [1, 2].map((seed) => join(folder, `member-${seed}.gguf`));
  try {
    // A format whose products are of four bytes.
    for (const [index, file] of files.entries()) await writeModel("tiny", "Q4_0", index + 1, file);
    const relaxed = await answer(files);
    stand.site.overrides.set(
      "library/engine-shared-relaxed.wasm",
      await readFile(`${dist}engine-shared.wasm`),
    );
    const plain = await answer(files);
    assert.deepEqual(relaxed.modules, ["engine-shared-relaxed.wasm"]);
    assert.deepEqual(plain.modules, relaxed.modules);
    assert.ok(relaxed.events.filter(({ type }) => type === "round").length === 4);
    assert.deepEqual(relaxed.events, plain.events);
  } finally {
    stand.site.overrides.clear();
    await rm(folder, { recursive: true });
  }
});
