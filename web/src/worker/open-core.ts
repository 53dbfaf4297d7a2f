/**
 * The open core in a page: a module that is fetched for the first member that runs on it, and one
 * worker that all such members share, since burn has one GPU device. They answer together with
 * members of the fused core, since only text and scores cross.
 */
import type { Backend } from "../protocol/engine.ts";
import type { OnFetched } from "./engine-module.ts";
import type { Place } from "../protocol/messages.ts";
import { MemberThreads, type StartThread } from "./member-threads.ts";

/** Fetches and compiles the open core's module. */
export type FetchCore = (address: string, onFetched: OnFetched) => Promise<WebAssembly.Module>;

export class OpenCore {
  readonly #fetch: FetchCore;
  readonly #startThread: StartThread;
  readonly #place: Place;
  readonly #backend: Backend;
  /** Progress listeners of the fetch. */
  readonly #waiting = new Set<OnFetched>();
  #compiled: Promise<WebAssembly.Module> | undefined;
  #threads: MemberThreads | undefined;

  constructor(fetch: FetchCore, startThread: StartThread, place: Place, backend: Backend) {
    this.#fetch = fetch;
    this.#startThread = startThread;
    this.#place = place;
    this.#backend = backend;
  }

  /** Its member threads, once the module is fetched. */
  get threads(): MemberThreads | undefined {
    return this.#threads;
  }

  /** Its member threads; waits for the module. Throws Download if it can't be fetched. */
  async fetched(onFetched: OnFetched): Promise<MemberThreads> {
    this.#waiting.add(onFetched);
    try {
      const compiled = await (this.#compiled ??= this.#compile());
      if (!this.#threads) {
        this.#threads = new MemberThreads(this.#startThread, this.#place.worker, 1);
        this.#threads.start({ compiled, backend: this.#backend });
      }
      return this.#threads;
    } finally {
      this.#waiting.delete(onFetched);
    }
  }

  /** Fetches once for all callers; after a failure, again for the next. */
  async #compile(): Promise<WebAssembly.Module> {
    try {
      return await this.#fetch(this.#place.wasm, (loaded, total) =>
        this.#waiting.forEach((hear) => hear(loaded, total)),
      );
    } catch (error) {
      this.#compiled = undefined;
      throw error;
    }
  }

  /** Ends the worker. */
  close(): void {
    this.#threads?.close();
  }
}
