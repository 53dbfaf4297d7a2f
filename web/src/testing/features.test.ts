/** Every test that docs/features.md names exists, in the file that it names. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const web = process.env["CONCLAVE_WEB"] ?? "./";

test("each feature of the page names a test that there is", () => {
  const rows = readFileSync(`${web}../docs/features.md`, "utf8")
    .split("\n")
    .filter((line) => /^\| (?!feature|---)/.test(line) && !line.startsWith("|---"));
  assert.ok(rows.length >= 14, `${rows.length} rows`);
  for (const row of rows) {
    const [, feature = "", , shown = ""] = row.split("|");
    let source = "";
    let named = 0;
    for (const [, file, name] of shown.matchAll(/`([\w-]+\.test\.ts)`|“([^”]+)”/g)) {
      if (file !== undefined) source = readFileSync(`${web}tests/browser/${file}`, "utf8");
      if (name === undefined) continue;
      named++;
      const written = name.replace(/, (light|dark)$/, ", $${colorScheme}");
      assert.ok(
        source.includes(`("${name}"`) || source.includes(`(\`${written}\``),
        `${feature.trim()}: ${name}`,
      );
    }
    assert.ok(named > 0, feature);
  }
});
