#!/usr/bin/env node
/**
 * A local model hub for the tests: serves a folder like the Hugging Face hub, with its redirects,
 * headers and errors, and injects faults on request.
 *
 *     node tests/hub/hub.mjs --root DIR [--port 0] [--cdn-port 0]
 *
 * prints one line, {"port": N} (and "cdnPort" if files come from a separate port, and so origin),
 * and serves DIR/OWNER/REPO/FILE until it is killed:
 *
 *   GET /OWNER/REPO/resolve/REVISION/FILE        large files: 302 to /cdn/…, with X-Linked-Size,
 *       X-Linked-Etag (sha256), X-Repo-Commit; small ones: 307 to /api/resolve-cache/…, whose ETag
 *       is the git blob id. `main` is the current commit; any other revision must equal it.
 *   GET /api/models/OWNER/REPO[/revision/REVISION][?blobs=true]   the files, their sizes and ids
 *   GET /files/OWNER/REPO/FILE                   a plain file host: no redirect, no digest
 *   GET /dated/OWNER/REPO/FILE                   one with dates instead of ETags, and no If-Range
 *
 * For the tests themselves:
 *
 *   POST /faults    one fault or a list of them (see `Fault` below); returns their number
 *   DELETE /faults  removes all faults
 *   GET /log        every request so far: method, path, range, token, status, bytes sent
 *   DELETE /log     clears the log
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

/**
 * @typedef {object} Fault
 * @property {string} kind  cut (the connection breaks), flip (a byte is wrong), stall (the
 *   connection stays open and silent), slow (`bytesPerSecond`), no-range (ranges are ignored), no-range-416 (they
 *   are refused), wrong-range (another range than asked), short-range (only its beginning),
 *   wrong-total (a range of a longer file), wrong-length (half of what is announced), longer (no
 *   ranges, no length, and more bytes than there were), changed (another file by that name),
 *   garbage (a page where a list is due), or a status: 401, 403, 404, 416, 425, 429, 500, 503
 * @property {string} [file]  which files, with `*` for anything: "*.gguf"; for `on: "api"`, which
 *   repositories
 * @property {"bytes" | "resolve" | "api"} [on]  which response: the bytes (the default), the
 *   redirect to it (the default for 401, 403, 404), or the list of files
 * @property {number} [times]  number of responses; 1 if left out, 0 for all
 * @property {number} [skip]  number of responses before the fault
 * @property {number} [after]  bytes of the body before the fault
 * @property {number | string} [retryAfter]  the Retry-After of a 429 or 503
 * @property {number} [bytesPerSecond]
 */

const { values: options } = parseArgs({
  options: { root: { type: "string" }, port: { type: "string", default: "0" }, "cdn-port": { type: "string" } },
});
if (!options.root) {
  console.error("usage: hub.mjs --root DIR [--port N] [--cdn-port N]");
  process.exit(2);
}
const root = options.root;

/** What the hub keeps outside of git, and so knows the SHA-256 of. */
const isLarge = (name, size) => size > 1 << 20 || /\.(gguf|safetensors|bin)$/.test(name);

const exposed = "X-Repo-Commit,X-Request-Id,X-Error-Code,X-Error-Message,X-Total-Count,ETag,Link,Accept-Ranges,Content-Range,X-Linked-Size,X-Linked-ETag,X-Xet-Hash";
const quoted = (text) => `"${text}"`;

/** @type {Fault[]} */
let faults = [];
let log = [];
let cdnOrigin = "";

/**
 * Digests by path, number, size and time of change, which two files in a row may have in common:
 * hashing a gigabyte once is enough.
 */
const digests = new Map();
async function digestsOf(path, { ino, size, mtimeMs }) {
  const key = `${path} ${ino} ${size} ${mtimeMs}`;
  if (!digests.has(key)) {
    const compute = async () => {
      const sha256 = createHash("sha256");
      const blob = createHash("sha1").update(`blob ${size}\0`);
      for await (const piece of createReadStream(path)) {
        sha256.update(piece);
        blob.update(piece);
      }
      return { sha256: sha256.digest("hex"), blob: blob.digest("hex") };
    };
    digests.set(key, compute());
  }
  return digests.get(key);
}

/**
 * A repository's files with sizes and ids, and a commit computed from them; undefined if missing.
 */
