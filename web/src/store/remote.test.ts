/** Listings: every case of the table that page and tool share. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseReference } from "./reference.ts";
import { askHost } from "./remote.ts";

interface Case {
  name: string;
  what: string;
  commit?: string;
  files: unknown[];
  index?: unknown;
  takes?: string[];
  page?: string;
}

const { cases } = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/listings.json`, "utf8"),
) as { cases: Case[] };

for (const { name, what, commit = "a".repeat(40), files, index, takes, page = "" } of cases) {
  test(`listed: ${name}`, async ({ mock }) => {
    mock.method(globalThis, "fetch", async (url: string) =>
      Response.json(
        url.endsWith(".index.json") ? { weight_map: index } : { sha: commit, siblings: files },
      ),
    );
    const asked = askHost(parseReference(what), {
      hub: "http://hub",
      signal: new AbortController().signal,
      stallMs: 3_600_000,
    });
    if (!takes) {
      return assert.rejects(asked, ({ name: kind, message }: Error) => {
        assert.ok(kind === "Download" && message.includes(page), message);
        return true;
      });
    }
    const taken = (await asked).files.map(
      (file) =>
        `${file.name} ${file.bytes} ${file.sha256 ? "sha256" : file.blobId ? "git" : "length"}`,
    );
    assert.deepEqual(taken, takes);
  });
}
