/**
 * Computes the logits that the check compares: every bundled member on both engines, in this
 * thread.
 */
import * as glue from "engine-glue";
import * as openGlue from "open-core-glue";
import { places } from "../library/places.ts";
import type {
  BurnModule,
  Engine,
  EngineModule,
  LocalMember,
  Sampling,
} from "../protocol/engine.ts";
import { defaultSampling } from "../protocol/generated-settings.ts";
import { readManifest, readSource, sourceOf } from "../store/load.ts";
import { compileModule, startModule } from "../worker/engine-module.ts";
import { compared, ways, type CheckedMember, type Way } from "./check.ts";
import type { BenchReply } from "./report.ts";
import { surroundings } from "./surroundings.ts";

const scope = globalThis as unknown as {
  postMessage(data: BenchReply): void;
  onmessage: (() => void) | null;
};

const messages = [{ role: "user" as const, content: "What is 14 plus 28?" }];
const greedy: Sampling = { ...defaultSampling, temperature: 0, topP: 1, seed: 1 };

scope.onmessage = () => {
  run().then(
    () => scope.postMessage({ type: "end" }),
    (error: unknown) =>
      scope.postMessage({
        type: "failed",
        message: error instanceof Error ? `${error.name}: ${error.message}` : String(error),
      }),
  );
};

async function run(): Promise<void> {
  const list = new URL("./members/members.json", import.meta.url);
  const entries = await readManifest(list);
  const steps = ways.length * entries.length;
  let done = 0;
  const report = (what: string): void =>
    scope.postMessage({ type: "progress", what, done: done++, total: steps });
  report("Fetching both engines…");
  const { engine, openCore } = places();
  const [fused, burn] = await Promise.all([
    compileModule("fused", engine.wasm).then((compiled) =>
      startModule(glue as EngineModule, compiled),
    ),
    compileModule("burn", openCore.wasm).then((compiled) =>
      startModule(openGlue as BurnModule, compiled),
    ),
  ]);
  const create: Record<Way, () => Promise<Engine>> = {
    fused: () => fused.module.Engine.create("webgpu"),
    burn: () => burn.module.Engine.create("webgpu"),
    cpu: () => burn.module.Engine.create("cpu"),
  };
  const logits = new Map<string, Partial<Record<Way, Float32Array>>>(
    entries.map(({ name }) => [name, {}]),
  );
  const tokens = new Map<string, number>();
  let adapter = "";
  for (const way of ways) {
    const engine = await create[way]();
    if (way === "fused") {
      const found = await surroundings("webgpu", engine.adapter());
      adapter = found.adapter.name;
      scope.postMessage({ type: "surroundings", surroundings: found });
    }
    const by =
      way === "fused"
        ? "the fused kernels"
        : way === "burn"
          ? "burn on the GPU"
          : "burn on the CPU";
    for (const entry of entries) {
      report(`${entry.name} by ${by}`);
      const files = await readSource(sourceOf(entry, list), {});
      // It runs in this thread.
      const member = (await engine.load(
        entry.name,
        files,
        { contextTokens: 256 },
        () => undefined,
      )) as LocalMember;
      files.close();
      const { prefix } = await member.begin(messages, greedy, 0);
      tokens.set(entry.name, prefix);
      logits.get(entry.name)![way] = await member.nextLogits();
      member.free();
    }
    engine.free();
  }
  const members: CheckedMember[] = [];
  for (const [name, found] of logits)
    members.push(compared(name, tokens.get(name)!, found as Record<Way, Float32Array>));
  scope.postMessage({ type: "check", check: { adapter, members } });
}