async function repository(id) {
  const folder = join(root, id);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => undefined);
  if (!entries) return undefined;
  const files = [];
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const found = await stat(path);
    files.push({ name: relative(folder, path).split(sep).join("/"), path, size: found.size, date: found.mtime.toUTCString(), ...(await digestsOf(path, found)) });
  }
  files.sort((a, b) => (a.name < b.name ? -1 : 1));
  const commit = createHash("sha1").update(files.map(({ name, blob }) => `${name} ${blob}\n`).join("")).digest("hex");
  return { commit, files };
}

/** The fault that applies to this response, if any; counts it. */
function faultFor(on, name) {
  for (const fault of faults) {
    const usual = ["401", "403", "404"].includes(String(fault.kind)) ? "resolve" : "bytes";
    if ((fault.on ?? usual) !== on) continue;
    const pattern = (fault.file ?? "*").split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*");
    if (!new RegExp(`^(.*/)?${pattern}$`).test(name)) continue;
    if ((fault.skip ?? 0) > 0) {
      fault.skip--;
      continue;
    }
    if (fault.times === undefined) fault.times = 1;
    if (fault.times < 0) continue;
    if (fault.times > 0 && --fault.times === 0) fault.times = -1;
    return fault;
  }
  return undefined;
}

/** Waits until the written data is flushed or the client disconnects. */
function drained(response) {
  return new Promise((resolve) => {
    const settle = () => {
      response.off("drain", settle).off("close", settle);
      resolve();
    };
    response.on("drain", settle).on("close", settle);
  });
}

class Answer {
  constructor(request, response, entry) {
    this.request = request;
    this.response = response;
    this.entry = entry;
  }

  head(status, headers = {}) {
    this.entry.status = status;
    this.response.writeHead(status, {
      "access-control-allow-origin": "*",
      "access-control-expose-headers": exposed,
      "cross-origin-resource-policy": "cross-origin",
      ...headers,
    });
  }

  end(body = "") {
    this.response.end(this.request.method === "HEAD" ? undefined : body);
  }

  json(status, value, headers = {}) {
    const body = JSON.stringify(value);
    this.head(status, { "content-type": "application/json; charset=utf-8", "content-length": Buffer.byteLength(body), ...headers });
    this.end(body);
  }

  /** Sends an error as the hub does. */
  error(status, code, message, headers = {}) {
    this.json(status, { error: message }, { ...(code ? { "x-error-code": code, "x-error-message": message } : {}), ...headers });
  }

  /** Sends the status of a fault; false if it has none. */
  status(fault, size) {
    const retry = fault.retryAfter === undefined ? {} : { "retry-after": fault.retryAfter };
    switch (String(fault.kind)) {
      case "401":
        this.error(401, "GatedRepo", "Access to this model is restricted. You must have access to it and be authenticated to access it.");
        return true;
      case "403":
        this.error(403, "GatedRepo", "Access to this model is restricted and you are not in the authorized list.");
        return true;
      case "404":
        this.error(404, "EntryNotFound", "Entry not found");
        return true;
      case "416":
        this.error(416, undefined, "Range not satisfiable", { "content-range": `bytes */${size}` });
        return true;
      case "429":
        this.error(429, undefined, "Too many requests", retry);
        return true;
      case "425":
      case "500":
      case "503":
        this.error(Number(fault.kind), undefined, "Service unavailable", retry);
        return true;
      case "garbage":
        this.head(200, { "content-type": "text/html" });
        this.end("<!doctype html>Sign in to this network");
        return true;
      default:
        return false;
    }
  }

