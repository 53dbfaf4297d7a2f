/**
 * A Chromium whose tabs hide one another, as a visitor's do. Driven by the DevTools protocol over a
 * pipe: Playwright makes every page that it drives believe it is visible.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { patience, plain } from "./visitor.ts";

interface Reply {
  id?: number;
  result?: Record<string, unknown>;
  error?: { message: string };
}

export class HiddenTabs {
  readonly #browser: ChildProcess;
  readonly #profile: string;
  readonly #waiting = new Map<
    number,
    { resolve: (result: Record<string, unknown>) => void; reject: (error: Error) => void }
  >();
  #next = 1;

  constructor() {
    this.#profile = mkdtempSync(join(tmpdir(), "conclave-tabs-"));
    const flags = [
      ...plain,
      "--headless=new",
      "--remote-debugging-pipe",
      `--user-data-dir=${this.#profile}`,
      "about:blank",
    ];
    // It reads commands on file 3 and writes results to file 4.
    this.#browser = spawn(process.env["CONCLAVE_CHROMIUM"] ?? "/usr/bin/chromium", flags, {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    let received = "";
    (this.#browser.stdio[4] as Readable).setEncoding("utf8").on("data", (data: string) => {
      const messages = (received + data).split("\0");
      received = messages.pop()!;
      for (const message of messages) this.#take(JSON.parse(message) as Reply);
    });
    this.#browser.once("exit", () =>
      this.#waiting.forEach(({ reject }) => reject(new Error("Chromium has ended"))),
    );
  }

  /** Opens an address in a new tab, which hides the others. */
  async open(url: string): Promise<HiddenTab> {
    const { targetId } = (await this.send("Target.createTarget", { url })) as { targetId: string };
    const { sessionId } = (await this.send("Target.attachToTarget", {
      targetId,
      flatten: true,
    })) as { sessionId: string };
    return new HiddenTab(this, sessionId);
  }

  async close(): Promise<void> {
    const { exitCode, signalCode } = this.#browser;
    const running = exitCode === null && signalCode === null;
    const gone = new Promise((resolve) => this.#browser.once("exit", resolve));
    // Closed by itself it ends its other processes first, which write to the profile until then.
    if (running) this.send("Browser.close", {}).catch(() => undefined);
    const late = setTimeout(() => this.#browser.kill("SIGKILL"), 10_000);
    if (running) await gone;
    clearTimeout(late);
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }

  send(method: string, params: object, sessionId?: string): Promise<Record<string, unknown>> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      (this.#browser.stdio[3] as Writable).write(
        `${JSON.stringify({ id, method, params, sessionId })}\0`,
      );
    });
  }

  #take({ id, result, error }: Reply): void {
    const waiting = id === undefined ? undefined : this.#waiting.get(id);
    if (!waiting) return; // An event.
    this.#waiting.delete(id!);
    if (error) waiting.reject(new Error(error.message));
    else waiting.resolve(result ?? {});
  }
}

export class HiddenTab {
  readonly #tabs: HiddenTabs;
  readonly #session: string;

  constructor(tabs: HiddenTabs, session: string) {
    this.#tabs = tabs;
    this.#session = session;
  }

  /** Runs a function in the page, with its arguments but no outer scope, and returns its result. */
  async evaluate<A extends unknown[], T>(
    task: (...given: A) => T | Promise<T>,
    ...given: A
  ): Promise<T> {
    const expression = `(${String(task)})(...${JSON.stringify(given)})`;
    const told = await this.#tabs.send(
      "Runtime.evaluate",
      { expression, awaitPromise: true, returnByValue: true },
      this.#session,
    );
    const { result, exceptionDetails } = told as {
      result: { value: T };
      exceptionDetails?: { exception?: { description?: string } };
    };
    if (exceptionDetails)
      throw new Error(exceptionDetails.exception?.description ?? "The page threw");
    return result.value;
  }

  /** Polls until a function returns true. */
  async until<A extends unknown[]>(task: (...given: A) => boolean, ...given: A): Promise<void> {
    for (const enough = Date.now() + patience; ; ) {
      // A page that is loading answers with an error.
      if (await this.evaluate(task, ...given).catch(() => false)) return;
      if (Date.now() > enough) throw new Error(`The page never came to ${String(task)}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
