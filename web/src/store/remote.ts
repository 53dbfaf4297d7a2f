/**
 * Resolves a reference at its host: files, sizes, and digests if the host has them. Uses the hub's
 * list, since a page can't see the headers of the hub's redirects.
 */
import { list, nullable, number, optional, shape, text, type Checked } from "../protocol/check.ts";
import { Download } from "../protocol/errors.ts";
import { moreTemplates } from "../protocol/model-files.ts";
import type { RemoteFile, RemoteModel } from "./journal.ts";
import {
  decoded,
  inAddress,
  isFileName,
  mostParts,
  referenceText,
  splitNames,
  type Reference,
} from "./reference.ts";
import { usualRetry, retrying, RetryableError, type RetryPolicy } from "./retry.ts";
import {
  askForAll,
  askForRange,
  drain,
  NoRanges,
  type Answered,
  type RequestOptions,
} from "./transfer.ts";

export const publicHub = "https://huggingface.co";

export interface HostOptions extends RequestOptions {
  hub: string;
  policy?: RetryPolicy;
  /** Called with the reason for a pause. */
  onWait?: (why: string | undefined) => void;
  /** Known size and digest of the reference's single file. */
  expected?: { bytes?: number | undefined; sha256?: string | undefined } | undefined;
}

/** Maximum bytes of a list or an index; a longer response is invalid. */
const longestList = 32 << 20;

/** Number of tries of a request: failing costs nothing, and being offline should show quickly. */
const mostQuestions = 3;

const sibling = shape({
  rfilename: text,
  size: optional(nullable(number)),
  blobId: optional(nullable(text)),
  lfs: optional(
    nullable(shape({ sha256: optional(nullable(text)), size: optional(nullable(number)) })),
  ),
});
type Sibling = Checked<typeof sibling>;
const sizeOf = ({ lfs, size }: Sibling): number | null | undefined => lfs?.size ?? size;
const repository = shape({ sha: text, siblings: list(sibling) });
const shardIndex = shape({ weight_map: (data: unknown): unknown[] => Object.values(data ?? {}) });
const isShard = (name: unknown): name is string =>
  typeof name === "string" && isFileName(name) && /^[^/]+\.safetensors$/.test(name);

/** Files of a safetensors folder besides its weights. */
const folderFiles = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  "chat_template.json",
  "processor_config.json",
];
const needed = ["config.json", "tokenizer.json"];
/** Whether a path is that of a named template. */
const isTemplate = (path: string): boolean =>
  path.startsWith(moreTemplates) &&
  /^[^/]+\.jinja$/.test(path.slice(moreTemplates.length)) &&
  isFileName(path);
const wholeWeights = "model.safetensors";
const weightsIndex = "model.safetensors.index.json";

/** Asks the host. Throws Download, Reference. */
export async function askHost(reference: Reference, options: HostOptions): Promise<RemoteModel> {
  const model =
    reference.kind === "hub"
      ? await askHub(reference, options)
      : await askFileHost(reference.url, options);
  const empty = model.files.find((file) => file.bytes === 0);
  if (empty) throw new Download(`${empty.name} is empty at ${model.from}. Choose another model.`);
  const [only] = model.files;
  const { bytes, sha256 } = options.expected ?? {};
  if (only && model.files.length === 1) {
    if (bytes !== undefined && bytes !== only.bytes)
      throw new Download(
        `${referenceText(reference)} has ${only.bytes} bytes instead of ${bytes}: ` +
          "it is not the file that was meant. Correct the size, or the reference.",
      );
    const digest = sha256?.toLowerCase();
    if (digest !== undefined && only.sha256 !== undefined && digest !== only.sha256) {
      throw new Download(
        `${referenceText(reference)} has another SHA-256 at ${model.from} ` +
          "than the one that was asked for: it is not the file that was meant. " +
          "Correct the digest, or the reference.",
      );
    }
    if (digest !== undefined) only.sha256 = digest;
  }
  return { ...model, ref: referenceText(reference) };
}

