/**
 * Writes docs/licences.md: the licence of everything that a visitor or a user of the tool downloads,
 * from Cargo.lock and web/package-lock.json. `--check` only compares. `--texts FILE` writes the
 * licences' texts instead, which must be distributed with the page and the tool; `--texts FILE tool`
 * those of the tool alone, `--texts FILE package` those of the npm package.
 *
 * Cargo and the packages of web/ must be able to fetch what the lock files name; nothing is built.
 */
import { execFileSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import standard from "spdx-license-list/full.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const web = join(root, "web");
const document = join(root, "docs/licences.md");

/** Downloads, each with its crate, its features if not all, and the targets of its builds. */
const wasm = { crate: "conclave-wasm", targets: ["wasm32-unknown-unknown"] };
const downloads = [
  { ...wasm, name: "engine", features: "fused" },
  { ...wasm, name: "open core", features: "burn" },
  { ...wasm, name: "grammars", features: "grammar" },
  { ...wasm, name: "remote members", features: "remote" },
  {
    name: "tool",
    crate: "conclave-tool",
    targets: [
      "x86_64-unknown-linux-gnu",
      "aarch64-unknown-linux-gnu",
      "x86_64-apple-darwin",
      "aarch64-apple-darwin",
      "x86_64-pc-windows-msvc",
    ],
  },
];

const cargo = (...args) =>
  execFileSync("cargo", args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });

/** Crates linked into a download: without those of builds, tests and procedural macros. */
function linked({ crate, features, targets }) {
  const lines = targets.flatMap((target) =>
    cargo(
      ...["tree", "--locked", "--package", crate, "--target", target],
      ...(features ? ["--no-default-features", "--features", features] : []),
      ...["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"],
    ).split("\n"),
  );
  const names = lines.map((line) => line.split(" ").slice(0, 2).join(" ")).filter(Boolean);
  return new Set(names.filter((name) => !name.startsWith("conclave-")));
}

const { packages } = JSON.parse(cargo("metadata", "--locked", "--format-version", "1"));
const crates = new Map(packages.map((one) => [`${one.name} v${one.version}`, one]));
const places = downloads.map((download) => ({ ...download, crates: linked(download) }));
const names = [...new Set(places.flatMap((place) => [...place.crates]))].sort();
const rows = names.map((name) => {
  const { license } = crates.get(name);
  if (!license) throw new Error(`${name} names no licence: read its files, and add it here.`);
  const within = places.filter((place) => place.crates.has(name)).map((place) => place.name);
  return `| ${name} | ${license.replaceAll(/ ?\/ ?/g, " OR ")} | ${within.join(", ")} |`;
});

const lock = JSON.parse(await readFile(join(web, "package-lock.json"), "utf8")).packages;
/** Without what only development and other programs than browsers need. */
const installed = Object.entries(lock).filter(
  ([path, { dev, optional }]) => path !== "" && !dev && !optional,
);
/** PDF.js has maps of characters by others. */
const maps = installed
  .filter(([path]) => path.endsWith("/pdfjs-dist"))
  .map(([path, one]) => [`${path}/cmaps`, { ...one, license: "BSD-3-Clause" }]);
const npm = [...installed, ...maps].sort(([a], [b]) => (a < b ? -1 : 1));
const modules = npm.map(
  ([path, { version, license }]) =>
    `| ${path.replace("node_modules/", "")} v${version} | ${license} | page |`,
);

const text = `# Licences

Licences of everything that a visitor's browser downloads, and of the crates that are linked into
the tool. Conclave's own code and the three bundled members, which are trained with the scripts of
\`tests/members\`, are under MIT or Apache 2.0, as you prefer. \`engine\`, \`open core\`, \`grammars\`
and \`remote members\` are the wasm modules; a visit fetches the last three only when it needs them. The npm package has the
same modules, the Markdown parser and Temml, and neither the font, uPlot nor PDF.js. A visit fetches
Temml for the first formula in an answer, PDF.js for the first attached PDF.

Models that a visitor chooses come from their hosts under their own licences, which
[the catalogue](../web/catalogue.json) and the page name.

\`node web/scripts/licences.mjs\` writes this file from \`Cargo.lock\` and \`web/package-lock.json\`.
With \`--texts FILE\` it writes the texts of the licences, which a release carries with it.

MPL-2.0 asks for the source of its files: it is on crates.io, under the versions given here,
unchanged.

## Packages

| package | licence | in |
|---|---|---|
${modules.join("\n")}

## Crates

Rust's standard library, in every module and in the tool, is under MIT or Apache 2.0.

| crate | licence | in |
|---|---|---|
${rows.join("\n")}
`;

