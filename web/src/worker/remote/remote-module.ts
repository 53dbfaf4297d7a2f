/**
 * The module of remote members, which has their protocol (crates/remote). It is fetched and started
 * in this thread when the first is added.
 */
import type { RemoteModule } from "../../protocol/engine.ts";
import { unlessAborted } from "../../protocol/unless-aborted.ts";
import { notOpen } from "../engine-module.ts";

/** Fetches and compiles the module at an address. */
export type FetchRemote = (address: string) => Promise<WebAssembly.Module>;
/** Starts the compiled module in this thread. */
export type StartRemote = (compiled: WebAssembly.Module) => Promise<RemoteModule>;

export class Remotes {
  readonly #fetch: FetchRemote;
  readonly #start: StartRemote;
  /** Address of the module, known once the engine opens. */
  address: string | undefined;
  #started: Promise<RemoteModule> | undefined;

  constructor(fetch: FetchRemote, start: StartRemote) {
    this.#fetch = fetch;
    this.#start = start;
  }

  /** The module; an abort does not wait for its fetch. Throws Download, or the signal's reason. */
  async module(signal: AbortSignal): Promise<RemoteModule> {
    if (this.address === undefined) throw notOpen();
    this.#started ??= this.#fetch(this.address).then(this.#start);
    this.#started.catch(() => (this.#started = undefined)); // the next member tries again
    return unlessAborted(this.#started, signal);
  }
}
