/**
 * A project of a user of the package: a folder outside this repository with the package as
 * published. The folder and its processes end with the test in any case.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { cp, readFile, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const web = process.env["CONCLAVE_WEB"] ?? "./";

/** Several times longer than installing and building the largest takes. */
export const limit = { timeout: 600_000 };
const commandLimit = 240_000;

/** Environment of the processes: no prompts and no telemetry. */
const environment = { ...process.env, CI: "true", NEXT_TELEMETRY_DISABLED: "1", NO_COLOR: "1" };

/** Products of commands in a folder of examples/, which are not copied. */
const made = new Set(["node_modules", "package-lock.json", "dist", "conclave", ".next"]);

const own = new Set<Project>();
process.once("exit", () => {
  for (const project of own) project.remove();
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

/** The packed package, as a release publishes it. */
export function packed(): string {
  const file = process.env["CONCLAVE_PACKAGE"];
  if (file === undefined)
    throw new Error("CONCLAVE_PACKAGE names no file of cargo xtask dist --package");
  return file;
}

export class Project {
  readonly folder = mkdtempSync(join(tmpdir(), "conclave-project-"));
  readonly #running = new Set<ChildProcess>();

  private constructor(context: TestContext) {
    own.add(this);
    context.after(() => this.remove());
  }

  /** A copy of one of examples/, installed. */
  static async ofExample(context: TestContext, name: string): Promise<Project> {
    const project = new Project(context);
    await cp(`${web}../examples/${name}`, project.folder, {
      recursive: true,
      filter: (source) => !made.has(basename(source)),
    });
    await project.#install();
    return project;
  }

  /** A folder with a manifest alone. */
  static async bare(context: TestContext): Promise<Project> {
    const project = new Project(context);
    const manifest = { private: true, type: "module", dependencies: {} };
    await project.write("package.json", JSON.stringify(manifest));
    return project;
  }

  /** The same with the package. */
  static async empty(context: TestContext): Promise<Project> {
    const project = await Project.bare(context);
    await project.#install();
    return project;
  }

  async #install(): Promise<void> {
    const manifest = JSON.parse(await this.read("package.json")) as {
      dependencies: Record<string, string>;
    };
    manifest.dependencies["conclave"] = `file:${packed()}`;
    await this.write("package.json", JSON.stringify(manifest));
    await this.command(
      "npm",
      "install",
      "--no-audit",
      "--no-fund",
      "--prefer-offline",
      "--no-package-lock",
    );
  }

  read(file: string): Promise<string> {
    return readFile(join(this.folder, file), "utf8");
  }

  write(file: string, text: string): Promise<void> {
    return writeFile(join(this.folder, file), text);
  }

  /** Runs a command in the folder to its end, and returns its output; throws it on failure. */
  async command(...command: string[]): Promise<string> {
    const running = this.#start(command);
    const timer = setTimeout(() => this.#end(running.child), commandLimit);
    await running.over;
    clearTimeout(timer);
    if (running.child.exitCode !== 0)
      throw new Error(`${command.join(" ")} failed:\n${running.output()}`);
    return running.output();
  }

  /**
   * Starts a server of the project, `command` for a port, and returns its address once it answers.
   */
  async server(command: (port: string) => string[]): Promise<string> {
    const port = await freePort();
    const words = command(String(port));
    const running = this.#start(words);
    const address = `http://127.0.0.1:${port}/`;
    for (const end = Date.now() + commandLimit; Date.now() < end; await sleep(100)) {
      if (running.child.exitCode !== null) break;
      const response = await fetch(address).catch(() => undefined);
      if (response?.ok) return address;
    }
    throw new Error(`${words.join(" ")} does not answer:\n${running.output()}`);
  }

  /** Ends the folder's processes, and deletes it. */
  remove(): void {
    own.delete(this);
    for (const child of this.#running) this.#end(child);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #start(command: string[]): { child: ChildProcess; over: Promise<void>; output: () => string } {
    const [program = "", ...rest] = command;
    // In its own process group, to be ended with its children.
    const child = spawn(program, rest, {
      cwd: this.folder,
      env: environment,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#running.add(child);
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => (output += text));
    const over = new Promise<void>((resolve) =>
      child
        .once("close", () => resolve())
        .once("error", (error) => ((output += String(error)), resolve())),
    );
    return { child, over, output: () => output };
  }

  #end(child: ChildProcess): void {
    this.#running.delete(child);
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is over.
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
