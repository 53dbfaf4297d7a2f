/** Memory that several workers compute on. */

/**
 * Whether the engine takes such memory: only pages that are isolated from other origins have it,
 * and what waits for another thread there needs `Atomics.waitAsync`. WebKitGTK isolates pages and
 * lets no worker have another's memory; without the name of such a buffer there is none to be had.
 */
export const mayShareMemory = (): boolean =>
  globalThis.crossOriginIsolated === true &&
  "waitAsync" in Atomics &&
  typeof SharedArrayBuffer !== "undefined";

export const isShared = (memory: WebAssembly.Memory): boolean =>
  typeof SharedArrayBuffer !== "undefined" && memory.buffer instanceof SharedArrayBuffer;
