/**
 * The demo's server: sets the given headers, serves nothing outside its folder, uses another port
 * if one is taken.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const script = join(process.cwd(), "scripts/serve.mjs");

/** Starts it, and waits for its address. */
async function serve(
  folder: string,
  port: number,
): Promise<{ server: ChildProcess; port: number }> {
  const server = spawn(process.execPath, [script, folder, String(port), '{"X-Policy":"strict"}'], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let told = "";
  while (!/http:.*\n/.test(told)) told += String((await once(server.stdout!, "data"))[0]);
  return { server, port: Number(/:(\d+)\//.exec(told)![1]) };
}

/** Requests a raw path, which `fetch` would normalise. */
async function ask(
  port: number,
  path: string,
  headers = {},
): Promise<{ answer: IncomingMessage; body: string }> {
  const asked = request({ port, path, headers, host: "127.0.0.1" }).end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  return { answer, body: await text(answer) };
}

test("the demo's server gives files with its headers, and nothing beside its folder", async () => {
  const base = await mkdtemp(join(tmpdir(), "conclave-serve-"));
  const folder = join(base, "page");
  await mkdir(folder);
  await writeFile(join(folder, "index.html"), "<p>one</p>");
  await writeFile(join(folder, "engine.wasm"), "");
  await writeFile(join(base, "secret"), "s");
  const first = await serve(folder, 0);
  const second = await serve(folder, first.port);
  try {
    assert.notEqual(second.port, first.port);
    const { answer, body } = await ask(first.port, "/");
    assert.deepEqual(
      [answer.statusCode, body, answer.headers["x-policy"]],
      [200, "<p>one</p>", "strict"],
    );
    assert.match(answer.headers["content-type"]!, /^text\/html/);
    assert.equal(
      (await ask(first.port, "/engine.wasm")).answer.headers["content-type"],
      "application/wasm",
    );
    const part = await ask(first.port, "/index.html", { range: "bytes=3-5" });
    assert.deepEqual([part.answer.statusCode, part.body], [206, "one"]);
    for (const path of [
      "/../secret",
      "/%2e%2e/secret",
      "/..%2fsecret",
      "//secret",
      `/${base}/secret`,
      "/absent",
    ]) {
      const { answer } = await ask(first.port, path);
      assert.deepEqual(
        [path, answer.statusCode, answer.headers["x-policy"]],
        [path, 404, "strict"],
      );
    }
  } finally {
    for (const { server } of [first, second]) server.kill();
    await rm(base, { recursive: true });
  }
});
