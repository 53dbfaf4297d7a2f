/** References: every case of the table that page and tool share. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { parseReference, referenceName, referenceText, splitNames } from "./reference.ts";

interface Case {
  text: string;
  /** Canonical spelling, if it differs from the text. */
  as?: string;
  means?: { address?: string; path?: string };
  name?: string;
  refused?: true;
}

const { cases } = JSON.parse(
  readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/references.json`, "utf8"),
) as { cases: Case[] };

test("every reference means what page and tool agreed on", () => {
  for (const { text, as = text, means = {}, name, refused } of cases) {
    if (refused || means.path !== undefined) {
      assert.throws(
        () => parseReference(text),
        { name: "Reference", message: /For example hf:/ },
        text,
      );
      continue;
    }
    const reference = parseReference(text);
    assert.deepEqual(
      reference,
      means.address === undefined ? { kind: "hub", ...means } : { kind: "url", url: means.address },
      text,
    );
    assert.equal(referenceText(reference), as, text);
    assert.deepEqual(parseReference(as), reference, "the one spelling means the same");
    if (name !== undefined) assert.equal(referenceName(reference), name);
  }
});

test("no address is too long to be stored, and no password is repeated", () => {
  const address = (length: number): string => "https://example.org/f.gguf?".padEnd(length, "x");
  assert.equal(referenceText(parseReference(address(4096))).length, 4096);
  assert.throws(() => parseReference(address(4097)), { name: "Reference" });
  assert.throws(
    () => parseReference("https://user:word@example.org/f.gguf"),
    ({ message }: Error) => !message.includes("word"),
  );
});

test("a split file stands for all its parts", () => {
  assert.deepEqual(splitNames("q/m-00002-of-00003.gguf"), [
    "q/m-00001-of-00003.gguf",
    "q/m-00002-of-00003.gguf",
    "q/m-00003-of-00003.gguf",
  ]);
  for (const whole of ["m.gguf", "m-00004-of-00003.gguf"])
    assert.deepEqual(splitNames(whole), [whole]);
});
