/**
 * Tabs of the page that have the same members share one engine. It lives in the tab that holds the
 * lock of that ensemble; others reach it by broadcast channels, one a tab. That a tab has gone is
 * known by its lock, too: it is let go of however the tab ends. Whoever loses the engine connects
 * anew, and the first to do so has the next one.
 */
import type { Port } from "../library/conclave.ts";
import { places } from "../library/places.ts";
import { startWorker } from "../protocol/start-worker.ts";
import { openLocks, type Locks } from "../store/locks.ts";
import { SharedEngine } from "./shared-engine.ts";

/**
 * So long a tab that has the engine may take to answer who knocks; after a few times it is left
 * alone.
 */
const knockMs = 1000;
const knocks = 8;

type Channel = Pick<BroadcastChannel, "postMessage" | "close" | "onmessage">;

export interface Around {
  locks: Locks;
  openChannel: (name: string) => Channel;
  startWorker: () => Port;
  /**
   * The tab that had the engine has gone; `fail` is to this tab as if its own engine had failed.
   */
  onLost: (fail: () => void) => void;
}

/**
 * What a tab that knocks is told first: the lock that the engine's tab holds for as long as there
 * is the engine.
 */
interface Welcome {
  alive: string;
}

/**
 * Undefined where tabs can't share an engine. Phones and tablets let a tab out of sight do nothing:
 * there each has its own.
 */
export function openSharing(onLost: Around["onLost"]): Sharing | undefined {
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
  // The browser lets nothing run here until the visitor comes back.
  document.addEventListener("freeze", () => sharing.giveUp());
  return sharing;
}

/** What the library talks to: keeps what it is given until there is an engine at the other end. */
class TabPort implements Port {
  onmessage: Port["onmessage"] = null;
  onmessageerror: Port["onmessageerror"] = null;
  onerror: Port["onerror"] = null;
  /** An engine of this tab. */
  own: SharedEngine | undefined;
  /** The ensemble that other tabs find it by. */
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
    // As it is now, and refused at once where it can't cross.
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
  readonly #around: Around;
  /** Those of this tab: others may still use one that this tab has left. */
  readonly #engines = new Set<SharedEngine>();
  /** The last that was started. */
  #port: TabPort | undefined;

  constructor(around: Around) {
    this.#around = around;
  }

  /**
   * A port to the engine of the ensemble `key`: another tab's, or one of this tab. Without a key it
   * is this tab's, and nobody finds it.
   */
  startPort(key: string | undefined): Port {
    const port = (this.#port = new TabPort());
    void this.#connect(port, key).catch((error: unknown) => port.fail({ message: String(error) }));
    return port;
  }

  /** Whether the engine is another tab's, as far as is known. */
  get elsewhere(): boolean {
    return this.#port !== undefined && this.#port.own === undefined;
  }

  /** Whether another tab has the same engine. */
  get shared(): boolean {
    return this.elsewhere || (this.#port?.own?.lines ?? 0) > 1;
  }

  /**
   * Lets others find the engine of this tab by the members that it has now; undefined: nobody,
   * while they change.
   */
  async offer(key: string | undefined): Promise<void> {
    const port = this.#port;
    if (!port?.own || port.offered?.key === key) return;
    port.offered?.end();
    if (key !== undefined) await this.#offer(port, port.own, key);
  }

  /** Ends engines that other tabs use, for those to go on without this one. */
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

  /** Where a visitor lets pages store nothing some browsers give them no locks either. */
  #tryHold(name: string): Promise<(() => void) | undefined> {
    return this.#around.locks.tryHold(name).catch(() => undefined);
  }

  /** Starts an engine in this tab. */
  #own(port: TabPort, held?: { key: string; release: () => void }): void {
    if (port.ended) return held?.release();
    try {
      const engine = (port.own = new SharedEngine(this.#around.startWorker(), () => {
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
    // While the lock is asked for: another offer takes its place.
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

  /** Lets tabs in that knock. */
  #serve(
    port: TabPort,
    engine: SharedEngine,
    { key, release }: { key: string; release: () => void },
  ): void {
    const { locks, openChannel } = this.#around;
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

  /** Knocks at the tab that has the engine. False where nobody answers. */
  async #follow(port: TabPort, key: string): Promise<boolean> {
    const { locks, openChannel, onLost } = this.#around;
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
      if (!port.ended) onLost(() => port.fail({ message: "its tab has closed or come to rest" }));
    };
    void locks
      .hold(welcome.alive, "shared", over.signal, () => undefined)
      .then(lost, () => undefined);
    port.connect({ receive: (data) => channel.postMessage(data), end });
    return true;
  }
}
