/**
 * Progress of a load as one number from 0 to 1: the engine's module and all members, by bytes. It
 * never falls, and is reported at most ten times a second.
 */
import type { MemberSource, Progress } from "../protocol/messages.ts";

/**
 * Approximate transfer size of the engine's module. It counts in one piece: browsers cache the
 * compiled code of a module only if they read the host's own response, whose bytes can't be
 * counted.
 */
const moduleBytes = 1.5e6;
/**
 * Share of the download in the load of a downloaded member; the rest is its transfer to the engine.
 */
const downloading = 0.9;
const oftenMs = 100;

interface Portion {
  bytes: number;
  /** Share that is done, from 0 to 1. */
  done: number;
  downloaded: boolean;
}

export class Share {
  readonly #report: (share: number) => void;
  readonly #now: () => number;
  readonly #engine: Portion = { bytes: moduleBytes, done: 0, downloaded: true };
  readonly #members = new Map<string, Portion>();
  #most = 0;
  #reportedAt: number;

  /** Reports 0 at once. */
  constructor(tell: (share: number) => void, now = () => performance.now()) {
    this.#report = tell;
    this.#now = now;
    this.#reportedAt = now();
    tell(0);
  }

  /** Adds members to the load. */
  await(sources: readonly MemberSource[]): void {
    for (const { name, bytes, files = [] } of sources)
      this.#members.set(name, {
        bytes: bytes ?? files.reduce((sum, { size }) => sum + size, 0),
        done: 0,
        downloaded: false,
      });
  }

  /** Records that the engine is open. */
  opened(): void {
    this.#engine.done = 1;
    this.#follow();
  }

  member(
    name: string,
    { phase, loaded, total }: Pick<Progress, "phase" | "loaded" | "total">,
  ): void {
    const part = this.#members.get(name);
    if (!part || total === 0) return;
    if (phase === "downloading") {
      Object.assign(part, { bytes: total, downloaded: true, done: (downloading * loaded) / total });
    } else if (phase === "loading") {
      if (part.bytes === 0) part.bytes = total;
      part.done = part.downloaded
        ? downloading + ((1 - downloading) * loaded) / total
        : loaded / total;
    } else return;
    this.#follow();
  }

  /** Removes a member from the load. */
  forget(name: string): void {
    this.#members.delete(name);
  }

  /** Records that a member is loaded. */
  added(name: string): void {
    const part = this.#members.get(name);
    if (!part) return;
    part.done = 1;
    this.#follow();
  }

  /** Reports 1: all is loaded. */
  done(): void {
    this.#most = 1;
    this.#report(1);
  }

  #follow(): void {
    const now = this.#now();
    if (now - this.#reportedAt < oftenMs) return;
    const share = this.#share();
    if (share <= this.#most) return;
    this.#most = share;
    this.#reportedAt = now;
    this.#report(share);
  }

  /** Share so far, below 1; `done` reports 1. */
  #share(): number {
    const members = [...this.#members.values()];
    // A member of unknown size has loaded nothing.
    const known = members.filter(({ bytes, done }) => bytes > 0 || done === 1);
    if (known.length === 0) return 0;
    const [done, bytes] = [...known, this.#engine].reduce(
      ([done, bytes], part) => [done + part.done * part.bytes, bytes + part.bytes],
      [0, 0],
    );
    return Math.min(0.99, (done / bytes) * (known.length / members.length));
  }
}
