/** Memory that several workers compute on. */

/**
 * Whether the engine takes such memory: only pages that are isolated from other origins have it, and what
 * waits for another thread there needs `Atomics.waitAsync`.
 */
export const mayShareMemory = (): boolean => globalThis.crossOriginIsolated === true && "waitAsync" in Atomics;

export const isShared = (memory: WebAssembly.Memory): boolean => typeof SharedArrayBuffer !== "undefined" && memory.buffer instanceof SharedArrayBuffer;
