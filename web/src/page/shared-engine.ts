/**
 * One engine shared by several tabs, each over its own connection. A tab's request ids are mapped
 * to the engine's; questions take turns between connections; `open`, and `add` of the same member,
 * are done once for all.
 */
import type { Port } from "../library/conclave.ts";
import {
  moved,
  parseReply,
  stoppedEnd,
  type Reply,
  type Request,
  type Usage,
} from "../protocol/messages.ts";

type Turn = Extract<Request, { type: "ask" | "begin" }>;
type Once = Extract<Request, { type: "open" | "add" }>;

/** A tab's connection to the engine. */
export interface Line {
  /** Receives a request of the tab. */
  receive(data: unknown): void;
  /**
   * The tab is gone or closed its connection: aborts its requests. The last tab's end is the
   * engine's.
   */
  end(): void;
}

interface LineEvents {
  onReply: (reply: Reply) => void;
  /** The engine has failed. */
  onFailed: (event: Pick<ErrorEvent, "message">) => void;
}

/** Reported when a request of any tab found the failure. */
const broken = { message: "it broke in an answer, or lost its device" };

interface Tab extends LineEvents {
  /** The engine's ids of the tab's pending requests, by the tab's ids. */
  numbers: Map<number, number>;
  /** Requests that wait for their turn. */
  queue: Turn[];
}

/** A tab that waits for a common request, and its own id of it. */
interface Waiter {
  tab: Tab;
  id: number;
}

/** A request made once for all tabs. */
interface Common {
  number: number;
  waiting: Set<Waiter>;
  /** The last tab that waited and stopped it; it may complete before the engine sees the stop. */
  stopped?: Waiter;
  /** Last reply: progress, or the final reply, repeated to tabs that ask later. */
  lastReply?: Reply;
}

export class SharedEngine {
  readonly #port: Port;
  readonly #onOver: () => void;
  /** In the order of their turns. */
  readonly #tabs = new Set<Tab>();
  /** Handler of the replies to each request, by the engine's id. */
  readonly #hearers = new Map<number, (reply: Reply) => void>();
  readonly #common = new Map<string, Common>();
  /** The question or conversation under way. */
  #turn: { tab: Tab; number: number } | undefined;
  #usage: Usage = { heap: 0, threads: 1 };
  #last = 0;
  #over = false;

  /** `onOver`: the engine has ended, by failure or with its last connection. */
  constructor(port: Port, onOver: () => void) {
    this.#port = port;
    this.#onOver = onOver;
    port.onmessage = ({ data }) => {
      try {
        const reply = parseReply(data);
        this.#hearers.get(reply.id)?.(reply);
      } catch (error) {
        this.fail({ message: `it sent an invalid message: ${String(error)}` });
      }
    };
    port.onmessageerror = () => this.fail({ message: "it sent an unreadable message" });
    port.onerror = (event) => this.fail(event);
  }

  /** Number of connected tabs. */
  get lines(): number {
    return this.#tabs.size;
  }

  get over(): boolean {
    return this.#over;
  }

