/** The code in the READMEs runs as printed; it is extracted from their text. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { after, before, test, type TestContext } from "node:test";
import type { Browser } from "playwright-core";
import { launch } from "../browser/visitor.ts";
import { Hub } from "../hub.ts";
import { answers, open } from "./asking.ts";
import { policy, serveFolder } from "./folder-server.ts";
import { limit, Project } from "./project.ts";
import { registry } from "./registry.ts";

const web = process.env["CONCLAVE_WEB"] ?? "./";
let browser: Browser;
let hub: Hub;
before(async () => {
  browser = await launch("none");
  hub = await Hub.start();
});
after(async () => {
  hub?.stop();
  await browser?.close();
});

interface Block {
  language: string;
  code: string;
}

const blocksOf = (markdown: string): Block[] =>
  [...markdown.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = "", code = ""]) => ({
    language,
    code,
  }));

/**
 * The folder that the READMEs describe: `conclave/` beside the page, and the package under its
 * name.
 */
async function place(context: TestContext): Promise<Project> {
  const project = await Project.ofExample(context, "static");
  await project.command("npm", "run", "build");
  return project;
}

const head = `<!doctype html>
<title>Of the README</title>
<link rel="icon" href="data:,">
<script type="importmap">
  {
    "imports": {
      "conclave": "./node_modules/conclave/conclave.js",
      "conclave/": "./node_modules/conclave/"
    }
  }
</script>
`;

/** Runs a script to its end in a page, and returns its log. */
async function run(context: TestContext, project: Project, code: string): Promise<string> {
  await project.write("block.js", code);
  const script = `
    const lines = [];
    console.log = (...words) => lines.push(words.join(" "));
    await import("./block.js");
    document.querySelector("pre").textContent = lines.join("\\n");`;
  await project.write("block.html", `${head}<script type="module">${script}</script><pre></pre>`);
  const address = await serveFolder(context, project.folder, { headers: {} });
  const visitor = await open(context, browser, `${address}block.html`);
  const logged = visitor.page.locator("pre").filter({ hasText: /\w/ });
  await logged.waitFor();
  // The hub of the tests has another origin, like the README's.
  assert.deepEqual(
    visitor.complaints.filter((complaint) => !complaint.startsWith("request to ")),
    [],
  );
  return logged.innerText();
}

const answer = /^(Ada|Quill|Juno) .*\w/m;

/** The longest way in that the README may ask for, in lines. */
const most = 9;

/** The code of the README's ways in: the script tag, the package, the tool. */
function ways(): Record<"html" | "npm" | "js" | "tool", string> {
  const [section] = /^## Three ways in$.*?(?=^## )/ms.exec(
    readFileSync(`${web}../README.md`, "utf8"),
  ) ?? [""];
  const blocks = blocksOf(section);
  assert.deepEqual(
    blocks.map(({ language }) => language),
    ["html", "sh", "js", "sh"],
  );
  const [html = "", npm = "", js = "", tool = ""] = blocks.map(({ code }) => code);
  for (const way of [html, npm + js, tool])
    assert.ok(way.trim().split("\n").length <= most, `it is short:\n${way}`);
  return { html, npm, js, tool };
}

const manifest = JSON.parse(readFileSync(`${web}package.json`, "utf8")) as {
  name: string;
  version: string;
};

test("the README's script tag shows the element, from another origin", limit, async (context) => {
  const project = await Project.empty(context);
  const other = await serveFolder(context, `${project.folder}/node_modules/conclave`, {
    headers: { "access-control-allow-origin": "*" },
  });
  // In the place of the network of hosts that serves what is on npm.
  const [major, minor] = manifest.version.split(".");
  const there = `https://cdn.jsdelivr.net/npm/${manifest.name}@${major}.${minor}/`;
  const { html } = ways();
  assert.ok(html.includes(`"${there}element.js"`), html);
  const icon = '<!doctype html><title>A page</title><link rel="icon" href="data:,">';
  await project.write("index.html", icon + html.replace(there, other));
  const { origin } = new URL(other);
  const headers = policy(origin);
  await answers(context, browser, await serveFolder(context, project.folder, { headers }), origin);
});

test("the README's package installs from a registry, and its code runs", limit, async (context) => {
  const project = await Project.bare(context);
  const [scope] = manifest.name.split("/");
  await project.write(".npmrc", `${scope}:registry=${await registry(context, manifest)}\n`);
  const { npm, js } = ways();
  await project.command("sh", "-ec", npm);
  assert.match(await run(context, project, js), answer);
});

test("the package's README loads and asks as it says", limit, async (context) => {
  const project = await place(context);
  const [asks, loads, ...others] = blocksOf(
    readFileSync(`${web}src/library/README.md`, "utf8"),
  ).filter(({ language }) => language === "js");
  assert.deepEqual(others, [], "each is run here");
  assert.match(await run(context, project, asks!.code), answer);

  // The second example continues the first; a hub of the tests has files of these names.
  const files = [...loads!.code.matchAll(/"hf:([^"]+)"/g)].map(([, name]) => name!);
  assert.equal(files.length, 2);
  for (const [index, name] of files.entries())
    await hub.put(name, await readFile(`${web}members/${index === 0 ? "ada" : "quill"}.gguf`));
  const [imports = ""] = /^import .*$/m.exec(asks!.code) ?? [];
  const code = loads!.code.replace(
    "Conclave.load({",
    `Conclave.load({ hub: ${JSON.stringify(hub.address)},`,
  );
  const logged = await run(context, project, `${imports}\n${code}`);
  for (const [, name] of code.matchAll(/name: "([^"]+)"/g))
    assert.match(logged, new RegExp(`^${name} loading (\\d+) \\1$`, "m"));
});
