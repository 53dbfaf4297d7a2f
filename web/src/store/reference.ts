/**
 * How a model is named: `hf:owner/repo/file.gguf@revision`, `hf:owner/repo@revision` for a folder of
 * safetensors, or the address of a GGUF file. Text from a visitor or an address bar: nothing in it is
 * trusted, and nothing of it becomes a path on this machine.
 */
import { BadReference } from "../protocol/errors.ts";

export type Reference =
  /** A file of a repository on the hub, or without `file` its folder of safetensors. */
  | { kind: "hub"; owner: string; repo: string; file?: string; revision: string }
  | { kind: "url"; url: string };

const examples = "For example hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf, hf:HuggingFaceTB/SmolLM2-360M-Instruct, or https://example.org/model.gguf.";
const longest = 1024;
const nameShape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$/;
const revisionShape = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$/;
const defaultRevision = "main";
const hubHosts = ["huggingface.co", "www.huggingface.co", "hf.co"];

/** Reads a reference. Throws {@link BadReference}, whose message shows how one looks. */
export function parseReference(text: string): Reference {
  const trimmed = text.trim();
  if (trimmed === "") throw refusal("Name a model.");
  if (trimmed.length > longest) throw refusal(`The name of a model has at most ${longest} characters.`);
  if (/^hf:/i.test(trimmed)) return parseHub(trimmed.slice(3));
  if (/^https?:/i.test(trimmed)) return parseUrl(trimmed);
  throw refusal(`${JSON.stringify(trimmed)} starts neither with hf: nor with https:.`);
}

/** The one spelling of a reference: what it is stored and listed under. */
export function referenceText(reference: Reference): string {
  if (reference.kind === "url") return reference.url;
  const { owner, repo, file, revision } = reference;
  const at = revision === defaultRevision ? "" : `@${revision}`;
  return `hf:${owner}/${repo}${file === undefined ? "" : `/${file}`}${at}`;
}

/** A name for people: the file without its ending, or the repository. */
export function referenceName(reference: Reference): string {
  const file = reference.kind === "url" ? lastSegment(new URL(reference.url).pathname) : reference.file;
  if (file === undefined) return (reference as Extract<Reference, { kind: "hub" }>).repo;
  return (file.split("/").at(-1) ?? file).replace(/(-\d{5}-of-\d{5})?\.gguf$/i, "");
}

/**
 * All parts of a split GGUF file, if `file` is named as one (`…-00001-of-00003.gguf`), else `file`
 * alone. Throws {@link BadReference} for a part that can't be.
 */
export function splitNames(file: string): string[] {
  const [, stem, part, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/i.exec(file) ?? [];
  if (stem === undefined) return [file];
  const [index, total] = [Number(part), Number(count)];
  if (index < 1 || index > total || total > 1000) throw refusal(`${JSON.stringify(file)} is no part of a split file: parts count from 00001.`);
  const ending = file.slice(-5);
  return Array.from({ length: total }, (_, other) => `${stem}-${String(other + 1).padStart(5, "0")}-of-${count}${ending}`);
}

/** A file's name inside a repository: plain segments, nothing that climbs out. */
export function isFileName(name: string): boolean {
  // eslint-disable-next-line no-control-regex -- control characters are what is refused here
  return name.length <= 255 && name.split("/").every((part) => part !== "" && part !== "." && part !== ".." && !/[\\\u0000-\u001f\u007f]/.test(part));
}

function parseHub(rest: string): Reference {
  const at = rest.lastIndexOf("@");
  const path = at < 0 ? rest : rest.slice(0, at);
  return hub(path.split("/"), at < 0 ? defaultRevision : rest.slice(at + 1));
}

function hub([owner = "", repo = "", ...segments]: string[], revision: string): Reference {
  if (!nameShape.test(owner) || !nameShape.test(repo) || owner.includes("..") || repo.includes("..")) {
    throw refusal(`${JSON.stringify(`${owner}/${repo}`)} is no repository: it is OWNER/NAME.`);
  }
  if (!revisionShape.test(revision) || revision.includes("..")) throw refusal(`${JSON.stringify(revision)} is no revision: it is a branch, a tag or a commit.`);
  if (segments.length === 0) return { kind: "hub", owner, repo, revision };
  const file = segments.join("/");
  if (!isFileName(file)) throw refusal(`${JSON.stringify(file)} is no file name.`);
  if (!/\.gguf$/i.test(file)) throw refusal(`${JSON.stringify(file)} is no .gguf file. Name one, or the repository alone for its safetensors.`);
  return { kind: "hub", owner, repo, file, revision };
}

function parseUrl(text: string): Reference {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refusal(`${JSON.stringify(text)} is no address.`);
  }
  if (url.username !== "" || url.password !== "") throw refusal("An address with a password in it would be stored with it. Leave the password out.");
  if (hubHosts.includes(url.hostname)) return fromHubPage(url);
  if (!/\.gguf$/i.test(url.pathname)) throw refusal(`${url.pathname} is no .gguf file.`);
  url.hash = "";
  return { kind: "url", url: url.href };
}

/** People copy addresses from the hub's pages: what they show is a file or a repository. */
function fromHubPage(url: URL): Reference {
  const [owner = "", repo = "", view, revision = defaultRevision, ...file] = url.pathname.split("/").filter(Boolean).map(decoded);
  if (view === undefined || (view === "tree" && file.length === 0)) return hub([owner, repo], revision);
  if (view === "resolve" || view === "blob" || view === "raw") return hub([owner, repo, ...file], revision);
  throw refusal(`${url.href} shows no model of the hub.`);
}

/** A segment of an address as text; one that can't be decoded stays as it is. */
export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function lastSegment(path: string): string {
  return decoded(path.split("/").at(-1) ?? "");
}

function refusal(what: string): BadReference {
  return new BadReference(`${what} ${examples}`);
}
