/**
 * A tab of a browser other than Chromium, driven by W3C WebDriver commands. WebKit's driver takes
 * them over HTTP; Firefox takes them under the same names over Marionette, as Mozilla's own driver
 * does, which Debian does not package. WebDriver BiDi is not used: under it one load in thirty to a
 * hundred hangs in a worker that starts another.
 */
import { writeFile } from "node:fs/promises";
import { patience } from "../browser/visitor.ts";

/** The commands used here, by WebDriver's names. */
export type Command =
  | "SetTimeouts"
  | "Navigate"
  | "ExecuteAsyncScript"
  | "FindElement"
  | "ElementClear"
  | "ElementClick"
  | "ElementSendKeys"
  | "PerformActions"
  | "SwitchToFrame"
  | "SetWindowRect"
  | "TakeScreenshot";

/** A connection to a browser with a session. */
export interface Line {
  /** `element`: target of the command. Returns the command's value. */
  send(command: Command, parameters?: object, element?: string): Promise<unknown>;
  /** End of the browser's error output. */
  log(): string;
  /** Ends the browser. */
  close(): void;
}

/** The browser, or the process of its page, has ended by itself. */
export class BrowserEnded extends Error {}

/** WebDriver's key for an element in JSON. */
export const elementKey = "element-6066-11e4-a52e-4f735466cecf";

/** Keys that are not characters. */
export const keys = {
  tab: "\uE004",
  enter: "\uE007",
  escape: "\uE00C",
  home: "\uE011",
  right: "\uE014",
  down: "\uE015",
  shift: "\uE008",
};

/** A function that runs in the page, with its arguments but no outer scope. */
type Task<A extends unknown[], T> = (...given: A) => T | Promise<T>;

export class Tab {
  readonly #line: Line;

  private constructor(line: Line) {
    this.#line = line;
  }

  static async of(line: Line): Promise<Tab> {
    await line.send("SetTimeouts", { script: patience, pageLoad: patience, implicit: 0 });
    return new Tab(line);
  }

  async open(address: string): Promise<void> {
    await this.#line.send("Navigate", { url: address });
  }

  /** Reloads like a visitor: Firefox's own command bypasses a service worker. */
  async reload(): Promise<void> {
    await this.evaluate(() => {
      Object.assign(window, { left: true }); // In Firefox globalThis is the driver's own.
      setTimeout(() => location.reload());
    });
    await this.until(() => !("left" in window) && document.readyState === "complete");
  }

  /** Runs a function in the page and returns its result. */
  async evaluate<A extends unknown[], T>(task: Task<A, T>, ...given: A): Promise<T> {
    const script = `
      const done = arguments[arguments.length - 1];
      Promise.resolve(arguments[0])
        .then((given) => (${String(task)})(...given))
        .then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const told = (await this.#line.send("ExecuteAsyncScript", { script, args: [given] })) as {
      value: T;
      error?: string;
    };
    if (told.error !== undefined) throw new Error(told.error);
    return told.value;
  }

  /** Polls until a function returns a truthy value, and returns it. */
  async until<A extends unknown[], T>(task: Task<A, T>, ...given: A): Promise<T> {
    const enough = Date.now() + patience;
    for (;;) {
      // A page that is being left answers with an error.
      const { value, error } = await this.evaluate(task, ...given).then(
        (value) => ({ value, error: undefined }),
        (error: unknown) => ({ value: undefined, error }),
      );
      if (value) return value;
      if (error instanceof BrowserEnded) throw error;
      if (Date.now() > enough) {
        const shown = await this.evaluate(() => document.body.innerText.slice(0, 600)).catch(
          String,
        );
        throw new Error(
          `The page never came to ${String(task)} with ${JSON.stringify(given)}; it shows ${shown}`,
          { cause: error },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
  }

  /** Waits until such an element is displayed. */
  async shown(selector: string): Promise<void> {
    await this.until(
      (selector) =>
        [...document.querySelectorAll(selector)].some(
          (element) => element.getClientRects().length > 0,
        ),
      selector,
    );
  }

  /** The text of the first such element, as in the document. */
  async text(selector: string): Promise<string> {
    return this.until((selector) => document.querySelector(selector)?.textContent ?? "", selector);
  }

  /** Waits until such an element has this text. */
  async says(selector: string, text: string): Promise<void> {
    await this.until(
      (selector, text) =>
        [...document.querySelectorAll(selector)].some((element) =>
          element.textContent?.includes(text),
        ),
      selector,
      text,
    );
  }

  async click(selector: string): Promise<void> {
    const element = await this.#find(selector);
    // A click hits the topmost element: the sticky question box covers the end of the page.
    await this.evaluate(
      (selector) => document.querySelector(selector)?.scrollIntoView({ block: "center" }),
      selector,
    );
    await this.#line.send("ElementClick", {}, element);
  }

  /** Replaces a field's content. */
  async fill(selector: string, text: string): Promise<void> {
    const element = await this.#find(selector);
    await this.#line.send("ElementClear", {}, element);
    await this.#line.send("ElementSendKeys", { text }, element);
  }

  /** Picks files through an input. */
  async pick(selector: string, ...paths: string[]): Promise<void> {
    await this.#line.send(
      "ElementSendKeys",
      { text: paths.join("\n") },
      await this.#find(selector),
    );
  }

  /** Presses keys in turn, in the focused element. */
  async press(...pressed: string[]): Promise<void> {
    const actions = pressed.flatMap((value) => [
      { type: "keyDown", value },
      { type: "keyUp", value },
    ]);
    await this.#line.send("PerformActions", {
      actions: [{ type: "key", id: "keyboard", actions }],
    });
  }

  /** The same with Shift. */
  async pressShifted(value: string): Promise<void> {
    const actions = [
      { type: "keyDown", value: keys.shift },
      { type: "keyDown", value },
      { type: "keyUp", value },
      { type: "keyUp", value: keys.shift },
    ];
    await this.#line.send("PerformActions", {
      actions: [{ type: "key", id: "keyboard", actions }],
    });
  }

  /** Enters a frame of the page; without a selector, leaves it. */
  async frame(selector?: string): Promise<void> {
    await this.#line.send(
      "SwitchToFrame",
      { id: null },
      selector === undefined ? undefined : await this.#find(selector),
    );
  }

  async size(width: number, height: number): Promise<void> {
    await this.#line.send("SetWindowRect", { x: 0, y: 0, width, height });
  }

  /** Takes a picture for inspection by eye if CONCLAVE_PICTURES names a folder. */
  async picture(name: string): Promise<void> {
    const folder = process.env["CONCLAVE_PICTURES"];
    if (folder === undefined) return;
    // WebKit returns the last painted frame.
    await this.evaluate(
      () =>
        new Promise<void>((resolve) =>
          requestAnimationFrame(() => requestAnimationFrame(() => resolve())),
        ),
    );
    await writeFile(
      `${folder}/${name}.png`,
      Buffer.from((await this.#line.send("TakeScreenshot")) as string, "base64"),
    );
  }

  async #find(selector: string): Promise<string> {
    await this.until((selector) => document.querySelector(selector) !== null, selector);
    const found = (await this.#line.send("FindElement", {
      using: "css selector",
      value: selector,
    })) as Record<string, string>;
    return found[elementKey]!;
  }
}
