/**
 * Addresses of the engine's files, written so that bundlers see them and copy the files. Each
 * worker is one file without imports, so that a copy is enough.
 */
import list from "../../members/members.json" with { type: "json" };
import { BadSettings } from "../protocol/errors.ts";
import type { MemberSource, Places } from "../protocol/messages.ts";
import { takesRelaxedSimd } from "../protocol/relaxed-simd.ts";
import { mayShareMemory } from "../protocol/shared-memory.ts";

/** Files beside this one. Written out, because a bundler only reads literals. */
const beside: Record<string, () => URL> = {
  "engine.js": () => new URL("./engine.js", import.meta.url),
  "engine.wasm": () => new URL("./engine.wasm", import.meta.url),
  "engine-relaxed.wasm": () => new URL("./engine-relaxed.wasm", import.meta.url),
  "engine-shared.js": () => new URL("./engine-shared.js", import.meta.url),
  "engine-shared.wasm": () => new URL("./engine-shared.wasm", import.meta.url),
  "engine-shared-relaxed.wasm": () => new URL("./engine-shared-relaxed.wasm", import.meta.url),
  "open-core.js": () => new URL("./open-core.js", import.meta.url),
  "open-core.wasm": () => new URL("./open-core.wasm", import.meta.url),
  "grammar.wasm": () => new URL("./grammar.wasm", import.meta.url),
  "remote.wasm": () => new URL("./remote.wasm", import.meta.url),
  "members/ada.gguf": () => new URL("./members/ada.gguf", import.meta.url),
  "members/quill.gguf": () => new URL("./members/quill.gguf", import.meta.url),
  "members/juno.gguf": () => new URL("./members/juno.gguf", import.meta.url),
};

/** Base of relative addresses: the document's, since an embedded one may have its creator's. */
const base = (): string | undefined => globalThis.document?.baseURI ?? globalThis.location?.href;

/** The whole address. Throws Settings if it is invalid, with its `name`. */
export function absolute(name: string, address: string | URL): string {
  try {
    return new URL(address, base()).href;
  } catch {
    throw new BadSettings(
      `${name} must be an address; it was ${JSON.stringify(address)}. ` +
        "Give one as https://host/path, or one relative to the page.",
    );
  }
}

/** Address of a file: below `assets` if set, else beside this script. */
function addressOf(file: string, assets: string | URL | undefined): string {
  // Turbopack substitutes a URL-like object with a bare path, below the page's origin.
  if (assets === undefined) return new URL(beside[file]!(), base()).href;
  const folder = new URL(absolute("assets", assets));
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  return new URL(file, folder).href;
}

/** Addresses of the engine build for this page, and of the modules fetched on demand. */
export function places(assets?: string | URL): Places {
  const place = (name: string, wasm = name) => ({
    worker: addressOf(`${name}.js`, assets),
    wasm: addressOf(`${wasm}.wasm`, assets),
  });
  const engine = mayShareMemory() ? "engine-shared" : "engine";
  return {
    engine: place(engine, takesRelaxedSimd() ? `${engine}-relaxed` : engine),
    openCore: place("open-core"),
    grammar: addressOf("grammar.wasm", assets),
    remote: addressOf("remote.wasm", assets),
  };
}

/** The bundled members. */
export const toys = (assets?: string | URL): MemberSource[] =>
  list.map(({ name, file, bytes, sha256 }) => ({
    name,
    bytes,
    sha256,
    url: addressOf(`members/${file}`, assets),
  }));