  /**
   * Sends a file's bytes, or the requested range, subject to the fault.
   */
  async bytes(file, headers) {
    const fault = faultFor("bytes", file.name);
    if (fault && this.status(fault, file.size)) return;
    const kind = fault?.kind;
    const changed = kind === "changed";
    const mark = headers.etag === undefined ? { "last-modified": changed ? new Date(0).toUTCString() : file.date } : { etag: changed ? quoted("changed") : headers.etag };
    const ifRange = mark.etag && this.request.headers["if-range"];
    if (kind === "no-range-416" && this.request.headers.range) return this.error(416, undefined, "Range not satisfiable");
    if (kind === "longer") {
      this.head(200, headers);
      this.response.write(Buffer.alloc(file.size, 1));
      return this.end("more");
    }
    const asked = kind === "no-range" || (ifRange && ifRange !== mark.etag) ? undefined : this.request.headers.range;
    let range = { start: 0, end: file.size };
    if (asked) {
      const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(asked) ?? [];
      range = { start: Number(from), end: Math.min(to ? Number(to) + 1 : file.size, file.size) };
      if (!(range.start < range.end)) {
        return this.error(416, undefined, "Range not satisfiable", { "content-range": `bytes */${file.size}` });
      }
      if (kind === "short-range") range.end = Math.min(range.end, range.start + 40_000);
      if (kind === "wrong-range") range = { start: Math.max(0, range.start - 1), end: Math.max(1, range.end - 1) };
    }
    const length = range.end - range.start;
    this.head(asked ? 206 : 200, {
      "content-type": "application/octet-stream",
      "content-length": length,
      ...(kind?.startsWith("no-range") ? {} : { "accept-ranges": "bytes" }),
      ...(asked ? { "content-range": `bytes ${range.start}-${range.end - 1}/${file.size + (kind === "wrong-total" ? 1 : 0)}` } : {}),
      ...headers,
      ...mark,
    });
    if (this.request.method === "HEAD" || length === 0) return this.end();

    const breaks = kind === "cut" || kind === "stall";
    const well = breaks ? Math.min(fault.after ?? 0, length) : kind === "wrong-length" ? length >> 1 : length;
    const { response, entry } = this;
    let sent = 0;
    response.flushHeaders();
    if (well > 0) {
      for await (const piece of createReadStream(file.path, { start: range.start, end: range.start + well - 1 })) {
        if (response.destroyed) return;
        if (changed) piece.forEach((byte, index) => (piece[index] = byte ^ 0xff));
        const wrong = (fault?.after ?? 0) - sent;
        if (kind === "flip" && wrong >= 0 && wrong < piece.length) piece[wrong] ^= 0xff;
        if (kind === "slow" && faults.includes(fault)) await sleep((piece.length / (fault.bytesPerSecond ?? 1 << 18)) * 1000);
        sent += piece.length;
        entry.sent = sent;
        if (!response.write(piece)) {
          await drained(response);
        }
      }
    }
    if (kind === "stall") return;
    if (sent === length) return response.end();
    // Written data must arrive before the cut, or the client sees less than `after`; long enough for
    // a busy machine.
    if (sent > 0) await sleep(1000);
    response.destroy();
  }
}

async function serve(answer, url) {
  const { request } = answer;
  const parts = url.pathname.split("/").slice(1).map(decodeURIComponent);
  if (parts.some((part) => part === ".." || part === "")) return answer.error(404, undefined, "Not found");

  if (parts[0] === "cdn") {
    // /cdn/OWNER/REPO/SHA256/FILE, like a signed URL: it knows no revision.
    const [, owner, repo, , ...file] = parts;
    const found = (await repository(`${owner}/${repo}`))?.files.find(({ name }) => name === file.join("/"));
    if (!found) return answer.error(403, undefined, "AccessDenied");
    return answer.bytes(found, { etag: quoted(found.sha256) });
  }
  if (parts[0] === "files" || parts[0] === "dated") {
    const [, owner, repo, ...file] = parts;
    const found = (await repository(`${owner}/${repo}`))?.files.find(({ name }) => name === file.join("/"));
    if (!found) return answer.error(404, undefined, "Not found");
    return answer.bytes(found, parts[0] === "dated" ? {} : { etag: quoted(found.blob) });
  }
  if (parts[0] === "api" && parts[1] === "resolve-cache") {
    const [, , , owner, repo, commit, ...file] = parts;
    const found = (await repository(`${owner}/${repo}`))?.files.find(({ name }) => name === file.join("/"));
    if (!found) return answer.error(404, "EntryNotFound", "Entry not found");
    return answer.bytes(found, { etag: quoted(found.blob), "x-repo-commit": commit });
  }
  if (parts[0] === "api" && parts[1] === "models") {
    const [, , owner, repo, , revision = "main"] = parts;
    return models(answer, `${owner}/${repo}`, revision, url.searchParams.get("blobs") === "true");
  }
  if (parts[2] === "resolve" && parts.length > 4) {
    const [owner, repo, , revision, ...file] = parts;
    return resolve(answer, `${owner}/${repo}`, revision, file.join("/"));
  }
  return answer.error(404, undefined, `Not found: ${request.url}`);
}

