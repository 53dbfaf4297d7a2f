/** Detects relaxed SIMD, which multiplies four bytes at once. */

/** A module with one function of three vectors: `i32x4.relaxed_dot_i8x16_i7x16_add_s` of them. */
const module = Uint8Array.of(
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  ...[0x01, 0x08, 0x01, 0x60, 0x03, 0x7b, 0x7b, 0x7b, 0x01, 0x7b],
  ...[0x03, 0x02, 0x01, 0x00],
  ...[0x0a, 0x0d, 0x01, 0x0b, 0x00, 0x20, 0x00, 0x20, 0x01, 0x20, 0x02, 0xfd, 0x93, 0x02, 0x0b],
);

/**
 * Whether the browser accepts the engine's module with that instruction. The engine itself finds
 * out whether it is faster on this processor. If WebAssembly is disabled its name is missing, which
 * the engine's start reports.
 */
export const takesRelaxedSimd = (): boolean =>
  typeof WebAssembly !== "undefined" && WebAssembly.validate(module);
