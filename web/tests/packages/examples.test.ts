/** Each project of examples/, as a copy: installed, built, served and opened in Chromium. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Browser } from "playwright-core";
import { launch, type Visitor } from "../browser/visitor.ts";
import { answers } from "./asking.ts";
import { policy, serveFolder } from "./folder-server.ts";
import { limit, Project } from "./project.ts";

let browser: Browser;
before(async () => {
  browser = await launch("none");
});
after(() => browser.close());

/** The page shows the duration of the answer, which it gets from the element's event `end`. */
const hearsTheEnd = (visitor: Visitor): Promise<void> =>
  visitor.page.getByText(/Answered in \d+ ms/).waitFor();

test(
  "pages without a bundler answer, by the element and by the library",
  limit,
  async (context) => {
    const project = await Project.ofExample(context, "static");
    await project.command("npm", "run", "build");
    const address = await serveFolder(context, project.folder);
    for (const page of ["element.html", "module.html"]) {
      const visitor = await answers(context, browser, address + page);
      await visitor.page.getByText(/Over \(\w+\) after \d+ ms/).waitFor();
    }
  },
);

test(
  "a page that esbuild builds answers, with the package's files in a folder that is named",
  limit,
  async (context) => {
    const project = await Project.ofExample(context, "esbuild");
    await project.command("npm", "run", "build");
    await answers(context, browser, await serveFolder(context, `${project.folder}/dist`));
  },
);

test("a page that webpack builds answers", limit, async (context) => {
  const project = await Project.ofExample(context, "webpack");
  await project.command("npm", "run", "build");
  await answers(context, browser, await serveFolder(context, project.folder));
});

test(
  "a page answers that imports the package from another origin by an import map",
  limit,
  async (context) => {
    const project = await Project.ofExample(context, "import-map");
    const other = await serveFolder(context, `${project.folder}/node_modules/conclave`, {
      headers: { "access-control-allow-origin": "*" },
    });
    const html = await project.read("index.html");
    assert.ok(html.includes("http://localhost:8001/"));
    await project.write("index.html", html.replace("http://localhost:8001/", other));
    const { origin } = new URL(other);
    await answers(
      context,
      browser,
      await serveFolder(context, project.folder, { headers: policy(origin) }),
      origin,
    );
  },
);

for (const { name, told } of [
  { name: "vite" },
  { name: "vite-react" },
  { name: "vite-vue", told: hearsTheEnd },
  { name: "vite-svelte", told: hearsTheEnd },
]) {
  test(
    `the page of ${name} answers, as it is built and from the development server`,
    limit,
    async (context) => {
      const project = await Project.ofExample(context, name);
      await project.command("npm", "run", "build");
      const built = await answers(
        context,
        browser,
        await serveFolder(context, `${project.folder}/dist`),
      );
      await told?.(built);
      const development = await answers(
        context,
        browser,
        await project.server((port) => [
          "npm",
          "run",
          "dev",
          "--",
          "--host",
          "127.0.0.1",
          "--port",
          port,
          "--strictPort",
        ]),
      );
      await told?.(development);
      // React's StrictMode mounts twice in development.
      assert.equal(
        development.page.workers().length,
        built.page.workers().length,
        "no engine is left",
      );
    },
  );
}

test(
  "a page of Next is rendered on the server and answers, built by Turbopack and by webpack",
  limit,
  async (context) => {
    const project = await Project.ofExample(context, "next");
    for (const build of ["build", "build:webpack"]) {
      await project.command("npm", "run", build);
      const address = await project.server((port) => [
        "npm",
        "start",
        "--",
        "--hostname",
        "127.0.0.1",
        "--port",
        port,
      ]);
      const html = await (await fetch(address)).text();
      assert.match(html, /<h1>Ask the bundled toys<\/h1><conclave-chat><\/conclave-chat>/, build);
      await answers(context, browser, address);
    }
  },
);
