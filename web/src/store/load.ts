/**
 * Fetches a small file beside the page, with progress in bytes and abort; checks size and SHA-256
 * before the engine gets a byte. Files from elsewhere go through the store.
 */
import { list, number, shape, text, type Checked } from "../protocol/check.ts";
import { Download, isAbort } from "../protocol/errors.ts";
import type { MemberSource, Progress } from "../protocol/messages.ts";
import { BlobFiles, type ModelFiles } from "../protocol/model-files.ts";
import { decoded } from "./reference.ts";
import { sha256 } from "./sha256.ts";

const manifestEntry = shape({
  name: text,
  /** Name of the file, relative to the manifest. */
  file: text,
  bytes: number,
  sha256: text,
  architecture: text,
  tokenizer: text,
  skills: list(text),
  description: text,
});
const manifestList = list(manifestEntry);

/**
 * One bundled member, as `members/members.json` lists it.
 *
 * @interface
 */
export type ManifestEntry = Checked<typeof manifestEntry>;

export interface DownloadOptions {
  bytes?: number | undefined;
  sha256?: string | undefined;
  signal?: AbortSignal | undefined;
  /** `total` is 0 while unknown. */
  onProgress?: ((loaded: number, total: number) => void) | undefined;
}

/** Reads the list of bundled members. Throws {@link Download}. */
export async function readManifest(
  url: string | URL,
  signal?: AbortSignal,
): Promise<ManifestEntry[]> {
  const data = await download(url, { signal });
  try {
    return manifestList(JSON.parse(new TextDecoder().decode(data)), "members");
  } catch (error) {
    throw new Download(
      `The list of members at ${url} is not what it should be (${String(error)}). ` +
        "Check that the address is that of a list, as members/members.json is one.",
      { cause: error },
    );
  }
}

/** A manifest entry as a source for `add`. */
export function sourceOf(entry: ManifestEntry, manifest: string | URL): MemberSource {
  return {
    name: entry.name,
    url: new URL(entry.file, manifest).href,
    bytes: entry.bytes,
    sha256: entry.sha256,
  };
}

/**
 * Fetches a file beside the page whole into memory: for the bundled members and others as small.
 */
export async function readSource(
  source: MemberSource,
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (progress: Progress) => void },
): Promise<ModelFiles> {
  const { name, url, bytes, sha256 } = source;
  if (url === undefined)
    throw new Download(
      `Member ${name} has neither a reference nor a URL nor files. Give it one of them.`,
    );
  const downloading = (loaded: number, total: number): void =>
    onProgress?.({ phase: "downloading", loaded, total, rate: null, secondsLeft: null });
  const data = await download(url, { bytes, sha256, signal, onProgress: downloading });
  const file = decoded(new URL(url, globalThis.location?.href).pathname.split("/").at(-1) ?? "");
  return new BlobFiles([{ name: file || `${name}.gguf`, blob: new Blob([data]) }]);
}

/** Fetches one file. Throws {@link Download}, or the signal's AbortError. */
export async function download(
  url: string | URL,
  options: DownloadOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const { signal, onProgress } = options;
  let data: Uint8Array<ArrayBuffer>;
  try {
    const response = await fetch(url, signal ? { signal } : {});
    if (!response.ok || !response.body) {
      throw new Download(
        `${url} answered ${response.status}. ` +
          "Check that the file lies beside the page, then reload.",
      );
    }
    // Only a hint: Content-Length counts compressed bytes if the host compresses.
    const total = options.bytes ?? Number(response.headers.get("content-length") ?? 0);
    data = await collect(response.body, total, onProgress);
  } catch (error) {
    if (isAbort(error) || error instanceof Download) throw error;
    signal?.throwIfAborted();
    throw new Download(
      `${url} could not be fetched (${String(error)}). Check the connection, that the page's ` +
        "policy allows it (connect-src), and, on another origin, that its host lets pages read " +
        "it (CORS); then reload.",
      { cause: error },
    );
  }
  if (options.bytes !== undefined && data.length !== options.bytes) {
    throw new Download(
      `${url} has ${data.length} bytes instead of ${options.bytes}: ` +
        "it arrived cut short, or is out of date. Reload to fetch it again.",
    );
  }
  if (options.sha256 !== undefined && (await sha256(data)) !== options.sha256.toLowerCase()) {
    throw new Download(
      `${url} arrived damaged: its SHA-256 is not the listed one. Reload to fetch it again.`,
    );
  }
  return data;
}

async function collect(
  body: ReadableStream<Uint8Array>,
  total: number,
  onProgress: DownloadOptions["onProgress"],
): Promise<Uint8Array<ArrayBuffer>> {
  let data = new Uint8Array(total);
  let loaded = 0;
  onProgress?.(0, total);
  // A reader, since not every browser iterates streams.
  const reader = body.getReader();
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    const chunk = step.value;
    if (loaded + chunk.length > data.length) {
      const larger = new Uint8Array(Math.max(data.length * 2, loaded + chunk.length));
      larger.set(data.subarray(0, loaded));
      data = larger;
    }
    data.set(chunk, loaded);
    loaded += chunk.length;
    onProgress?.(loaded, total);
  }
  return loaded === data.length ? data : data.slice(0, loaded);
}
