/** Memory that a model's weights take, by the sizes of its files. */
import type { LoadOptions } from "./engine.ts";

/**
 * Bits of a weight of each format, with its share of the block's scale; unquantised ones have 16.
 */
const bits = { Q8_0: 8.5, Q4_0: 4.5 };

/**
 * Bytes of a model's weights once loaded, if those to be rounded are stored in 16 bits: of F32 it
 * is twice what they take, of 8-bit floats half. Weights that are rounded are never in memory as
 * they are stored, save for the piece being read: a matrix gets its final size at once, and its
 * rows are read and rounded a piece at a time (crates/model/src/reading.rs). So the peak of a load
 * is this sum and `pieceBytes`.
 */
export function loadedBytes(
  files: readonly { readonly name: string; readonly bytes: number }[],
  quantise: LoadOptions["quantise"],
): number {
  return files.reduce((sum, { name, bytes }) => {
    const packed = quantise !== undefined && name.endsWith(".safetensors");
    return sum + (packed ? (bytes * bits[quantise]) / 16 : bytes);
  }, 0);
}

/**
 * Bytes of a load's buffers: pieces of 4 MiB as stored, put in order, and rounded. Rows beyond that
 * size are exceptions.
 */
export const pieceBytes = 3 * (4 << 20);