/** The commit that a revision names now. */
export async function latestCommit(
  reference: Extract<Reference, { kind: "hub" }>,
  options: HostOptions,
): Promise<string> {
  return (await listRepository(reference, options)).sha;
}

type HubReference = Extract<Reference, { kind: "hub" }>;

const segments = (path: string): string => path.split("/").map(encodeURIComponent).join("/");

async function listRepository({ owner, repo, revision }: HubReference, options: HostOptions) {
  const at = `${owner}/${repo}/revision/${encodeURIComponent(revision)}`;
  const url = `${options.hub}/api/models/${at}?blobs=true`;
  const data = await getJson(url, `${owner}/${repo}`, options);
  let found: Checked<typeof repository>;
  try {
    found = repository(data, "repository");
  } catch (error) {
    throw new Download(
      `${new URL(url).host} answered with what is no list of files (${String(error)}). ` +
        "Check the hub's address.",
      { cause: error },
    );
  }
  if (!/^[0-9a-f]{40}$/.test(found.sha))
    throw new Download(
      `The hub answered with an invalid commit (${JSON.stringify(found.sha)}). ` +
        "Check the hub's address.",
    );
  return found;
}

async function askHub(
  reference: HubReference,
  options: HostOptions,
): Promise<Omit<RemoteModel, "ref">> {
  const { sha, siblings } = await listRepository(reference, options);
  const { owner, repo } = reference;
  const base = `${options.hub}/${owner}/${repo}/resolve/${sha}`;
  const listed = new Map(siblings.map((entry) => [entry.rfilename, entry]));

  const file = (name: string): RemoteFile => {
    const entry = listed.get(name);
    if (!entry || !isFileName(name))
      throw new Download(`${owner}/${repo} has no ${name}. ${offer(reference, siblings)}`);
    const bytes = sizeOf(entry);
    if (typeof bytes !== "number" || !Number.isSafeInteger(bytes) || bytes < 0)
      throw new Download(
        `The hub does not tell the size of ${name}. Download it, and choose the file here.`,
      );
    const digest = entry.lfs?.sha256?.toLowerCase();
    if (digest !== undefined && !/^[0-9a-f]{64}$/.test(digest))
      throw new Download(`The hub lists an invalid SHA-256 of ${name}. Check the hub's address.`);
    return {
      // A named template is known by its folder.
      name: isTemplate(name) ? name : (name.split("/").at(-1) ?? name),
      url: `${base}/${segments(name)}`,
      bytes,
      ...(digest === undefined ? {} : { sha256: digest }),
      // For LFS files the blob id is that of the pointer file.
      ...(!entry.lfs && entry.blobId && /^[0-9a-f]{40}$/.test(entry.blobId)
        ? { blobId: entry.blobId }
        : {}),
    };
  };

  const names =
    reference.file === undefined
      ? await folderNames(reference, siblings, base, options)
      : splitNames(reference.file);
  return { from: new URL(options.hub).origin, commit: sha, files: names.map(file) };
}

/** Files of a repository's folder that a model is loaded from. */
async function folderNames(
  reference: HubReference,
  siblings: Sibling[],
  base: string,
  options: HostOptions,
): Promise<string[]> {
  const { owner, repo } = reference;
  const listed = new Map(siblings.map((entry) => [entry.rfilename, sizeOf(entry)]));
  for (const name of needed) {
    if (!listed.has(name))
      throw new Download(
        `${owner}/${repo} has no ${name}: it is no folder of safetensors. ` +
          `${offer(reference, siblings)}`,
      );
  }
  const templates = siblings.map(({ rfilename }) => rfilename).filter(isTemplate);
  // Other files that are empty count as missing.
  const described = [...folderFiles, ...templates].filter(
    (name) => needed.includes(name) || (listed.has(name) && listed.get(name) !== 0),
  );
  if (listed.has(wholeWeights)) return [...described, wholeWeights];
  if (!listed.has(weightsIndex))
    throw new Download(
      `${owner}/${repo} has neither ${wholeWeights} nor ${weightsIndex}. ` +
        `${offer(reference, siblings)}`,
    );
  const data = await getJson(`${base}/${weightsIndex}`, weightsIndex, options);
  try {
    const shards = [...new Set(shardIndex(data, weightsIndex).weight_map)];
    if (shards.length === 0 || shards.length > mostParts || !shards.every(isShard))
      throw new TypeError("it names no safetensors");
    return [...described, weightsIndex, ...shards.sort()];
  } catch (error) {
    throw new Download(
      `${weightsIndex} of ${owner}/${repo} is not what it should be (${String(error)}). ` +
        "Choose another model.",
      { cause: error },
    );
  }
}

