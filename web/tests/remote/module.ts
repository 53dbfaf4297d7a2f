/** The module of remote members, as built, in Node. */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { RemoteModule } from "../../src/protocol/engine.ts";
import type { StartRemote } from "../../src/worker/remote/remote-module.ts";

const built = `${process.env["CONCLAVE_WEB"] ?? "./"}pkg-remote/conclave_remote`;
const glue = (await import(pathToFileURL(`${built}.js`).href)) as RemoteModule;
await glue.default({ module_or_path: new WebAssembly.Module(readFileSync(`${built}_bg.wasm`)) });

export const module: RemoteModule = glue;
export const startRemote: StartRemote = async () => module;
