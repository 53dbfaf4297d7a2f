/** The package as published: its manifest, and its types in other projects. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { limit, packed, Project } from "./project.ts";

const tools = `${process.env["CONCLAVE_WEB"] ?? "./"}node_modules`;

interface Manifest {
  exports: Record<string, string | { types: string; default: string }>;
  peerDependencies?: Record<string, string>;
}

const manifestOf = async (project: Project): Promise<Manifest> =>
  JSON.parse(await project.read("node_modules/conclave/package.json")) as Manifest;

/** Importable names: `conclave`, `conclave/element`, and so on. */
const entriesOf = ({ exports }: Manifest): string[] =>
  Object.entries(exports)
    .filter(([, place]) => typeof place === "object")
    .map(([entry]) => `conclave${entry.slice(1)}`);

/**
 * Installs what the package's types import but do not bring, in the versions of this repository.
 */
async function lend(project: Project, { peerDependencies = {} }: Manifest): Promise<void> {
  for (const name of Object.keys(peerDependencies).flatMap((peer) => [peer, `@types/${peer}`])) {
    if (!existsSync(join(tools, name))) continue;
    const place = join(project.folder, "node_modules", name);
    await mkdir(dirname(place), { recursive: true });
    await symlink(join(tools, name), place);
  }
  // The AI SDK's types import these without bringing them.
  await project.write(
    "json-schema.d.ts",
    'declare module "json-schema" {\n' +
      "  export type JSONSchema7 = object;\n" +
      "  export type JSONSchema7Definition = object | boolean;\n}\n",
  );
}

const use = `
async function use(): Promise<string> {
  const conclave = await Conclave.load({
    backend: "cpu",
    onProgress: ({ member, loaded, total }) => console.log(member, loaded / total),
  });
  let text = "";
  const messages = [{ role: "user" as const, content: "What is 347 + 586?" }];
  for await (const event of conclave.ask(messages, { maxTokens: 40 })) {
    if (event.type === "round")
      text += \`\${event.candidates[event.winner]?.member}: \${event.text}\`;
  }
  const chat = document.querySelector("conclave-chat");
  chat?.addEventListener("end", ({ detail }) => console.log(detail.stop));
  await chat?.ask("What is 3 + 4?");
  return text;
}

const onend = ({ detail }: ConclaveChatEventMap["end"]): void => console.log(detail.stop);
export const inReact = <conclave-chat rule="leader" class="chat" onend={onend} />;
`;

test("publint finds nothing to mend", limit, async () => {
  const { messages, pkg } = await publint({
    pack: { tarball: (await readFile(packed())).buffer as ArrayBuffer },
    strict: true,
  });
  assert.deepEqual(
    messages.map((message) => formatMessage(message, pkg as Record<string, unknown>)),
    [],
  );
});

test(
  "the package is under the name of its manifest, and carries its licence and those of its parts",
  limit,
  async (context) => {
    const project = await Project.empty(context);
    const folder = join(project.folder, "node_modules/conclave");
    const read = (file: string) => readFile(join(folder, file), "utf8");
    const { name, version } = JSON.parse(
      await readFile(`${process.env["CONCLAVE_WEB"] ?? "./"}package.json`, "utf8"),
    ) as { name: string; version: string };
    const manifest = JSON.parse(await read("package.json")) as Record<string, unknown>;
    assert.equal(manifest["name"], name);
    assert.equal(manifest["version"], version);
    assert.equal(manifest["private"], undefined);
    assert.deepEqual(manifest["publishConfig"], { access: "public", provenance: true });
    assert.match(await read("LICENSE-MIT"), /Permission is hereby granted/);
    assert.match(await read("LICENSE-APACHE"), /Apache License/);
    assert.match(await read("README.md"), /npm install/);
    // Names that stand only in the licences of one module, or of the scripts.
    const licences = await read("licences.txt");
    for (const part of ["wgpu ", "burn ", "llguidance ", "@lezer/markdown"])
      assert.ok(licences.includes(part), part);
    assert.ok(!/uplot/i.test(licences), "the page's parts are not in the package");
  },
);

test(
  "every map that a script names is beside it, and the engine's scripts name none",
  limit,
  async (context) => {
    const folder = join((await Project.empty(context)).folder, "node_modules/conclave");
    const files = await readdir(folder);
    const naming: string[] = [];
    for (const script of files.filter((file) => file.endsWith(".js"))) {
      const [, map] =
        /^\/\/# sourceMappingURL=(\S+)\s*$/m.exec(await readFile(join(folder, script), "utf8")) ??
        [];
      if (map === undefined) continue;
      naming.push(script);
      assert.ok(files.includes(map), `${script} names ${map}`);
    }
    assert.ok(
      naming.includes("conclave.js") &&
        !naming.some((script) => /^(engine|open-core)/.test(script)),
      naming.join(),
    );
  },
);

test(
  "types are found wherever modules are, as arethetypeswrong sees it",
  limit,
  async (context) => {
    const project = await Project.empty(context);
    await project.command(
      process.execPath,
      join(tools, "@arethetypeswrong/cli/dist/index.js"),
      packed(),
      "--profile",
      "esm-only",
    );
  },
);

for (const { module, moduleResolution } of [
  { module: "esnext", moduleResolution: "bundler" },
  { module: "nodenext", moduleResolution: "nodenext" },
]) {
  test(
    `every entry compiles in a strict project that checks libraries, by ${moduleResolution}`,
    limit,
    async (context) => {
      const project = await Project.empty(context);
      const manifest = await manifestOf(project);
      await lend(project, manifest);
      const entries = entriesOf(manifest);
      for (const entry of ["conclave", "conclave/element", "conclave/react"])
        assert.ok(entries.includes(entry), entry);
      const imports = entries.map(
        (entry, index) => `import * as entry${index} from ${JSON.stringify(entry)};`,
      );
      const names = entries.map((_, index) => `entry${index}`);
      const all = `export const entries: object[] = [${names.join(", ")}];`;
      await project.write(
        "main.tsx",
        `${imports.join("\n")}\nimport { Conclave } from "conclave";\n` +
          `import type { ConclaveChatEventMap } from "conclave/element";\n` +
          `${all}\n${use}\nvoid use();\n`,
      );
      const compilerOptions = {
        module,
        moduleResolution,
        target: "es2022",
        lib: ["ES2022", "DOM", "DOM.Iterable"],
        types: [],
        jsx: "react-jsx",
        strict: true,
        noUncheckedIndexedAccess: true,
        exactOptionalPropertyTypes: true,
        skipLibCheck: false,
        noEmit: true,
      };
      await project.write(
        "tsconfig.json",
        JSON.stringify({ compilerOptions, files: ["main.tsx", "json-schema.d.ts"] }),
      );
      await project.command(process.execPath, join(tools, "typescript/bin/tsc"), "--project", ".");
    },
  );
}
