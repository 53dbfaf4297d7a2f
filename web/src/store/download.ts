/**
 * Completes a model from the state in its journal: several requests at a time; each chunk is
 * written in place and recorded with its SHA-256, and each file is verified as a whole before it
 * counts.
 */
import { Download } from "../protocol/errors.ts";
import { chunkCount, type FileState, type Journal, type RemoteFile } from "./journal.ts";
import type { Meter } from "./meter.ts";
import { retrying, RetryableError, type RetryPolicy } from "./retry.ts";
import { gitBlobId, Sha256, sha256 } from "./sha256.ts";
import type { Folder, OpenPart } from "./shelf.ts";
import {
  askForAll,
  askForRange,
  Changed,
  drain,
  NoRanges,
  type Answered,
  type RequestOptions,
} from "./transfer.ts";

export interface DownloadOptions extends RequestOptions {
  policy: RetryPolicy;
  /** Parallel requests. */
  lanes: number;
  meter: Meter;
}

/** Files up to this size are verified by their git blob id, which needs them whole in memory. */
const mostForGit = 32 << 20;
/** Number of damaged arrivals after which a file is given up. */
const mostDamaged = 2;

/**
 * Downloads, verifies and records what is missing. Throws Download, {@link Changed} if the host's
 * file has changed, the platform's QuotaExceededError, or the signal's reason; finished chunks are
 * kept in any case.
 */
export async function complete(
  folder: Folder,
  journal: Journal,
  options: DownloadOptions,
): Promise<void> {
  const files: OpenFile[] = [];
  try {
    for (const [index, state] of journal.state.files.entries()) {
      const part = await folder.open(String(index));
      const file = new OpenFile(index, state, part, journal);
      if (state.verified && part.size() === state.remote.bytes) part.close();
      else files.push(file);
    }
    reserve(files);
    await new Fetching(files, journal, options).run();
  } finally {
    for (const file of files) file.part.close();
  }
}

/**
 * Sets every file's final size, so that lack of space shows before the download. The browser's
 * estimate is no help: some report a round figure unrelated to the disk.
 */
export function reserve(files: OpenFile[]): void {
  const sizes = files.map(({ part }) => part.size());
  try {
    for (const { part, remote } of files)
      if (part.size() !== remote.bytes) part.truncate(remote.bytes);
  } catch (error) {
    files.forEach(({ part }, index) => part.truncate(sizes[index]!));
    throw error;
  }
}

/** An incomplete file. */
export class OpenFile {
  readonly index: number;
  readonly state: FileState;
  readonly part: OpenPart;
  readonly #journal: Journal;
  /** Whether the host has answered a range request with that range. */
  ranged = false;
  /** Download of the whole file in one response, if the host ignores ranges. */
  streaming: Promise<void> | undefined;
  #digest = new Sha256();
  /** Number of leading chunks that the digest includes. */
  #digested = 0;

  constructor(index: number, state: FileState, part: OpenPart, journal: Journal) {
    this.index = index;
    this.state = state;
    this.part = part;
    this.#journal = journal;
  }

  get remote(): RemoteFile {
    return this.state.remote;
  }