/** Text on other files of a repository that could be loaded. */
function offer({ owner, repo }: HubReference, siblings: Sibling[]): string {
  const most = 12;
  const models = siblings
    .map(({ rfilename }) => rfilename)
    .filter((name) => /\.gguf$/i.test(name) && isFileName(name) && splitNames(name)[0] === name);
  if (models.length === 0) return "Look at the repository for what it offers.";
  const bytes = (model: string): number =>
    siblings
      .filter(({ rfilename }) => splitNames(model).includes(rfilename))
      .reduce((sum, entry) => sum + (sizeOf(entry) ?? 0), 0);
  const choices = models
    .slice(0, most)
    .map((name) => `hf:${owner}/${repo}/${name} (${amount(bytes(name))})`);
  const more = models.length > most ? `, and ${models.length - most} more` : "";
  return `Name one of its files: ${choices.join(", ")}${more}.`;
}

/** Bytes formatted for display. */
export function amount(bytes: number): string {
  if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

async function askFileHost(url: string, options: HostOptions): Promise<Omit<RemoteModel, "ref">> {
  const { folder, name, query } = inAddress(url);
  const files: RemoteFile[] = [];
  for (const part of splitNames(name))
    files.push(await askForFile(folder + part + query, decoded(part), options));
  return { from: new URL(url).origin, commit: null, files };
}

/** Finds a file's size and version by requesting its first byte. */
async function askForFile(url: string, name: string, options: HostOptions): Promise<RemoteFile> {
  const answered = await retried(options, async (): Promise<Answered> => {
    const first = await askForRange(url, name, 0, 1, options).catch((error: unknown) => {
      if (error instanceof NoRanges) return undefined;
      throw error;
    });
    if (first) await first.body.cancel().catch(() => undefined);
    if (first?.total !== undefined) return first;
    const all = await askForAll(url, name, options);
    await all.body.cancel().catch(() => undefined);
    return all;
  });
  if (answered.total === undefined)
    throw new Download(
      `${new URL(url).host} does not tell the size of ${name}. ` +
        "Download it, and choose the file here.",
    );
  return {
    name,
    url,
    bytes: answered.total,
    ...(answered.validator === undefined ? {} : { validator: answered.validator }),
  };
}

async function getJson(url: string, what: string, options: HostOptions): Promise<unknown> {
  const { host } = new URL(url);
  return retried(options, async () => {
    const { body } = await askForAll(url, what, options);
    const decoder = new TextDecoder();
    let said = "";
    await drain(body, host, options, (piece) => {
      said += decoder.decode(piece, { stream: true });
      if (said.length > longestList)
        throw new Download(`${host} sends too long a list for ${what}. Check the hub's address.`);
      return true;
    });
    try {
      return JSON.parse(said + decoder.decode()) as unknown;
    } catch (error) {
      throw new RetryableError(`${host} answered for ${what} with what is no JSON.`, {
        cause: error,
      });
    }
  });
}

function retried<T>(options: HostOptions, attempt: () => Promise<T>): Promise<T> {
  const { policy = usualRetry, signal, onWait = () => {} } = options;
  const tries = Math.min(policy.tries, mostQuestions);
  return retrying(attempt, {
    policy: { ...policy, tries },
    signal,
    gained: () => false,
    onWait,
    // A page can't tell a host that refuses its origin from one that is down.
    advice:
      "Check the address and the connection, then try again. If other downloads work, the host may " +
      "not let web pages read its files (CORS): download the file and choose it here.",
  });
}
