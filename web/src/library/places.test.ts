/**
 * Every file of the engine and of the bundled members has an address, beside the scripts or in a
 * named folder.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { takesRelaxedSimd } from "../protocol/relaxed-simd.ts";
import type { MemberSource, Places } from "../protocol/messages.ts";
import { hello, stage, talker, type Stage } from "../testing/staged.ts";
import { Conclave, type Port } from "./conclave.ts";
import { listed, located } from "./engine-requests.ts";
import { createLanguageModel } from "./language-model.ts";
import { places, toys } from "./places.ts";

const files = (assets?: string | URL): string[] => {
  const { engine, openCore, grammar, remote } = places(assets);
  return [
    engine.worker,
    engine.wasm,
    openCore.worker,
    openCore.wasm,
    grammar,
    remote,
    ...toys(assets).map(({ url }) => url!),
  ];
};
/** Suffix of the engine's name under this runtime, which may or may not support relaxed SIMD. */
const relaxed = takesRelaxedSimd() ? "-relaxed" : "";
const names = [
  "engine.js",
  `engine${relaxed}.wasm`,
  "open-core.js",
  "open-core.wasm",
  "grammar.wasm",
  "remote.wasm",
  "members/ada.gguf",
  "members/quill.gguf",
  "members/juno.gguf",
];

test("files lie beside the library's script, or below the address that is given", () => {
  assert.deepEqual(
    files(),
    names.map((name) => new URL(`./${name}`, import.meta.url).href),
  );
  for (const assets of [
    "https://host/of/files/",
    "https://host/of/files",
    new URL("https://host/of/files?v=1"),
  ])
    assert.deepEqual(
      files(assets),
      names.map((name) => `https://host/of/files/${name}`),
      String(assets),
    );
});

test("bundled members come with their names, sizes and hashes", () => {
  assert.deepEqual(
    toys().map(({ name }) => name),
    ["Ada", "Quill", "Juno"],
  );
  for (const { bytes, sha256 } of toys()) assert.ok(bytes! > 1e6 && /^[0-9a-f]{64}$/.test(sha256!));
});

test("a page isolated from other origins starts the engine for shared memory", (context) => {
  const page = globalThis as { crossOriginIsolated?: boolean };
  page.crossOriginIsolated = true;
  context.after(() => delete page.crossOriginIsolated);
  assert.deepEqual(places("https://host/").engine, {
    worker: "https://host/engine-shared.js",
    wasm: `https://host/engine-shared${relaxed}.wasm`,
  });
});

test("relative addresses are below the document's base of that time", async (context) => {
  const page = globalThis as { document?: object; location?: object };
  const at = (baseURI: string): void => {
    page.document = { baseURI };
    page.location = { href: "about:srcdoc" };
  };
  context.after(() => (delete page.document, delete page.location));
  at("https://host/app/");
  assert.equal(places("files").remote, "https://host/app/files/remote.wasm");
  const opened: string[] = [];
  const sources: unknown[] = [];
  const starts: Stage[] = [];
  const start = (): Port => {
    const made = stage({ Ada: talker });
    starts.push(made);
    const { port } = made;
    const post = port.postMessage;
    port.postMessage = (data, moved) => {
      const request = data as { type: string; places: Places; source: MemberSource };
      if (request.type === "open") opened.push(request.places.remote);
      if (request.type === "add") sources.push(request.source.url);
      post(data, moved);
    };
    return port;
  };
  const members = [{ name: "Ada", url: "ada.gguf" }];
  const fetched = context.mock.method(globalThis, "fetch", async () => new Response("GGUF"));
  const conclave = await Conclave.load({ backend: "cpu", assets: "files", members }, start);
  const model = createLanguageModel({
    members: "list.json",
    load: async ({ members }) => (sources.push(members), conclave),
  });
  // As `history.pushState` does.
  at("https://host/app/other/route");
  starts[0]!.port.onerror?.({ message: "unreachable" } as ErrorEvent);
  await conclave.measure(hello);
  await model.create();
  const remote = "https://host/app/files/remote.wasm";
  assert.deepEqual(opened, [remote, remote]);
  const ada = "https://host/app/ada.gguf";
  assert.deepEqual(sources, [ada, ada, "https://host/app/list.json"]);
  assert.equal(fetched.mock.callCount(), 2);
});

test("a list's members are relative to it, and it to the document's base", async (context) => {
  const page = globalThis as { document?: object };
  page.document = { baseURI: "https://host/based/" };
  context.after(() => delete page.document);
  const entry = { name: "Ada", file: "ada.gguf", bytes: 4, architecture: "", tokenizer: "" };
  const list = [{ ...entry, sha256: "0", skills: [], description: "" }];
  context.mock.method(globalThis, "fetch", async () => Response.json(list));
  const { members } = located({ members: "models/list.json" });
  const [source] = await listed({ members: members! });
  assert.equal(source?.url, "https://host/based/models/ada.gguf");
});
