/** Memory that several workers share. */

/**
 * Whether the engine supports shared memory here: it needs a cross-origin isolated page, and
 * `Atomics.waitAsync` to wait for other threads. WebKitGTK isolates pages but does not let workers
 * share memory; it also lacks the buffer's name.
 */
export const mayShareMemory = (): boolean =>
  globalThis.crossOriginIsolated === true &&
  "waitAsync" in Atomics &&
  typeof SharedArrayBuffer !== "undefined";

export const isShared = ({ buffer }: { buffer: ArrayBufferLike }): boolean =>
  typeof SharedArrayBuffer !== "undefined" && buffer instanceof SharedArrayBuffer;
