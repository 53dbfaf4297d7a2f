/** llama.cpp's own server (tests/remote/llama_server.py) with a model of this machine. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const script = `${process.env["CONCLAVE_WEB"] ?? "./"}../tests/remote/llama_server.py`;

export class LlamaServer {
  /** Its origin. */
  readonly address: string;
  readonly #process: ChildProcess;

  private constructor(address: string, process: ChildProcess) {
    this.address = address;
    this.#process = process;
  }

  /** Base address for an OpenAI client. */
  get base(): string {
    return `${this.address}/v1`;
  }

  static async open(
    model: string,
    options: { key?: string; port?: number } = {},
  ): Promise<LlamaServer> {
    const python = process.env["CONCLAVE_LLAMA_PYTHON"];
    if (!python)
      throw new Error(
        "CONCLAVE_LLAMA_PYTHON names no Python with tests/remote/requirements.txt: " +
          "run `cargo xtask test --only browser`",
      );
    const given = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const child = spawn(python, [script, model, ...given], { stdio: ["pipe", "pipe", "ignore"] });
    for await (const line of createInterface(child.stdout!)) {
      // Its own log may precede the address.
      if (/^http:\/\/127\.0\.0\.1:\d+$/.test(line)) return new LlamaServer(line, child);
    }
    throw new Error(`llama.cpp's server did not start with ${model}`);
  }

  /** Suspends or resumes its process, so that it is late. */
  freeze(frozen: boolean): void {
    this.#process.kill(frozen ? "SIGSTOP" : "SIGCONT");
  }

  /** Waits until it answers, and has completed earlier requests. */
  async ready(): Promise<void> {
    const body = JSON.stringify({ prompt: "Well", max_tokens: 1 });
    await fetch(`${this.base}/completions`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
    });
  }

  async close(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill("SIGKILL");
    await once(this.#process, "exit");
  }
}
