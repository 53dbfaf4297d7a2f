/** Loads into the fused engine count what a model takes once it is loaded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FusedEngine, Loader, ModuleMember } from "../protocol/engine.ts";
import { OutOfMemory } from "../protocol/errors.ts";
import { ScriptedMember } from "../testing/scripted.ts";
import { talker } from "../testing/staged.ts";
import { FusedLoader } from "./fused-loader.ts";
import { Grammars } from "./grammars.ts";
import { MemberHost } from "./member-host.ts";
import type { ThreadReply } from "./thread-messages.ts";
import { Traps } from "./traps.ts";

/** The smallest valid module. */
const compiled = new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0));
const files = [
  { name: "config.json", bytes: 900 },
  { name: "model.safetensors", bytes: 6e9 },
];
const model = { files, read: async () => assert.fail("it is not read"), close: () => {} };
const memory = new WebAssembly.Memory({ initial: 1 });
const noGrammar = async () => assert.fail("no answer has a form");
const engine = {
  backend: "cpu",
  load: async (name: string): Promise<ModuleMember> => new ScriptedMember(name, [], talker),
  lost: () => undefined,
} as unknown as FusedEngine;
type Quantise = Parameters<Loader["load"]>[2];
const rounded: Quantise = { contextTokens: 64, quantise: "Q8_0" };
const asItIs: Quantise = { contextTokens: 64 };

test("a folder too large as it is loads rounded, beside the others of its engine", async () => {
  const loader = new FusedLoader({ engine, memory }, new Traps(), new Grammars(noGrammar));
  await loader.load("Large", model, rounded, () => {});
  await assert.rejects(
    loader.load("Large", model, asItIs, () => {}),
    OutOfMemory,
  );
});

test("a folder too large as it is loads rounded, in a thread of its own", async () => {
  const replies: ThreadReply[] = [];
  const host = new MemberHost(
    async () => ({ compiled, module: { Engine: { create: async () => engine } } as never, memory }),
    (reply) => void replies.push(reply),
    noGrammar,
  );
  await host.receive({ type: "start", compiled, worker: "member.js", backend: "cpu" });
  for (const [id, options] of [rounded, asItIs].entries()) {
    const { port1: port } = new MessageChannel();
    await host.receive({ type: "load", id, member: id, name: "Large", files, port, options });
  }
  const [, first, second] = replies;
  assert.equal(first?.type, "loaded");
  assert.ok(second?.type === "failed" && second.error.kind === "OutOfMemory");
  assert.match(second.error.message, /^Large needs 6\.0 GB of memory/);
});
