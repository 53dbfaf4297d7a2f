/**
 * Runs before the engine's worker: pauses after each event of an answer but drafts and votes, of
 * which a round has many, since the toys would finish before a busy page has pressed stop.
 */
const stillMs = 100;

const scope = globalThis as unknown as { postMessage(data: unknown): void };
const post = scope.postMessage.bind(scope);
scope.postMessage = (data) => {
  post(data);
  const { type, event } = data as { type: string; event?: { type: string } };
  if (type !== "event" || event?.type === "draft" || event?.type === "vote") return;
  const until = performance.now() + stillMs;
  while (performance.now() < until);
};

export {};
