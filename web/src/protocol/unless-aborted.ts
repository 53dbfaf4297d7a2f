/**
 * Result of a task, or the signal's reason as soon as it aborts; the task then continues
 * unobserved.
 */
export async function unlessAborted<T>(task: Promise<T>, signal: AbortSignal): Promise<T> {
  const over = new AbortController();
  const stopped = new Promise<never>((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { signal: over.signal });
  });
  return Promise.race([stopped, task]).finally(() => over.abort());
}
