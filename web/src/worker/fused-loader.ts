/** Loads members of the fused core in this thread, beside all others of its engine. */
import type { FusedEngine, Loader } from "../protocol/engine.ts";
import { FormedMember, type Grammars } from "./grammars.ts";
import { soonest } from "./handle-files.ts";
import { loadedBytes } from "../protocol/loaded-bytes.ts";
import { lossOf } from "./lost-device.ts";
import { loadError, refuseTooLarge } from "./out-of-memory.ts";
import type { Traps } from "./traps.ts";

export class FusedLoader implements Loader {
  readonly #opened: { engine: FusedEngine; memory: WebAssembly.Memory };
  readonly #traps: Traps;
  readonly #grammars: Grammars;

  constructor(
    opened: { engine: FusedEngine; memory: WebAssembly.Memory },
    traps: Traps,
    grammars: Grammars,
  ) {
    this.#opened = opened;
    this.#traps = traps;
    this.#grammars = grammars;
  }

  async load(...[name, files, options, told]: Parameters<Loader["load"]>): Promise<FormedMember> {
    const { engine, memory } = this.#opened;
    const ranges = await soonest(files);
    const need = loadedBytes(ranges.files, options.quantise);
    try {
      if (engine.backend === "cpu") refuseTooLarge(name, need, memory);
      const loading = engine.load(name, ranges, options, told);
      return new FormedMember(await this.#traps.heard(loading), this.#grammars);
    } catch (thrown) {
      if (lossOf(engine) !== undefined) throw thrown;
      throw loadError(thrown, name, need, { memory, alone: false });
    } finally {
      ranges.close();
    }
  }
}
