/** References: every way to name a model, and what is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseReference, referenceName, referenceText, splitNames } from "./reference.ts";

test("every spelling of a reference is read and has one canonical text", () => {
  const good: [string, string, string][] = [
    ["hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf", "hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B-Q8_0"],
    [" hf:a/b/c.gguf@main ", "hf:a/b/c.gguf", "c"],
    ["HF:a/b/deep/c.GGUF@v1.0", "hf:a/b/deep/c.GGUF@v1.0", "c"],
    ["hf:a/b@refs/pr/3", "hf:a/b@refs/pr/3", "b"],
    ["hf:a/b", "hf:a/b", "b"],
    ["hf:a/b/m-00002-of-00003.gguf", "hf:a/b/m-00002-of-00003.gguf", "m"],
    ["https://huggingface.co/a/b/resolve/main/c.gguf?download=true", "hf:a/b/c.gguf", "c"],
    ["https://huggingface.co/a/b/blob/v2/d/c%20d.gguf", "hf:a/b/d/c d.gguf@v2", "c d"],
    ["https://huggingface.co/a/b", "hf:a/b", "b"],
    ["https://huggingface.co/a/b/tree/main", "hf:a/b", "b"],
    ["https://example.org:8443/x/y%20z.gguf?token=1#top", "https://example.org:8443/x/y%20z.gguf?token=1", "y z"],
  ];
  for (const [text, canonical, name] of good) {
    const reference = parseReference(text);
    assert.equal(referenceText(reference), canonical, text);
    assert.deepEqual(parseReference(canonical), reference, "the canonical text means the same");
    assert.equal(referenceName(reference), name);
  }
});

test("what is no reference is refused with an example", () => {
  const bad = [
    "", "qwen", "hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/..", "hf:../b", "hf:a/b/../c.gguf", "hf:a/b//c.gguf", "hf:a/b/c.bin",
    "hf:a/b@", "hf:a/b@../x", "hf:a/b@/etc", "hf:a/b/c\\d.gguf", "hf:a/b/c\u0000.gguf", `hf:a/${"b".repeat(97)}`, `hf:a/b/${"c".repeat(2000)}.gguf`,
    "hf:a/b/m-00000-of-00003.gguf@x/..", "https://", "https://example.org/model.bin", "https://me:secret@example.org/m.gguf", "ftp://example.org/m.gguf",
    "javascript:alert(1)", "file:///etc/m.gguf", "https://huggingface.co/a/b/discussions/1",
  ];
  for (const text of bad) assert.throws(() => parseReference(text), { name: "Reference", message: /For example hf:/ }, text);
});

test("a split file stands for all its parts", () => {
  assert.deepEqual(splitNames("q/m-00002-of-00003.gguf"), ["q/m-00001-of-00003.gguf", "q/m-00002-of-00003.gguf", "q/m-00003-of-00003.gguf"]);
  assert.deepEqual(splitNames("m.gguf"), ["m.gguf"]);
  for (const wrong of ["m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-99999.gguf"]) assert.throws(() => splitNames(wrong), { name: "Reference" });
});
