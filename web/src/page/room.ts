/** Room for a conversation that members get by themselves: the most that fits this machine. */
import type { CatalogueModel } from "./catalogue.ts";
import type { Machine } from "./fit.ts";

/** Sizes to choose from, in tokens. */
export const rooms = [1024, 2048, 4096, 8192, 16384];
/** More takes long to read on most machines; it can be chosen. */
const mostByItself = 8192;
const leastByItself = rooms[0]!;
/** Assumed gigabytes of memory if a browser does not tell. */
const assumedGigabytes = 4;
/** Share of the memory for keys and values, beside weights and all else that runs. */
const share = 1 / 8;
/** Assumed bytes of keys and values of a token, of models with about a thousand million weights. */
const assumedPerToken = 100_000;

/** A member's need: `bundled` ones need next to nothing. */
export interface RoomNeed {
  bundled: boolean;
  model: Pick<CatalogueModel, "memory" | "shape"> | undefined;
}

/** Tokens of context for members that run together. */
export function mostRoom(
  members: readonly RoomNeed[],
  { backend, deviceMemory }: Pick<Machine, "backend" | "deviceMemory">,
): number {
  const limit = (deviceMemory ?? assumedGigabytes) * 1e9 * share;
  const needed = (tokens: number): number =>
    members.reduce((sum, { bundled, model }) => {
      if (bundled) return sum;
      const { weights, kv } = model?.memory[backend].perToken ?? {
        weights: 0,
        kv: assumedPerToken,
      };
      return sum + Math.min(tokens, model?.shape.context ?? tokens) * (weights + kv);
    }, 0);
  const fits = rooms.filter((tokens) => tokens <= mostByItself && needed(tokens) <= limit);
  return fits.at(-1) ?? leastByItself;
}
