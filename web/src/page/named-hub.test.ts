/** Hubs that a link may name. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hubNamed } from "./named-hub.ts";

test("a link names no hub but one on this machine", () => {
  const named = (query: string) => hubNamed(new URLSearchParams(query));
  for (const hub of ["http://127.0.0.1:8080/", "http://localhost:1", "http://[::1]:5"])
    assert.equal(named(`debug&hub=${hub}`), hub);
  for (const hub of [
    "https://hub.example",
    "https://localhost.example",
    "https://127.0.0.1@hub.example",
    "//127.0.0.1",
    "127.0.0.1",
    "",
    "https://huggingface.co.example",
  ])
    assert.equal(named(`debug&hub=${hub}`), undefined, hub);
  assert.equal(
    named("hub=http://127.0.0.1:8080/"),
    undefined,
    "nor that where it is not asked for",
  );
});
