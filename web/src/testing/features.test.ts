/**
 * Every test that docs/features.md names exists, in the file that it names, and every claim about
 * another product there has a source.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const web = process.env["CONCLAVE_WEB"] ?? "./";
const heading = "\n## Beside other products\n";
const [shownHere = "", beside = ""] = readFileSync(`${web}../docs/features.md`, "utf8").split(
  heading,
);

/** Cells of the rows of a part's tables, without those of their heads. */
function rowsOf(part: string): string[][] {
  const lines = part.split("\n").filter((line) => /^\| (?!feature)/.test(line));
  return lines.map((line) => line.split("|").slice(1, -1));
}

test("each feature of the page names a test that there is", () => {
  const rows = rowsOf(shownHere);
  assert.ok(rows.length >= 14, `${rows.length} rows`);
  for (const [feature = "", , shown = ""] of rows) {
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

test("each claim about another product leads to a source", () => {
  const defined = new Set([...beside.matchAll(/^\[([\w-]+)\]: https:/gm)].map(([, name]) => name));
  const [, table = ""] = beside.split(/^\| feature .*$/m);
  const rows = rowsOf(table);
  assert.ok(rows.length >= 30, `${rows.length} rows`);
  const used = new Set<string | undefined>();
  for (const [feature = "", , ...others] of rows) {
    assert.equal(others.length, 4, feature);
    for (const cell of others.map((each) => each.trim())) {
      const sources = [...cell.matchAll(/\]\[([\w-]+)\]/g)].map(([, name]) => name);
      for (const name of sources) used.add(name);
      assert.ok(sources.length > 0 || ["?", "none found"].includes(cell), `${feature}: ${cell}`);
    }
  }
  assert.deepEqual([...used].sort(), [...defined].sort());
});
