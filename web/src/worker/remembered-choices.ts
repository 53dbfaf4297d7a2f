/**
 * Kernels that the engine chose by measurement, kept for the next visit in one small file on its
 * own shelf. Without it, or with another graphics adapter or other kernels, the engine measures
 * again.
 */
import { flag, optional, shape, text, whole } from "../protocol/check.ts";
import type { Choices } from "../protocol/engine.ts";
import { writePart, type Shelf } from "../store/shelf.ts";

const folder = "measured";
const part = "choices.json";
/** Maximum size of a valid file. */
const mostBytes = 4096;

/**
 * `of`: the adapter and kernels of the choices. `asATile`: number of rows from which a tile pays,
 * from 2 to 32, which fill a tile.
 */
const kept = shape({ of: text, normInside: flag, asATile: optional(whole(2, 32)) });

export class RememberedChoices {
  readonly #open: () => Promise<Shelf>;

  constructor(open: () => Promise<Shelf>) {
    this.#open = open;
  }

  /** Choices kept for this adapter and these kernels; undefined for any others. */
  async recall(of: string): Promise<Choices | undefined> {
    try {
      const place = await (await this.#open()).folder(folder);
      const file = await place?.blob(part);
      if (!file || file.size > mostBytes) return undefined;
      const { of: known, ...choices } = kept(JSON.parse(await file.text()), part);
      return known === of ? choices : undefined;
    } catch {
      return undefined; // Measured again, and overwritten.
    }
  }

  /** Keeps choices; silently does nothing without storage. */
  async keep(of: string, { normInside, asATile }: Choices): Promise<void> {
    const content = { of, normInside, asATile };
    try {
      const place = await (await this.#open()).create(folder);
      await writePart(place, part, new TextEncoder().encode(JSON.stringify(content)));
    } catch {
      // The next visit measures again.
    }
  }
}
