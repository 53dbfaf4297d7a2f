/** Imports between the folders of web/src follow the arrows in ARCHITECTURE.md. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, sep } from "node:path";
import { test } from "node:test";

const sources = join(process.env["CONCLAVE_WEB"] ?? "./", "src");
/** Each folder with those that it may import from. `testing` may import any. */
const arrows: Record<string, string[]> = {
  protocol: [],
  store: ["protocol"],
  worker: ["protocol", "store"],
  library: ["protocol", "store"],
  kept: ["protocol", "store"],
  page: ["protocol", "store", "library", "kept"],
  bench: ["protocol", "store", "library", "worker", "page"],
};

test("imports between folders go the way that arrows point", () => {
  const files = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".ts"),
  );
  const found = new Set<string>();
  for (const file of files) {
    const [folder = ""] = file.split(sep);
    assert.ok(folder === "testing" || folder in arrows, `${file} lies in no folder`);
    if (folder === "testing" || file.endsWith(".test.ts")) continue;
    for (const [, path] of readFileSync(join(sources, file), "utf8").matchAll(
      /(?:from|import|import\() ?"(\.[^"]+\.ts)"/g,
    )) {
      const [to = ""] = normalize(join(dirname(file), path!)).split(sep);
      if (to === folder) continue;
      found.add(`${folder} → ${to}`);
      assert.ok(
        arrows[folder]!.includes(to),
        `${file} imports ${path}: nothing in ${folder} may know ${to}`,
      );
    }
  }
  // Every arrow is used.
  assert.deepEqual(
    [...found].sort(),
    Object.entries(arrows)
      .flatMap(([from, all]) => all.map((to) => `${from} → ${to}`))
      .sort(),
  );
});

test("the picture of the architecture is drawn from its present source", () => {
  const script = join(process.env["CONCLAVE_WEB"] ?? "./", "scripts", "diagram.mjs");
  const { status, stderr } = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
});