  connect(events: LineEvents): Line {
    const tab: Tab = { ...events, numbers: new Map(), queue: [] };
    this.#tabs.add(tab);
    return { receive: (data) => this.#receive(tab, data), end: () => this.#end(tab) };
  }

  #receive(tab: Tab, data: unknown): void {
    if (!this.#tabs.has(tab)) return;
    const request = data as Request; // The engine's worker validates it.
    switch (request.type) {
      case "open":
      case "add":
        return this.#once(tab, request);
      case "ask":
      case "begin":
        tab.queue.push(request);
        return this.#nextTurn();
      case "stop":
        return this.#stop(tab, request.id);
      case "pause": {
        // A waiting request need not be paused.
        const number = tab.numbers.get(request.id);
        return number === undefined
          ? undefined
          : this.#port.postMessage({ ...request, id: number });
      }
      case "draft":
      case "verify":
      case "keep":
      case "end": {
        // No conversation has the id 0, which is thus reported as over.
        const conversation = tab.numbers.get(request.conversation) ?? 0;
        this.#send(tab, { ...request, conversation });
        if (request.type !== "end") return;
        tab.numbers.delete(request.conversation);
        return this.#turnOver(conversation);
      }
      default:
        this.#send(tab, request);
    }
  }

  /** Sends a request of one tab; returns its id in the engine. */
  #send(tab: Tab, request: Exclude<Request, { type: "stop" | "pause" }>): number {
    const number = ++this.#last;
    const { id, type } = request;
    tab.numbers.set(id, number);
    this.#hearers.set(number, (reply) => {
      const over = reply.type === "event" ? reply.event.type === "end" : reply.type !== "progress";
      if (over) this.#hearers.delete(number);
      // A conversation keeps its id until it is ended.
      if (over && reply.type !== "begun") tab.numbers.delete(id);
      if (reply.type === "removed") this.#usage = reply.usage;
      if (reply.type === "removed" && request.type === "remove") this.#forget(request.name);
      if (this.#tabs.has(tab)) tab.onReply({ ...reply, id });
      // This tab opens another engine, and so must the rest.
      if (
        reply.type === "failed" &&
        (reply.error.kind === "DeviceLost" || (reply.error.kind === "Engine" && type === "ask"))
      )
        return this.fail(broken);
      // If its tab is gone, it was ended already.
      if (over && (reply.type !== "begun" || !this.#tabs.has(tab))) this.#turnOver(number);
    });
    this.#port.postMessage({ ...request, id: number });
    return number;
  }

  /** Sends a request unless another tab has; later tabs get its progress or result. */
  #once(tab: Tab, request: Once): void {
    const { id, ...rest } = request;
    const what = JSON.stringify(rest);
    const known = this.#common.get(what);
    if (known) {
      if (known.lastReply)
        tab.onReply({
          ...known.lastReply,
          ...(known.lastReply.type === "added" ? { usage: this.#usage } : {}),
          id,
        } as Reply);
      if (!known.lastReply || known.lastReply.type === "progress") known.waiting.add({ tab, id });
      return;
    }
    const common: Common = { number: ++this.#last, waiting: new Set([{ tab, id }]) };
    this.#common.set(what, common);
    this.#hearers.set(common.number, (reply) => {
      common.lastReply = reply;
      if (reply.type === "added") this.#usage = reply.usage;
      if (reply.type === "added" && rest.type === "add" && rest.replace !== undefined)
        this.#forget(rest.replace);
      const waiting = [...common.waiting];
      const over = reply.type !== "progress";
      if (over) common.waiting.clear();
      if (over) this.#hearers.delete(common.number);
      if (over && reply.type !== "opened" && reply.type !== "added") this.#common.delete(what);
      for (const waiter of waiting) {
        const { tab, id } = waiter;
        // A request made during a stop is not stopped.
        if (reply.type === "aborted" && waiter !== common.stopped)
          this.#once(tab, { ...rest, id } as Once);
        else tab.onReply({ ...reply, id });
      }
      if (reply.type === "failed" && reply.error.kind === "DeviceLost") this.fail(broken);
    });
    this.#port.postMessage({ ...rest, id: common.number }, moved(rest));
  }

  /** A member was removed. */
  #forget(name: string): void {
    for (const [what, { lastReply }] of this.#common)
      if (
        lastReply?.type === "added" &&
        (JSON.parse(what) as Once & { type: "add" }).source.name === name
      )
        this.#common.delete(what);
  }

  #nextTurn(): void {
    if (this.#turn || this.#over) return;
    for (const tab of this.#tabs) {
      const request = tab.queue.shift();
      if (!request) continue;
      // After its turn a tab goes to the end of the queue.
      this.#tabs.delete(tab);
      this.#tabs.add(tab);
      this.#turn = { tab, number: this.#last + 1 };
      this.#send(tab, request);
      return;
    }
  }

  #turnOver(number: number): void {
    if (this.#turn?.number !== number) return;
    this.#turn = undefined;
    this.#nextTurn();
  }

  #stop(tab: Tab, id: number): void {
    const waits = tab.queue.find((request) => request.id === id);
    if (waits) {
      tab.queue.splice(tab.queue.indexOf(waits), 1);
      return tab.onReply(
        waits.type === "begin"
          ? { type: "aborted", id }
          : { type: "event", id, event: stoppedEnd() },
      );
    }
    for (const common of this.#common.values()) {
      const waiter = [...common.waiting].find((each) => each.tab === tab && each.id === id);
      // The last waiting tab gets the engine's own reply.
      if (waiter) return void (this.#leave(waiter, common) && tab.onReply({ type: "aborted", id }));
    }
    const number = tab.numbers.get(id);
    if (number !== undefined) this.#port.postMessage({ type: "stop", id: number });
  }

  /**
   * Removes a tab from those that wait, and returns true; if it is the last, aborts the request and
   * returns false.
   */
  #leave(waiter: Waiter, common: Common): boolean {
    if (common.waiting.size > 1) return common.waiting.delete(waiter);
    common.stopped = waiter;
    this.#port.postMessage({ type: "stop", id: common.number });
    return false;
  }

  #end(tab: Tab): void {
    if (!this.#tabs.delete(tab)) return;
    if (this.#tabs.size === 0) return this.#close();
    tab.queue = [];
    for (const common of this.#common.values()) {
      for (const waiter of [...common.waiting]) {
        if (waiter.tab === tab && !this.#leave(waiter, common)) common.waiting.delete(waiter);
      }
    }
    for (const number of tab.numbers.values()) this.#port.postMessage({ type: "stop", id: number });
    const turn = this.#turn;
    if (turn?.tab !== tab) return;
    // Ignored after an answer, which the stop ends; a conversation is ended by it.
    this.#port.postMessage({ type: "end", id: ++this.#last, conversation: turn.number });
    if (!this.#hearers.has(turn.number)) this.#turnOver(turn.number);
  }

  /** Ends the engine for all tabs, which open another. */
  fail(event: Pick<ErrorEvent, "message">): void {
    if (this.#over) return;
    const tabs = [...this.#tabs];
    this.#close();
    for (const tab of tabs) tab.onFailed(event);
  }

  #close(): void {
    if (this.#over) return;
    this.#over = true;
    this.#tabs.clear();
    this.#port.terminate();
    this.#onOver();
  }
}
