/** Firefox with a temporary profile, driven over Marionette. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BrowserEnded, type Command, type Line } from "./driver.ts";
import { end, log, soon, start } from "./programs.ts";

type Preferences = Record<string, string | number | boolean>;

const usual: Preferences = {
  "marionette.port": 0, // Any free port.
  "browser.shell.checkDefaultBrowser": false,
  "datareporting.policy.dataSubmissionEnabled": false,
  "app.normandy.enabled": false,
  "ui.useOverlayScrollbars": 1,
};

export async function launchFirefox(preferences: Preferences = {}): Promise<Line> {
  const profile = mkdtempSync(join(tmpdir(), "conclave-firefox-"));
  const lines = Object.entries({ ...usual, ...preferences }).map(
    ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`,
  );
  writeFileSync(join(profile, "user.js"), lines.join("\n"));
  const firefox = start(
    "firefox-esr",
    ["--headless", "--marionette", "--no-remote", "--profile", profile, "about:blank"],
    { LANG: "en_US.UTF-8" },
  );
  const close = (): void => {
    end(firefox);
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  process.once("exit", close);
  const port = await soon("Firefox", async () => {
    const written = await readFile(join(profile, "MarionetteActivePort"), "utf8");
    // Firefox creates the file before it writes it.
    if (written === "") throw new Error("The file of its port is still empty");
    return Number(written);
  });
  const marionette = await Marionette.on(port);
  await marionette.send("NewSession");
  return {
    send: (command, parameters, element) => marionette.send(command, parameters, element),
    log: () => log(firefox),
    close: () => (marionette.close(), close()),
  };
}

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/**
 * Messages are a length, a colon and JSON: `[0, id, command, parameters]` sent, `[1, id, error,
 * result]` received.
 */
class Marionette {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, Waiting>();
  #received = Buffer.alloc(0);
  #next = 1;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      for (let message = this.#message(); message !== undefined; message = this.#message())
        this.#take(message);
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      for (const { reject } of this.#waiting.values()) reject(new BrowserEnded("Firefox"));
    });
  }

  static async on(port: number): Promise<Marionette> {
    const socket = connect(port, "127.0.0.1");
    await new Promise<void>((resolve, reject) =>
      socket.once("connect", resolve).once("error", reject),
    );
    return new Marionette(socket);
  }

  send(
    command: Command | "NewSession",
    parameters: object = {},
    element?: string,
  ): Promise<unknown> {
    const id = this.#next++;
    const about =
      element === undefined ? {} : command === "SwitchToFrame" ? { element } : { id: element };
    // WebDriver captures the viewport, Marionette by default the whole page.
    const text = JSON.stringify([
      0,
      id,
      `WebDriver:${command}`,
      { ...(command === "TakeScreenshot" && { full: false }), ...parameters, ...about },
    ]);
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) throw new BrowserEnded("Firefox");
      this.#waiting.set(id, { resolve, reject });
      this.#socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #message(): unknown {
    const colon = this.#received.indexOf(":");
    const until = colon + 1 + Number(this.#received.subarray(0, colon));
    if (colon < 0 || this.#received.length < until) return undefined;
    const text = this.#received.subarray(colon + 1, until).toString();
    this.#received = this.#received.subarray(until);
    return JSON.parse(text);
  }

  #take(message: unknown): void {
    // It greets with an object.
    if (!Array.isArray(message)) return;
    const [, id, error, result] = message as [
      1,
      number,
      { error: string; message: string } | null,
      { value?: unknown } | null,
    ];
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error) waiting?.reject(new Error(`${error.error}: ${error.message}`));
    else waiting?.resolve(result && "value" in result ? result.value : result);
  }
}
