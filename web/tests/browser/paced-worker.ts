/**
 * Runs in the engine's worker before it: stands still for a moment after each event of an answer.
 * The toys are done before a busy page has pressed stop.
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
