/**
 * Runs before the engine's worker: pauses after each event of an answer, since the toys would
 * finish before a busy page has pressed stop.
 */
const stillMs = 100;

const scope = globalThis as unknown as { postMessage(data: unknown): void };
const post = scope.postMessage.bind(scope);
scope.postMessage = (data) => {
  post(data);
  if ((data as { type: string }).type !== "event") return;
  const until = performance.now() + stillMs;
  while (performance.now() < until);
};

export {};
