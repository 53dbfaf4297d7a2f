/**
 * Tabs with the same members share one engine. It runs in the tab that holds that ensemble's lock;
 * others reach it by broadcast channels, one a tab. A tab's end is detected by its lock, which is
 * released however the tab ends. Tabs that lose the engine reconnect; the first to do so starts the
 * next one.
 */
import type { Port } from "../library/conclave.ts";
import { places } from "../library/places.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { openLocks, type Locks } from "../store/locks.ts";
import { SharedEngine } from "./shared-engine.ts";

/** Timeout for the engine's tab to answer a connection request; after a few the tab gives up. */
const knockMs = 1000;
const knocks = 8;

type Channel = Pick<BroadcastChannel, "postMessage" | "close" | "onmessage">;

interface SharingEnvironment {
  locks: Locks;
  openChannel: (name: string) => Channel;
  startWorker: () => Port;
  /** The engine's tab is gone; `fail` makes this tab's port fail like a worker. */
  onLost: (fail: () => void) => void;
}

/**
 * First reply to a connection request: the lock that the engine's tab holds while the engine
 * exists.
 */
interface Welcome {
  alive: string;
}

/**
 * Undefined if tabs can't share an engine. Not on phones and tablets, which suspend hidden tabs:
 * there each has its own.
 */
export function openSharing(onLost: SharingEnvironment["onLost"]): Sharing | undefined {
  const locks: LockManager | undefined = navigator.locks;
  if (
    !locks ||
    typeof BroadcastChannel === "undefined" ||
    matchMedia("(hover: none) and (pointer: coarse)").matches
  )
    return undefined;
  const sharing = new Sharing({
    locks: openLocks(locks),
    openChannel: (name) => new BroadcastChannel(name),
    startWorker: () => startWorker(places().engine.worker, "conclave"),
    onLost,
  });
  // The browser suspends the page until the visitor returns.
  document.addEventListener("freeze", () => sharing.giveUp());
  return sharing;
}

/** The library's port: queues messages until there is an engine. */
class TabPort implements Port {
  onmessage: Port["onmessage"] = null;
  onmessageerror: Port["onmessageerror"] = null;
  onerror: Port["onerror"] = null;
  /** Set for an engine of this tab. */
  own: SharedEngine | undefined;
  /** Key by which other tabs find it. */
  offered: { key: string | undefined; end: () => void } | undefined;
  ended = false;
  #line: { receive(data: unknown): void; end(): void } | undefined;
  #kept: unknown[] = [];