/** The repository at a revision, or undefined after sending an error. */
async function atRevision(answer, id, revision) {
  const found = await repository(id);
  // The hub does not reveal whether a repository is private or missing.
  if (!found) answer.error(401, "RepoNotFound", "Repository not found");
  else if (revision !== "main" && revision !== found.commit) answer.error(404, "RevisionNotFound", "Revision not found");
  else return found;
  return undefined;
}

async function models(answer, id, revision, blobs) {
  const fault = faultFor("api", id);
  if (fault && answer.status(fault, 0)) return;
  const found = await atRevision(answer, id, revision);
  if (!found) return;
  const siblings = found.files.map(({ name, size, sha256, blob }) => {
    if (!blobs) return { rfilename: name };
    const lfs = isLarge(name, size) ? { lfs: { sha256, size, pointerSize: 134 } } : {};
    return { rfilename: name, size, blobId: blob, ...lfs };
  });
  answer.json(200, { id, modelId: id, sha: found.commit, private: false, gated: false, disabled: false, siblings });
}

async function resolve(answer, id, revision, name) {
  const fault = faultFor("resolve", name);
  if (fault && answer.status(fault, 0)) return;
  const repo = await atRevision(answer, id, revision);
  if (!repo) return;
  const file = repo.files.find((one) => one.name === name);
  if (!file) return answer.error(404, "EntryNotFound", "Entry not found", { "x-repo-commit": repo.commit });
  const path = (...segments) => segments.join("/").split("/").map(encodeURIComponent).join("/");
  const headers = { "x-repo-commit": repo.commit, "accept-ranges": "bytes" };
  if (isLarge(name, file.size)) {
    answer.head(302, {
      ...headers,
      location: `${cdnOrigin}/cdn/${path(id, file.sha256, name)}?Expires=1&Signature=none`,
      "x-linked-size": file.size,
      "x-linked-etag": quoted(file.sha256),
      etag: quoted(file.sha256),
    });
  } else {
    answer.head(307, { ...headers, location: `/api/resolve-cache/models/${path(id, repo.commit, name)}?etag=${file.blob}`, etag: quoted(file.blob) });
  }
  answer.end();
}

async function control(answer, url) {
  const { request } = answer;
  if (request.method === "OPTIONS") {
    answer.head(204, { "access-control-allow-methods": "GET, POST, DELETE", "access-control-allow-headers": "content-type" });
    return answer.end();
  }
  if (url.pathname === "/log") {
    if (request.method === "DELETE") log = [];
    return answer.json(200, log);
  }
  if (request.method === "DELETE") faults = [];
  if (request.method === "POST") {
    let body = "";
    for await (const piece of request) body += piece;
    faults.push(...[JSON.parse(body)].flat());
  }
  return answer.json(200, { faults: faults.length });
}

function listen(port) {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://hub");
    const tests = url.pathname === "/faults" || url.pathname === "/log";
    const token = request.headers.authorization !== undefined;
    const entry = { method: request.method, path: url.pathname, range: request.headers.range ?? null, token, status: 0, sent: 0 };
    if (!tests) log.push(entry);
    const answer = new Answer(request, response, entry);
    const work = async () => {
      if (tests) return control(answer, url);
      // As strict as a file host may be: a page must do without CORS preflight requests.
      if (!["GET", "HEAD"].includes(request.method ?? "")) return answer.error(405, undefined, "Method not allowed");
      return serve(answer, url);
    };
    work().catch((error) => {
      console.error(String(error));
      if (response.headersSent) response.destroy();
      else answer.error(500, undefined, String(error));
    });
  });
  return new Promise((ready) => server.listen(Number(port), "127.0.0.1", () => ready(server.address().port)));
}

const port = await listen(options.port);
const cdnPort = options["cdn-port"] === undefined ? undefined : await listen(options["cdn-port"]);
cdnOrigin = `http://127.0.0.1:${cdnPort ?? port}`;
console.log(JSON.stringify({ port, ...(cdnPort === undefined ? {} : { cdnPort }) }));
