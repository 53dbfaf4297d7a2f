/** WebKitGTK's MiniBrowser on its own display, driven by WebKit's driver over HTTP. */
import type { Readable } from "node:stream";
import { BrowserEnded, elementKey, type Command, type Line } from "./driver.ts";
import { end, freePort, log, soon, start } from "./programs.ts";

/** Paths of the commands below the session; `@` is the element. */
const routes: Record<Command, [method: "GET" | "POST", path: string]> = {
  SetTimeouts: ["POST", "timeouts"],
  Navigate: ["POST", "url"],
  ExecuteAsyncScript: ["POST", "execute/async"],
  FindElement: ["POST", "element"],
  ElementClear: ["POST", "element/@/clear"],
  ElementClick: ["POST", "element/@/click"],
  ElementSendKeys: ["POST", "element/@/value"],
  PerformActions: ["POST", "actions"],
  SwitchToFrame: ["POST", "frame"],
  SetWindowRect: ["POST", "window/rect"],
  TakeScreenshot: ["GET", "screenshot"],
};

export interface WebKitOptions {
  dark?: boolean;
  /** The browser's language, used by its scripts for numbers and dates. */
  language?: string;
}

const machine = process.arch === "arm64" ? "aarch64" : "x86_64";
const browser = `/usr/lib/${machine}-linux-gnu/webkit2gtk-4.1/MiniBrowser`;

/**
 * Milliseconds in which every command is answered: a click or a screenshot has no limit of its own.
 * A browser that hangs is replaced as one that has ended, within the limit of a test, so that the
 * file's other tests do not inherit it.
 */
const replyLimit = 60_000;

export async function launchWebKit({
  dark = false,
  language = "en_US.UTF-8",
}: WebKitOptions = {}): Promise<Line> {
  // It writes its display number to file 3. Without -noreset it would restart between two clients.
  const display = start(
    "Xvfb",
    ["-displayfd", "3", "-screen", "0", "1400x2000x24", "-noreset", "-nolisten", "tcp"],
    {},
    ["pipe"],
  );
  const number = await new Promise<string>((resolve, reject) => {
    (display.stdio[3] as Readable).once("data", (data) => resolve(String(data).trim()));
    display.once("error", reject);
    display.once("exit", () => reject(new Error("Xvfb has ended")));
  });
  const port = await freePort();
  const driver = start("WebKitWebDriver", [`--port=${port}`, "--replace-on-new-session"], {
    DISPLAY: `:${number}`,
    LANG: language,
    LC_ALL: language,
  });
  let hanging: BrowserEnded | undefined;
  const ask = async (method: string, path: string, body?: object): Promise<unknown> => {
    if (hanging) throw hanging;
    const response = await fetch(`http://127.0.0.1:${port}/${path}`, {
      method,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(replyLimit),
    }).catch((error: unknown) => {
      if (!(error instanceof DOMException && error.name === "TimeoutError")) throw error;
      hanging = new BrowserEnded(`WebKit does not reply to ${method} ${path}.`);
      throw hanging;
    });
    const { value } = (await response.json()) as {
      value: { error?: string; message?: string } | null;
    };
    if (value?.error === "invalid session id") throw new BrowserEnded(`WebKit: ${value.message}`);
    if (!response.ok) throw new Error(`${value?.error}: ${value?.message}`);
    return value;
  };
  await soon("WebKitWebDriver", () => ask("GET", "status"));
  const args = ["--automation", ...(dark ? ["--dark-mode"] : [])];
  const wanted = {
    browserName: "MiniBrowser",
    "webkitgtk:browserOptions": { binary: browser, args },
  };
  // The browser's first start on a machine may be too slow for the driver.
  const session = await soon("MiniBrowser", () =>
    ask("POST", "session", { capabilities: { alwaysMatch: wanted } }),
  );
  const { sessionId } = session as { sessionId: string };
  return {
    send: (command, parameters = {}, element) => {
      const [method, path] = routes[command];
      const frame =
        command === "SwitchToFrame" && element !== undefined
          ? { id: { [elementKey]: element } }
          : {};
      return ask(
        method,
        `session/${sessionId}/${path.replace("@", element ?? "")}`,
        method === "GET" ? undefined : { ...parameters, ...frame },
      );
    },
    log: () => log(driver),
    close: () => {
      end(driver);
      end(display);
    },
  };
}
