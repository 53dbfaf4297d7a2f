/** The code in the READMEs runs as printed; it is extracted from their text. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { after, before, test, type TestContext } from "node:test";
import type { Browser } from "playwright-core";
import { launch } from "../browser/visitor.ts";
import { Hub } from "../hub.ts";
import { answers, open } from "./asking.ts";
import { serveFolder } from "./folder-server.ts";
import { limit, Project } from "./project.ts";

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
<script type="importmap">{ "imports": { "conclave": "./node_modules/conclave/conclave.js", "conclave/": "./node_modules/conclave/" } }</script>
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

test(
  "the project's README embeds the element and the library as it says",
  limit,
  async (context) => {
    const project = await place(context);
    const [section] = /^## In your page$.*?(?=^## )/ms.exec(
      readFileSync(`${web}../README.md`, "utf8"),
    ) ?? [""];
    const blocks = blocksOf(section).filter(
      ({ language }) => language === "html" || language === "js",
    );
    assert.deepEqual(
      blocks.map(({ language }) => language),
      ["html", "js"],
    );
    for (const { language, code } of blocks) {
      if (language === "js") assert.match(await run(context, project, code), answer);
      else {
        await project.write("element.html", head + code);
        await answers(
          context,
          browser,
          `${await serveFolder(context, project.folder)}element.html`,
        );
      }
    }
  },
);

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
