/**
 * A visit to the page in a tab of another browser: a visitor's actions, and the errors meanwhile.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { patience, seedInTurn } from "../browser/visitor.ts";
import { dist } from "../browser/stage.ts";
import type { Site } from "../browser/site.ts";
import { keys, type Tab } from "./driver.ts";

interface Noted {
  complaints: string[];
}

/** Runs before the page's own script: sets seeds, records uncaught errors and policy violations. */
const first = `
  (${seedInTurn.toString()})();
  globalThis.complaints = [];
  addEventListener("error", (event) => complaints.push("uncaught: " + event.message));
  addEventListener("unhandledrejection", (event) => complaints.push("unhandled: " + event.reason));
  addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
    complaints.push("forbidden: " + violatedDirective + " " + blockedURI));
`;

export class Visit {
  /** Name of the browser. */
  readonly browser: string;
  readonly tab: Tab;
  readonly site: Site;

  constructor(browser: string, tab: Tab, site: Site) {
    this.browser = browser;
    this.tab = tab;
    this.site = site;
  }

  /**
   * Opens the page and waits until the members are loaded, unless `loaded` is false. `before`:
   * lines that run before the page's own.
   */
  async arrive({
    search = "",
    loaded = true,
    before = "",
  }: {
    search?: string;
    loaded?: boolean;
    before?: string;
  } = {}): Promise<void> {
    await this.tab.size(1280, 1000);
    this.prepare(before);
    await this.tab.open(this.site.address + search);
    if (loaded) await this.state("ready");
  }

  /**
   * Prepends these lines to the page's script, where its imports are in scope, since imports are
   * hoisted.
   */
  prepare(before = ""): void {
    this.site.overrides.set("before.js", `${first}\n${before}`);
    // A classic script runs before any module.
    const html = readFileSync(`${dist}index.html`, "utf8").replace(
      "<script type",
      '<script src="./before.js"></script><script type',
    );
    this.site.rebuild("index.html", html);
  }

  async state(state: "ready" | "answering" | "loading"): Promise<void> {
    await this.tab.until((state) => document.body?.dataset["state"] === state, state);
  }

  /** Sets a field of the settings. */
  async set(name: string, value: string): Promise<void> {
    const set = (id: string, value: string): void => {
      document.querySelector<HTMLDetailsElement>("details.settings")!.open = true;
      const field = document.querySelector<HTMLInputElement>(id)!;
      field.value = value;
      for (const type of ["input", "change"])
        field.dispatchEvent(new Event(type, { bubbles: true }));
    };
    await this.tab.evaluate(set, `#setting-${name}`, value);
  }

  /** Asks, and waits until the answer has begun; it may be over at once. */
  async ask(question: string): Promise<void> {
    const count = (): number => document.querySelectorAll(".exchange").length;
    const before = await this.tab.evaluate(count);
    await this.tab.fill("#question", question);
    await this.tab.click("#ask");
    await this.tab.until(
      (before) => document.querySelectorAll(".exchange").length > before,
      before,
    );
  }

  /** Asks and waits for the end of the answer; returns its text. */
  async answer(question: string): Promise<string> {
    await this.ask(question);
    await this.state("ready");
    return this.answered();
  }

  /** The text of the last answer. */
  answered(): Promise<string> {
    return this.tab.evaluate(() =>
      [...([...document.querySelectorAll(".exchange")].at(-1)?.querySelectorAll(".segment") ?? [])]
        .map((segment) => segment.textContent)
        .join(""),
    );
  }

  /** Names of the members that are ready. */
  members(): Promise<string[]> {
    return this.tab.evaluate(() =>
      [...document.querySelectorAll('.member[data-state="ready"] .name')].map(
        (name) => name.textContent ?? "",
      ),
    );
  }

  /** Opens the dialog for choosing models by this button. */
  async models(button = "#models"): Promise<void> {
    await this.tab.click(button);
    await this.tab.shown("#models-dialog[open] .ensemble");
  }

  /** Enters a model in the dialog. */
  async enter(reference: string): Promise<void> {
    await this.models("#add-model");
    await this.tab.fill("#reference", reference);
    await this.tab.press(keys.enter);
  }

  /** Waits until the toys have made room for the new member. */
  async alone(): Promise<void> {
    await this.tab.until(
      () => document.querySelector('.member[data-state="ready"]:only-child') !== null,
    );
    await this.state("ready");
  }

  /** Waits for the offer to copy a picked file, where the browser has a place for it. */
  async offered(): Promise<void> {
    await this.tab.says(".notice", "in this visit only");
  }

  /** Presses the button of a notice with this text. */
  async press(text: string): Promise<void> {
    await this.tab.until((text) => {
      const found = [...document.querySelectorAll<HTMLElement>(".notice button")].find(
        ({ textContent }) => textContent === text,
      );
      found?.click();
      return found !== undefined;
    }, text);
  }

  /** Waits until the page's own files are kept for offline visits. */
  async offlineCopy(): Promise<void> {
    await this.tab.until(() => navigator.serviceWorker.controller !== null);
  }

  async clean(): Promise<void> {
    const { complaints, notices, elsewhere } = await this.tab.evaluate(() => ({
      complaints: (globalThis as unknown as Noted).complaints,
      notices: document.querySelector("#notices")?.textContent ?? "",
      elsewhere: performance
        .getEntriesByType("resource")
        .map(({ name }) => new URL(name))
        .filter(({ protocol, origin }) => /^https?:$/.test(protocol) && origin !== location.origin)
        .map(({ href }) => href),
    }));
    assert.deepEqual(
      { complaints, notices, elsewhere },
      { complaints: [], notices: "", elsewhere: [] },
    );
  }
}

/** Waits for a condition outside of pages. */
export async function eventually(what: string, holds: () => Promise<boolean>): Promise<void> {
  const enough = Date.now() + patience;
  while (!(await holds())) {
    if (Date.now() > enough) throw new Error(`It never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
}
