/**
 * Runs before a member's worker: reports on a channel when it was busy with a draft or a verify
 * pass, in milliseconds of a clock common to all threads. It delays its results: a draft of the
 * toys takes about as long as waking a thread on a busy machine.
 */
export interface Busy {
  /** Name of the worker. */
  thread: string;
  what: string;
  from: number;
  to: number;
}

interface Message {
  type: string;
  id: number;
}

const scope = globalThis as unknown as {
  postMessage(data: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent<Message>) => void): void;
};
const channel = new BroadcastChannel("busy");
const thread = crypto.randomUUID();
const begun = new Map<number, { what: string; from: number }>();
const heldMs = 100;
const now = (): number => performance.timeOrigin + performance.now();

scope.addEventListener("message", ({ data: { type, id } }) => {
  if (type === "draft" || type === "verify") begun.set(id, { what: type, from: now() });
});
const post = scope.postMessage.bind(scope);
scope.postMessage = (data) => {
  const { type, id } = data as Message;
  const busy = begun.get(id);
  if (!busy || (type !== "drafted" && type !== "verified")) return post(data);
  begun.delete(id);
  setTimeout(() => {
    channel.postMessage({ thread, ...busy, to: now() } satisfies Busy);
    post(data);
  }, heldMs);
};