/** The licence files in a folder, with their texts. */
async function textsIn(folder) {
  const files = (await readdir(folder)).filter((file) =>
    /^(licen[cs]e|copying|copyright|notice|unlicense)/i.test(file),
  );
  const texts = [];
  for (const file of files.sort()) {
    const content = await readFile(join(folder, file), "utf8").catch(() => "");
    if (content !== "") texts.push(content.trim());
  }
  return texts;
}

/**
 * The standard text of a licence for a package that carries none: Apache's if it may be chosen, since
 * it names no holder of the copyright.
 */
function standardText(name, { license, authors = [] }) {
  const offered = license.split(/ OR |\//).map((one) => one.trim());
  const chosen = offered.includes("Apache-2.0") ? "Apache-2.0" : offered[0];
  const holders = authors.length > 0 ? authors.join(", ") : `the authors of ${name}`;
  const text = standard[chosen]?.licenseText.replace("<year> <copyright holders>", () => holders);
  // Others than these have other places for the holders, or somebody's name in them.
  if (!["Apache-2.0", "MIT", "MPL-2.0"].includes(chosen) || !text)
    throw new Error(`${name} carries no text of ${license}: choose one in standardText.`);
  return text.trim();
}

/** Distributions of their own, each with the crates in it and its packages of npm. */
const cratesIn = (...names) =>
  places.filter(({ name }) => names.includes(name)).map(({ crates }) => crates);
const distributions = {
  tool: { crates: cratesIn("tool"), npm: /^$/ },
  // The Markdown parser and the typesetter are the dependencies that its scripts contain.
  package: {
    crates: cratesIn("engine", "open core", "grammars", "remote members"),
    npm: /\/(?:@lezer\/|temml$)/,
  },
};

/** The texts of all or of one distribution, each once, after the names of those that have it. */
async function texts(distribution) {
  const all = { crates: places.map(({ crates }) => crates), npm: /./ };
  const chosen = distribution === undefined ? all : distributions[distribution];
  if (!chosen) throw new Error(`no distribution is called ${distribution}`);
  const sources = [
    ["Rust's standard library", undefined, { license: "MIT OR Apache-2.0" }],
    ...names
      .filter((name) => chosen.crates.some((crates) => crates.has(name)))
      .map((name) => [name, dirname(crates.get(name).manifest_path), crates.get(name)]),
    ...npm
      .filter(([path]) => chosen.npm.test(path))
      .map(([path, one]) => [path.replace("node_modules/", ""), join(web, path), one]),
  ];
  const users = new Map();
  for (const [name, folder, about] of sources) {
    const found = folder ? await textsIn(folder) : [];
    for (const text of found.length > 0 ? found : [standardText(name, about)])
      users.set(text, [...(users.get(text) ?? []), name]);
  }
  const parts = [...users].map(([text, names]) => `${names.join(", ")}\n\n${text}\n`);
  return parts.join(`\n${"-".repeat(80)}\n\n`);
}

const [option, file, distribution] = process.argv.slice(2);
if (option === "--check") {
  if ((await readFile(document, "utf8")) !== text) {
    console.error("docs/licences.md is not that of the lock files: node web/scripts/licences.mjs");
    process.exitCode = 1;
  }
} else if (option === "--texts" && file !== undefined)
  await writeFile(file, await texts(distribution));
else if (option === undefined) await writeFile(document, text);
else throw new Error("usage: licences.mjs [--check | --texts FILE [tool | package]]");
