/**
 * References of models: `hf:owner/repo/file.gguf@revision`, `hf:owner/repo@revision` for a folder
 * of safetensors, or the address of a GGUF file. Untrusted text from a visitor or an address bar.
 * The tool has the same rules: tests/hub/references.json holds them, with their cases.
 */
import { BadReference } from "../protocol/errors.ts";

export type Reference =
  /** A file of a repository on the hub, or without `file` its folder of safetensors. */
  | { kind: "hub"; owner: string; repo: string; file?: string; revision: string }
  | { kind: "url"; url: string };

const examples =
  "For example hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf, " +
  "hf:HuggingFaceTB/SmolLM2-360M-Instruct, or https://example.org/model.gguf.";
const longestAddress = 4096;
/**
 * Limit on the percent-encoded length of a file's path or a revision: the tool uses it as one
 * folder's name.
 */
const longestPath = 200;
/** Maximum number of files of a model's weights. */
export const mostParts = 1000;
const nameShape = /^(?![. -])(?!.*[. ]$)[\p{Alphabetic}\p{N}._\-+=,() ]+$/u;
const deviceShape = /^(con|prn|aux|nul|(com|lpt)\d) *(\.|$)/i;
const repositoryShape = /^(?!.*\.\.)[\w.-]{1,96}$/;
const fileShape = /\.gguf$/i;
const addressShape =
  /^(https?:\/\/)([\w-]+(?:\.[\w-]+)*|\[[\da-f:]+\])((?::\d{1,5})?)(\/[^?#]*)(?:\?([^#]*))?(?:#.*)?$/i;
const defaultRevision = "main";
const hubHosts = ["huggingface.co", "www.huggingface.co", "hf.co"];

/** Parses a reference. Throws {@link BadReference}, whose message shows examples. */
export function parseReference(text: string): Reference {
  const trimmed = text.replace(/^[\s\u0085]+|[\s\u0085]+$/g, "");
  if (trimmed === "") throw refusal("Name a model.");
  if (/^hf:/i.test(trimmed)) return parseHub(trimmed.slice(3).replace(/^\/\//, ""));
  if (/^https?:/i.test(trimmed)) return parseAddress(trimmed);
  throw refusal(`${quoted(trimmed)} starts neither with hf: nor with https:.`);
}

/** Canonical spelling of a reference, used for storage and lists. */
export function referenceText(reference: Reference): string {
  if (reference.kind === "url") return reference.url;
  const { owner, repo, file, revision } = reference;
  const at = revision === defaultRevision ? "" : `@${revision}`;
  return `hf:${owner}/${repo}${file === undefined ? "" : `/${file}`}${at}`;
}

/** Display name: the file without its extension, or the repository. */
export function referenceName(reference: Reference): string {
  const file = reference.kind === "url" ? inAddress(reference.url).name : reference.file;
  if (file === undefined) return (reference as Extract<Reference, { kind: "hub" }>).repo;
  return decoded(file.split("/").at(-1) ?? file).replace(/(-\d{5}-of-\d{5})?\.gguf$/i, "");
}

/**
 * All parts of a split GGUF file, if `file` is named as one (`…-00001-of-00003.gguf`), else
 * `file` alone.
 */
export function splitNames(file: string): string[] {
  const [, stem, part, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/.exec(file) ?? [];
  const [index, total] = [Number(part), Number(count)];
  if (stem === undefined || index < 1 || index > total || total > mostParts) return [file];
  return Array.from(
    { length: total },
    (_, other) => `${stem}-${String(other + 1).padStart(5, "0")}-of-${count}.gguf`,
  );
}

/**
 * Splits an address: up to the last slash of its path, the name after it, and the query with its
 * `?`.
 */
export function inAddress(address: string): { folder: string; name: string; query: string } {
  const [, folder = "", name = "", query = ""] = /^([^?]*\/)([^?]*)(.*)$/.exec(address) ?? [];
  return { folder, name, query };
}

/**
 * Whether this is a valid and not too long file name inside a repository, safe as a path on every
 * platform.
 */
export function isFileName(name: string): boolean {
  return (
    name.split("/").every(isName) &&
    encodeURIComponent(name).replace(/[()]/g, "%28").length <= longestPath
  );
}

const isName = (name: string): boolean => nameShape.test(name) && !deviceShape.test(name);
const firstPart = (file: string): string => splitNames(file)[0]!;

function parseHub(rest: string): Reference {
  const at = rest.indexOf("@");
  const [place, revision] =
    at < 0 ? [rest, defaultRevision] : [rest.slice(0, at), rest.slice(at + 1)];
  return hub(place.replace(/\/$/, "").split("/"), revision);
}

function hub([owner = "", repo = "", ...segments]: string[], revision: string): Reference {
  if (![owner, repo].every((name) => isName(name) && repositoryShape.test(name)))
    throw refusal(`${quoted(`${owner}/${repo}`)} is no repository: it is OWNER/NAME.`);
  if (fileShape.test(revision))
    throw refusal(`${quoted(revision)} is a file behind the @: what follows that is a revision.`);
  if (!isFileName(revision) || revision.endsWith(".part"))
    throw refusal(`${quoted(revision)} is no revision: it is a branch, a tag or a commit.`);
  if (segments.length === 0) return { kind: "hub", owner, repo, revision };
  const file = segments.join("/");
  if (!isFileName(file)) throw refusal(`${quoted(file)} is no file name.`);
  if (!fileShape.test(file))
    throw refusal(
      `${quoted(file)} is no .gguf file. Name one, or the repository alone for its safetensors.`,
    );
  return { kind: "hub", owner, repo, file: firstPart(file), revision };
}

function parseAddress(text: string): Reference {
  // The URL parser silently turns these into another address.
  const [, scheme = "", host = "", port = "", path = "", query = ""] =
    (/[\p{Cc}\p{Cs}\\]/u.test(text) ? undefined : addressShape.exec(text)) ?? [];
  const url = URL.canParse(scheme + host + port) ? new URL(scheme + host + port) : undefined;
  // The text may hold a password, so it is not repeated.
  if (url?.hostname !== host.toLowerCase())
    throw refusal(
      "That is no address of a file, or has a user's name in it, which would be stored with it.",
    );
  if (hubHosts.includes(url.host)) return fromHubPage(path);
  const segments = path.split("/").map(decoded);
  const name = segments.at(-1)!;
  if (!fileShape.test(name)) throw refusal(`${quoted(path)} is no .gguf file.`);
  if (
    !isFileName(name) ||
    name.includes("/") ||
    segments.some((segment) => segment === "." || segment === "..")
  )
    throw refusal(`${quoted(path)} is no path of a file.`);
  const { folder, name: file } = inAddress(encoded(path));
  const address = `${url.origin}${folder}${firstPart(file)}${query && `?${encoded(query)}`}`;
  if (address.length > longestAddress)
    throw refusal(`An address has at most ${longestAddress} characters.`);
  return { kind: "url", url: address };
}

/** Accepts addresses of the hub's pages, which show a file or a repository. */
function fromHubPage(path: string): Reference {
  const [owner = "", repo = "", view, revision, ...file] = path
    .slice(1)
    .replace(/\/$/, "")
    .split("/")
    .map(decoded);
  if (view === undefined) return hub([owner, repo], defaultRevision);
  if (revision !== undefined) {
    if (view === "tree" && file.length === 0) return hub([owner, repo], revision);
    if (["resolve", "blob", "raw"].includes(view) && file.length > 0)
      return hub([owner, repo, ...file], revision);
  }
  throw refusal(`${quoted(path)} shows no model of the hub.`);
}

/** Decodes a segment of an address; one that can't be decoded stays as it is. */
export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const encoded = (text: string): string => text.replace(/[^!-~]/gu, encodeURIComponent);
const quoted = (text: string): string => JSON.stringify(text.slice(0, 200));

function refusal(what: string): BadReference {
  return new BadReference(`${what} ${examples}`);
}