  connect(line: { receive(data: unknown): void; end(): void }): void {
    if (this.ended) return line.end();
    this.#line = line;
    for (const data of this.#kept.splice(0)) line.receive(data);
  }

  postMessage(data: unknown, transfer: Transferable[] = []): void {
    // Copied now, so that later changes have no effect and an uncloneable value throws at once.
    const copy: unknown = structuredClone(data, { transfer });
    if (this.#line) this.#line.receive(copy);
    else this.#kept.push(copy);
  }

  terminate(): void {
    if (this.ended) return;
    this.ended = true;
    this.#line?.end();
  }

  hear(data: unknown): void {
    if (!this.ended) this.onmessage?.({ data } as MessageEvent<unknown>);
  }

  fail(event: Pick<ErrorEvent, "message">): void {
    if (!this.ended) this.onerror?.(event as ErrorEvent);
  }
}

export class Sharing {
  readonly #env: SharingEnvironment;
  /** Engines of this tab; others may still use one that this tab has left. */
  readonly #engines = new Set<SharedEngine>();
  /** The last port that was started. */
  #port: TabPort | undefined;

  constructor(env: SharingEnvironment) {
    this.#env = env;
  }

  /**
   * A port to the engine of the ensemble `key`, in another tab or in this one. Without a key it is
   * in this tab and private.
   */
  startPort(key: string | undefined): Port {
    const port = (this.#port = new TabPort());
    void this.#connect(port, key).catch((error: unknown) => port.fail({ message: String(error) }));
    return port;
  }

  /** Whether the engine is in another tab, as far as known. */
  get elsewhere(): boolean {
    return this.#port !== undefined && this.#port.own === undefined;
  }

  /** Whether another tab uses the same engine. */
  get shared(): boolean {
    return this.elsewhere || (this.#port?.own?.lines ?? 0) > 1;
  }

  /**
   * Lets other tabs find this tab's engine by its present members; undefined hides it while they
   * change.
   */
  async offer(key: string | undefined): Promise<void> {
    const port = this.#port;
    if (!port?.own || port.offered?.key === key) return;
    port.offered?.end();
    if (key !== undefined) await this.#offer(port, port.own, key);
  }

  /** Ends engines that other tabs use, so that they continue without this one. */
  giveUp(): void {
    for (const engine of [...this.#engines])
      if (engine.lines > 1 || engine !== this.#port?.own)
        engine.fail({ message: "its tab came to rest" });
  }

  async #connect(port: TabPort, key: string | undefined): Promise<void> {
    if (key === undefined) return this.#own(port);
    for (let knock = 0; knock < knocks; knock++) {
      const release = await this.#tryHold(key);
      if (release) return this.#own(port, { key, release });
      if (await this.#follow(port, key)) return;
    }
    this.#own(port);
  }

  /** Some browsers with storage disabled have no locks either. */
  #tryHold(name: string): Promise<(() => void) | undefined> {
    return this.#env.locks.tryHold(name).catch(() => undefined);
  }

  /** Starts an engine in this tab. */
  #own(port: TabPort, held?: { key: string; release: () => void }): void {
    if (port.ended) return held?.release();
    try {
      const engine = (port.own = new SharedEngine(this.#env.startWorker(), () => {
        this.#engines.delete(engine);
        port.offered?.end();
      }));
      this.#engines.add(engine);
      port.connect(
        engine.connect({
          onReply: (reply) => port.hear(reply),
          onFailed: (event) => port.fail(event),
        }),
      );
      if (held) this.#serve(port, engine, held);
    } catch (error) {
      held?.release();
      throw error;
    }
  }

  async #offer(port: TabPort, engine: SharedEngine, key: string): Promise<void> {
    // Another offer replaces this one while the lock is requested.
    const asked = (port.offered = {
      key,
      end: () => void (port.offered === asked && (port.offered = undefined)),
    });
    const release = await this.#tryHold(key);
    if (release && port.offered === asked && !engine.over)
      return this.#serve(port, engine, { key, release });
    release?.();
    asked.end();
  }

  /** Accepts connection requests. */
  #serve(
    port: TabPort,
    engine: SharedEngine,
    { key, release }: { key: string; release: () => void },
  ): void {
    const { locks, openChannel } = this.#env;
    const alive = `${key} ${crypto.randomUUID()}`;
    const over = new AbortController();
    const living = this.#tryHold(alive);
    const door = openChannel(key);
    door.onmessage = ({ data }: MessageEvent<{ tab: string }>) => {
      const channel = openChannel(data.tab);
      const line = engine.connect({
        onReply: (reply) => channel.postMessage(reply),
        onFailed: () => undefined,
      });
      channel.onmessage = ({ data }) => line.receive(data);
      const leave = (): void => (line.end(), channel.close());
      void locks
        .hold(data.tab, "shared", over.signal, () => undefined)
        .then((gone) => (gone(), leave()), leave);
      void living.then(() => channel.postMessage({ alive } satisfies Welcome));
    };
    const offered = {
      key,
      end: (): void => {
        if (port.offered === offered) port.offered = undefined;
        door.close();
        over.abort();
        release();
        void living.then((release) => release?.());
      },
    };
    port.offered = offered;
  }

  /** Asks the engine's tab for a connection. False without an answer. */
  async #follow(port: TabPort, key: string): Promise<boolean> {
    const { locks, openChannel, onLost } = this.#env;
    const tab = `${key} ${crypto.randomUUID()}`;
    const leave = await this.#tryHold(tab);
    if (!leave) return false;
    const channel = openChannel(tab);
    const over = new AbortController();
    const end = (): void => (over.abort(), channel.close(), leave());
    const welcome = await new Promise<Welcome | undefined>((resolve) => {
      channel.onmessage = ({ data }: MessageEvent<Welcome>) => resolve(data);
      setTimeout(resolve, knockMs);
      const door = openChannel(key);
      door.postMessage({ tab });
      door.close();
    });
    if (!welcome || port.ended) {
      end();
      return port.ended;
    }
    channel.onmessage = ({ data }) => port.hear(data);
    const lost = (gone: () => void): void => {
      gone();
      end();
      if (!port.ended) onLost(() => port.fail({ message: "its tab was closed or frozen" }));
    };
    void locks
      .hold(welcome.alive, "shared", over.signal, () => undefined)
      .then(lost, () => undefined);
    port.connect({ receive: (data) => channel.postMessage(data), end });
    return true;
  }
}
