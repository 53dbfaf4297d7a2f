/**
 * The loopback hub (tests/hub/hub.mjs) for tests: repositories to fill, faults to set, requests to
 * count.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

/** See tests/hub/hub.mjs. */
export interface Fault {
  kind:
    | "cut"
    | "flip"
    | "stall"
    | "slow"
    | "no-range"
    | "no-range-416"
    | "wrong-range"
    | "short-range"
    | "wrong-total"
    | "wrong-length"
    | "longer"
    | "changed"
    | "garbage"
    | "401"
    | "403"
    | "404"
    | "416"
    | "425"
    | "429"
    | "500"
    | "503";
  file?: string;
  on?: "bytes" | "resolve" | "api";
  times?: number;
  skip?: number;
  after?: number;
  retryAfter?: number | string;
  bytesPerSecond?: number;
}

interface Seen {
  method: string;
  path: string;
  range: string | null;
  token: boolean;
  status: number;
  sent: number;
}

export class Hub {
  readonly address: string;
  readonly #root: string;
  readonly #process: ChildProcess;

  private constructor(root: string, process: ChildProcess, port: number) {
    this.#root = root;
    this.#process = process;
    this.address = `http://127.0.0.1:${port}`;
  }

  static async start(): Promise<Hub> {
    const root = mkdtempSync(join(tmpdir(), "conclave-hub-"));
    const script = `${process.env["CONCLAVE_WEB"] ?? "./"}../tests/hub/hub.mjs`;
    // Files have another origin than the hub itself, like the real one's.
    const child = spawn(process.execPath, [script, "--root", root, "--cdn-port", "0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    for await (const line of createInterface({ input: child.stdout! })) {
      return new Hub(root, child, (JSON.parse(line) as { port: number }).port);
    }
    throw new Error("the hub ended before it began");
  }

  /** Puts a file into a repository: `name` is OWNER/REPO/FILE. */
  async put(name: string, data: Uint8Array | string): Promise<void> {
    const path = join(this.#root, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, data);
  }

  async break(...faults: Fault[]): Promise<void> {
    await fetch(`${this.address}/faults`, { method: "POST", body: JSON.stringify(faults) });
  }

  /** Removes all faults: slow connections continue at full speed; stalled ones stay so. */
  async mend(): Promise<void> {
    await fetch(`${this.address}/faults`, { method: "DELETE" });
  }

  /** Removes all faults and clears the counts. */
  async reset(): Promise<void> {
    await this.mend();
    await fetch(`${this.address}/log`, { method: "DELETE" });
  }

  async seen(): Promise<Seen[]> {
    return (await (await fetch(`${this.address}/log`)).json()) as Seen[];
  }

  /** Bytes of files that were sent. */
  async sent(): Promise<number> {
    return (await this.seen()).reduce((sum, { sent }) => sum + sent, 0);
  }

  stop(): void {
    this.#process.kill();
    rmSync(this.#root, { recursive: true, force: true });
  }
}
