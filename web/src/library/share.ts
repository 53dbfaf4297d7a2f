/**
 * How far a load is, as one number from 0 to 1: the engine's module and all members, by their
 * bytes. It never falls, and is told ten times a second at most.
 */
import type { MemberSource, Progress } from "../protocol/messages.ts";

/**
 * What hosts send of the engine's module, about. It counts in one piece: browsers keep the compiled
 * code of a module only where they read the host's own answer, which nobody then can count.
 */
const moduleBytes = 1.5e6;
/**
 * What the download is of a member that has to be downloaded; the rest is its way to the engine.
 */
const downloading = 0.9;
const oftenMs = 100;

interface Part {
  bytes: number;
  /** From 0 to 1. */
  done: number;
  downloaded: boolean;
}

export class Share {
  readonly #tell: (share: number) => void;
  readonly #now: () => number;
  readonly #engine: Part = { bytes: moduleBytes, done: 0, downloaded: true };
  readonly #members = new Map<string, Part>();
  #most = 0;
  #toldAt: number;

  /** Tells 0 at once. */
  constructor(tell: (share: number) => void, now = () => performance.now()) {
    this.#tell = tell;
    this.#now = now;
    this.#toldAt = now();
    tell(0);
  }

  /** Waits for these members as well. */
  await(sources: readonly MemberSource[]): void {
    for (const { name, bytes, files = [] } of sources)
      this.#members.set(name, {
        bytes: bytes ?? files.reduce((sum, { size }) => sum + size, 0),
        done: 0,
        downloaded: false,
      });
  }

  /** The engine is open. */
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

  /** A member is not waited for any more. */
  forget(name: string): void {
    this.#members.delete(name);
  }

  /** A member is loaded. */
  added(name: string): void {
    const part = this.#members.get(name);
    if (!part) return;
    part.done = 1;
    this.#follow();
  }

  /** All is there. */
  done(): void {
    this.#most = 1;
    this.#tell(1);
  }

  #follow(): void {
    const now = this.#now();
    if (now - this.#toldAt < oftenMs) return;
    const share = this.#share();
    if (share <= this.#most) return;
    this.#most = share;
    this.#toldAt = now;
    this.#tell(share);
  }

  /** Below 1: that is told when all is there. */
  #share(): number {
    const members = [...this.#members.values()];
    // Who has told no size yet is not here.
    const known = members.filter(({ bytes, done }) => bytes > 0 || done === 1);
    if (known.length === 0) return 0;
    const [done, bytes] = [...known, this.#engine].reduce(
      ([done, bytes], part) => [done + part.done * part.bytes, bytes + part.bytes],
      [0, 0],
    );
    return Math.min(0.99, (done / bytes) * (known.length / members.length));
  }
}