  get chunks(): number {
    return chunkCount(this.remote.bytes, this.#journal.state.chunkBytes);
  }

  /** Verifies the chunks left by an earlier visit; drops those that differ from the journal. */
  async check(signal: AbortSignal, meter: Meter): Promise<void> {
    if (this.state.verified) this.#journal.note({ type: "drop", file: this.index });
    for (const [chunk, noted] of [...this.state.chunks].sort(([a], [b]) => a - b)) {
      signal.throwIfAborted();
      const bytes = this.#read(chunk);
      if (bytes && (await sha256(bytes)) === noted) {
        this.#digestNext(chunk, bytes);
        meter.add(bytes.length);
      } else {
        this.#journal.note({ type: "drop", file: this.index, chunk });
      }
    }
  }

  /** Stores a chunk: writes, flushes, then records it. */
  async keep(chunk: number, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const digest = await sha256(bytes);
    this.part.write(chunk * this.#journal.state.chunkBytes, bytes);
    this.part.flush();
    this.#journal.note({ type: "chunk", file: this.index, chunk, sha256: digest });
    this.#digestOn(chunk, bytes);
  }

  /** Whether the whole file has the host's digest, if it gives one. */
  async isWhole(): Promise<boolean> {
    const { sha256: listed, blobId, bytes } = this.remote;
    if (this.part.size() !== bytes) return false;
    if (listed !== undefined) return this.#digest.digest() === listed;
    if (blobId === undefined || bytes > mostForGit) return true;
    const whole = new Uint8Array(bytes);
    this.part.read(0, whole);
    return (await gitBlobId(whole)) === blobId;
  }

  verified(): void {
    this.#journal.note({ type: "verified", file: this.index });
  }

  drop(): void {
    this.#journal.note({ type: "drop", file: this.index });
    this.part.truncate(0);
    this.#digest = new Sha256();
    this.#digested = 0;
    this.streaming = undefined;
  }

  /**
   * Adds chunks to the digest in order, though they arrive in any; reads them back from disk if
   * necessary.
   */
  #digestOn(chunk: number, bytes: Uint8Array): void {
    if (!this.#digestNext(chunk, bytes)) return;
    while (this.state.chunks.has(this.#digested)) {
      const next = this.#read(this.#digested);
      if (!next || !this.#digestNext(this.#digested, next)) return;
    }
  }

  /** Adds a chunk to the digest if it is the next one. */
  #digestNext(chunk: number, bytes: Uint8Array): boolean {
    if (chunk !== this.#digested || this.remote.sha256 === undefined) return false;
    this.#digest.update(bytes);
    this.#digested++;
    return true;
  }

  #read(chunk: number): Uint8Array<ArrayBuffer> | undefined {
    const { chunkBytes } = this.#journal.state;
    const bytes = new Uint8Array(this.#journal.state.chunkLength(this.remote, chunk));
    return this.part.read(chunk * chunkBytes, bytes) === bytes.length ? bytes : undefined;
  }
}

class Fetching {
  readonly #files: OpenFile[];
  readonly #journal: Journal;
  readonly #options: DownloadOptions;

  constructor(files: OpenFile[], journal: Journal, options: DownloadOptions) {
    this.#files = files;
    this.#journal = journal;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { meter, signal } = this.#options;
    const { state } = this.#journal;
    const finished = state.files
      .filter(({ verified }) => verified)
      .reduce((sum, { remote }) => sum + remote.bytes, 0);
    meter.phase("checking", finished);
    for (const file of this.#files) await file.check(signal, meter);
    let left = this.#files;
    for (let round = 1; left.length > 0; round++) {
      meter.phase("downloading", state.stored);
      await this.#fetch(left);
      meter.phase("verifying");
      left = await this.#verify(left, round === mostDamaged);
    }
  }

  /** Returns the damaged files, which are dropped and must be fetched again. */
  async #verify(files: OpenFile[], last: boolean): Promise<OpenFile[]> {
    const damaged: OpenFile[] = [];
    for (const file of files) {
      if (await file.isWhole()) file.verified();
      else damaged.push(file);
    }
    for (const file of damaged) file.drop();
    const [first] = damaged;
    if (!first || !last) return damaged;
    const { name, url, sha256: listed } = first.remote;
    const digest = listed === undefined ? "git id" : "SHA-256";
    throw new Download(
      `${name} arrived damaged ${mostDamaged} times: ` +
        `its ${digest} is not the one that is listed. Nothing of it was kept. ` +
        `Try again later, or take it from elsewhere than ${new URL(url).host}.`,
    );
  }

  /** Fetches all missing chunks of some files, in parallel up to the limit. */
  async #fetch(files: OpenFile[]): Promise<void> {
    const broken = new AbortController();
    const signal = AbortSignal.any([this.#options.signal, broken.signal]);
    const jobs = missing(files);
    const lane = async (): Promise<void> => {
      for (const { file, chunk } of jobs) await this.#chunk(file, chunk, signal);
    };
    const lanes = Array.from({ length: this.#options.lanes }, () =>
      lane().catch((error: unknown) => {
        broken.abort(error);
        throw error;
      }),
    );
    const settled = await Promise.allSettled(lanes);
    this.#options.signal.throwIfAborted();
    // The first failure aborted the other requests with itself as the reason.
    if (broken.signal.aborted) throw broken.signal.reason;
    for (const outcome of settled) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #chunk(file: OpenFile, chunk: number, signal: AbortSignal): Promise<void> {
    if (file.state.chunks.has(chunk)) return;
    if (!file.streaming) {
      const bytes = await this.#range(file, chunk, signal);
      if (bytes) return file.keep(chunk, bytes);
    }
    await (file.streaming ??= this.#stream(file, signal));
  }

  /**
   * Fetches one chunk by range requests, resuming after a broken connection; undefined if the host
   * ignores ranges.
   */
  async #range(
    file: OpenFile,
    chunk: number,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { remote } = file;
    const { meter, policy, stallMs } = this.#options;
    const { host } = new URL(remote.url);
    const start = chunk * this.#journal.state.chunkBytes;
    const bytes = new Uint8Array(this.#journal.state.chunkLength(remote, chunk));
    let got = 0;
    let before = 0;
    let ignored = 0;
    const attempt = async (): Promise<boolean> => {
      for (let end: number | undefined = start + got; end === start + got && got < bytes.length; ) {
        if (file.streaming !== undefined) return false;
        let answered: Answered;
        try {
          answered = await askForRange(remote.url, remote.name, start + got, start + bytes.length, {
            signal,
            stallMs,
          });
        } catch (error) {
          // A host that supports ranges may fail to once.
          if (error instanceof NoRanges && ((!file.ranged && !error.refused) || ++ignored > 1))
            return false;
          throw error;
        }
        await expect(answered, remote);
        ({ end } = answered);
        let excess = false;
        await drain(answered.body, host, { signal, stallMs }, (piece) => {
          const taken = piece.subarray(0, bytes.length - got);
          bytes.set(taken, got);
          got += taken.length;
          meter.add(taken.length);
          excess = taken.length < piece.length;
          return got < bytes.length;
        });
        if (!excess) continue;
        meter.takeBack(got);
        got = 0;
        throw new RetryableError(`${host} sent more of ${remote.name} than it was asked for.`);
      }
      if (got < bytes.length) throw new RetryableError(`The line to ${host} broke.`);
      file.ranged = true;
      return true;
    };
    const gained = (): boolean => {
      const more = got > before;
      before = got;
      return more;
    };
    try {
      const whole = await retrying(attempt, {
        policy,
        signal,
        gained,
        onWait: (why) => meter.note(why),
      });
      if (whole) return bytes;
    } catch (error) {
      meter.takeBack(got);
      throw error;
    }
    meter.takeBack(got);
    return undefined;
  }

  /**
   * Fetches a whole file in one response. After a broken connection it starts again from the first
   * byte, but stored chunks are not written again, so that every try gets further.
   */
  async #stream(file: OpenFile, signal: AbortSignal): Promise<void> {
    const { remote, state } = file;
    const { meter, policy, stallMs } = this.#options;
    const { host } = new URL(remote.url);
    const note = `${host} can't resume downloads: if the line breaks, this file starts again.`;
    meter.note(note);
    let kept = state.chunks.size;
    const attempt = async (): Promise<void> => {
      const answered = await askForAll(remote.url, remote.name, { signal, stallMs });
      await expect(answered, remote);
      let chunk = 0;
      let fresh = 0;
      let bytes = new Uint8Array(this.#journal.state.chunkLength(remote, 0));
      let filled = 0;
      try {
        await drain(answered.body, host, { signal, stallMs }, async (piece) => {
          for (let at = 0; at < piece.length; ) {
            // A longer file is another one; a digest would detect that anyway.
            if (chunk === file.chunks)
              throw digested(remote)
                ? new RetryableError(`${host} sent more of ${remote.name} than it was asked for.`)
                : new Changed(`${remote.name} has changed at its host.`);
            const taken = piece.subarray(at, at + bytes.length - filled);
            bytes.set(taken, filled);
            at += taken.length;
            filled += taken.length;
            if (!state.chunks.has(chunk)) {
              meter.add(taken.length);
              fresh += taken.length;
            }
            if (filled < bytes.length) continue;
            if (!state.chunks.has(chunk)) await file.keep(chunk, bytes);
            chunk++;
            fresh = 0;
            filled = 0;
            if (chunk < file.chunks)
              bytes = new Uint8Array(this.#journal.state.chunkLength(remote, chunk));
          }
          return true;
        });
        if (chunk < file.chunks) throw new RetryableError(`The line to ${host} broke.`);
      } finally {
        meter.takeBack(fresh);
      }
    };
    const gained = (): boolean => {
      const more = state.chunks.size > kept;
      kept = state.chunks.size;
      return more;
    };
    await retrying(attempt, { policy, signal, gained, onWait: (why) => meter.note(why ?? note) });
    meter.note(undefined);
  }
}

function* missing(files: OpenFile[]): Generator<{ file: OpenFile; chunk: number }> {
  for (const file of files) {
    for (let chunk = 0; chunk < file.chunks; chunk++)
      if (!file.state.chunks.has(chunk)) yield { file, chunk };
  }
}

const digested = ({ sha256, blobId }: RemoteFile): boolean =>
  sha256 !== undefined || blobId !== undefined;

/**
 * Checks that this is still the listed file: by its digest if listed, else by the host's
 * validators.
 */
async function expect({ total, validator, body }: Answered, remote: RemoteFile): Promise<void> {
  const other = total !== undefined && total !== remote.bytes;
  const changed =
    !digested(remote) &&
    (other ||
      (validator !== undefined &&
        remote.validator !== undefined &&
        validator !== remote.validator));
  if (!other && !changed) return;
  await body.cancel().catch(() => undefined);
  if (changed) throw new Changed(`${remote.name} has changed at its host.`);
  throw new RetryableError(
    `${new URL(remote.url).host} sends ${remote.name} ` +
      `with ${total} bytes instead of ${remote.bytes}.`,
  );
}
