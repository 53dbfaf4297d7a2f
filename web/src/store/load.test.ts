/** Downloads from a real server on this machine: whole, damaged, truncated, stopped, missing. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { Download } from "../protocol/errors.ts";
import { download, readManifest, readSource, sourceOf } from "./load.ts";
import { gitBlobId, Sha256, sha256 } from "./sha256.ts";

const file = randomBytes(300_000);
const digest = createHash("sha256").update(file).digest("hex");
const entry = {
  name: "Ada",
  file: "ada.gguf",
  bytes: file.length,
  sha256: digest,
  architecture: "Llama",
  tokenizer: "BPE",
  skills: ["add"],
  description: "Adds.",
};

function answer(request: IncomingMessage, response: ServerResponse): void {
  switch (request.url) {
    case "/whole":
    case "/members/ada.gguf":
      // In pieces, so that progress has steps.
      response.writeHead(200, { "content-length": file.length });
      response.write(file.subarray(0, 100_000));
      setTimeout(() => response.end(file.subarray(100_000)), 20);
      break;
    case "/unsized":
      response.writeHead(200);
      response.write(file.subarray(0, 1000));
      setTimeout(() => response.end(file.subarray(1000)), 5);
      break;
    case "/damaged": {
      const damaged = Buffer.from(file);
      damaged[150_000]! ^= 1;
      response.end(damaged);
      break;
    }
    case "/short":
      response.end(file.subarray(0, 299_999));
      break;
    case "/torn":
      response.writeHead(200, { "content-length": file.length });
      response.write(file.subarray(0, 1000));
      setTimeout(() => response.destroy(), 20);
      break;
    case "/endless":
      response.writeHead(200);
      response.write(file.subarray(0, 1000));
      break;
    case "/members/members.json":
      response.end(JSON.stringify([entry]));
      break;
    case "/members/wrong.json":
      response.end(JSON.stringify([{ ...entry, bytes: "many" }]));
      break;
    default:
      response.writeHead(404).end();
  }
}

let server: Server;
let base = "";
before(async () => {
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

test("a whole file arrives with progress in bytes", async () => {
  const seen: [number, number][] = [];
  const data = await download(`${base}/whole`, {
    bytes: file.length,
    sha256: digest,
    onProgress: (loaded, total) => seen.push([loaded, total]),
  });
  assert.ok(file.equals(data));
  assert.deepEqual(seen[0], [0, file.length]);
  assert.deepEqual(seen.at(-1), [file.length, file.length]);
  assert.ok(seen.length >= 3, "there are steps in between");
  assert.ok(seen.every(([loaded], index) => index === 0 || loaded >= seen[index - 1]![0]));
});

test("a file of unknown size arrives whole", async () => {
  const seen: number[] = [];
  const data = await download(`${base}/unsized`, { onProgress: (_, total) => seen.push(total) });
  assert.ok(file.equals(data));
  assert.ok(seen.every((total) => total === 0));
});

for (const [path, says] of [
  ["damaged", /SHA-256/],
  ["short", /299999 bytes instead of 300000/],
  ["torn", /could not be fetched/],
  ["missing", /answered 404/],
] as const) {
  test(`a ${path} file is a Download error that says what to do`, async () => {
    await assert.rejects(
      download(`${base}/${path}`, { bytes: file.length, sha256: digest }),
      (error: unknown) => {
        assert.ok(error instanceof Download);
        assert.match(error.message, says);
        assert.match(error.message, /reload/i);
        return true;
      },
    );
  });
}

test("an aborted download ends at once with the signal's reason", async () => {
  const controller = new AbortController();
  const running = download(`${base}/endless`, {
    signal: controller.signal,
    onProgress: (loaded) => loaded > 0 && controller.abort(),
  });
  await assert.rejects(running, { name: "AbortError" });
});

test("a manifest is read, and its entries become sources beside it", async () => {
  const url = `${base}/members/members.json`;
  const [listed] = await readManifest(url);
  assert.deepEqual(listed, entry);
  const source = sourceOf(listed!, url);
  assert.equal(source.url, `${base}/members/ada.gguf`);
  const read = await readSource(source, {});
  assert.deepEqual(read.files, [{ name: "ada.gguf", bytes: file.length }]);
  assert.ok(file.equals(await read.read(0, 0, file.length)));
});

test("a wrong manifest names the field", async () => {
  await assert.rejects(readManifest(`${base}/members/wrong.json`), {
    name: "Download",
    message: /members\[0\]\.bytes/,
  });
});

test("SHA-256 without the platform agrees at all lengths around a block, in pieces", async () => {
  for (const length of [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000, 300_000]) {
    const data = new Uint8Array(randomBytes(length));
    const expected = createHash("sha256").update(data).digest("hex");
    for (const piece of [1, 63, 64, 65, 777, length]) {
      const hash = new Sha256();
      for (let at = 0; at < length; at += piece) hash.update(data.subarray(at, at + piece));
      assert.equal(hash.digest(), expected, `${length} bytes in pieces of ${piece}`);
    }
    assert.equal(await sha256(data), expected);
  }
});

test("a file has the id that git gives it", async () => {
  assert.equal(
    await gitBlobId(new TextEncoder().encode("hello\n")),
    "ce013625030ba8dba906f756967f9e9ca394464a",
  );
  await assert.rejects(gitBlobId(new Uint8Array(1), null), {
    name: "Download",
    message: /can't be checked.*https/,
  });
});
