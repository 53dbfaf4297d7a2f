/**
 * A visitor to the page: a real Chromium, on SwiftShader or without WebGPU, that records every
 * console error, policy violation and request to another origin.
 */
import assert from "node:assert/strict";
import {
  chromium,
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  type LaunchOptions,
  type Locator,
  type Page,
} from "playwright-core";
import { faults } from "../axe.ts";
import type { Site } from "./site.ts";

/**
 * A name other than localhost: over plain http it is no secure context, without navigator.gpu and
 * crypto.subtle.
 */
export const plainHost = "conclave.test";

/** Flags of every Chromium here. */
export const plain = [
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Generous timeout for a busy machine; costs nothing elsewhere. */
export const patience = 120_000;

/**
 * `swiftshader`: WebGPU on a software adapter. `hardware`: on this machine's own. `none`: WebGPU
 * without an adapter.
 */
export type Graphics = "swiftshader" | "hardware" | "none";

const graphicsFlags: Record<Graphics, string[]> = {
  swiftshader: ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"],
  hardware: [
    "--enable-unsafe-webgpu",
    "--ignore-gpu-blocklist",
    "--enable-features=Vulkan",
    "--use-angle=vulkan",
  ],
  none: [],
};

const options = (graphics: Graphics, also: string[] = []): LaunchOptions => ({
  executablePath: process.env["CONCLAVE_CHROMIUM"] ?? "/usr/bin/chromium",
  args: [
    ...plain,
    ...graphicsFlags[graphics],
    ...also,
    `--host-resolver-rules=MAP ${plainHost} 127.0.0.1`,
  ],
});

/** `also`: further flags. */
export function launch(graphics: Graphics, also: string[] = []): Promise<Browser> {
  return chromium.launch(options(graphics, also));
}

/**
 * A browser with its profile in a folder, as a visitor's: other windows keep private files in the
 * memory of another process.
 */
export function launchIn(profile: string, graphics: Graphics): Promise<BrowserContext> {
  return chromium.launchPersistentContext(profile, options(graphics));
}

/**
 * Gives a page's nth answer the seed n where the page would draw one, so that each run of a test
 * sees the same answers. Runs in the page, before its own script.
 */
export function seedInTurn(): void {
  const random = crypto.getRandomValues.bind(crypto);
  let answers = 0;
  // A seed is the upper 31 of the 32 bits drawn for it.
  crypto.getRandomValues = ((array: Uint8Array | Uint32Array) =>
    array instanceof Uint32Array
      ? array.fill(2 * ++answers)
      : random(array)) as Crypto["getRandomValues"];
}

/** Opens a tab of this context in which seeds are set in turn. */
async function tab(context: BrowserContext): Promise<Page> {
  const page = await context.newPage();
  await page.addInitScript(seedInTurn);
  return page;
}

export class Visitor {
  readonly page: Page;
  /** Must stay empty on a clean visit. */
  readonly complaints: string[] = [];

  /** Origins that the page may contact. */
  readonly #own: string[];

  private constructor(page: Page, own: string[]) {
    this.page = page;
    this.#own = own;
    page.setDefaultTimeout(patience);
    page.on("console", (message) => {
      if (message.type() === "error")
        this.complaints.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on("pageerror", (error) => this.complaints.push(`uncaught: ${String(error)}`));
    page.context().on("request", (request) => {
      const url = new URL(request.url());
      if (/^https?:$/.test(url.protocol) && !own.includes(url.origin))
        this.complaints.push(`request to ${url.href}`);
    });
  }

  /** Allows another origin. */
  allow(origin: string): void {
    this.#own.push(origin);
  }

  /**
   * Opens the page and waits until the members are loaded, unless `loaded` is false. `also`: other
   * allowed origins.
   */
  static async arrive(
    browser: Pick<Browser, "newContext">,
    site: Pick<Site, "address">,
    {
      search = "",
      loaded = true,
      host = "127.0.0.1",
      also,
      ...context
    }: BrowserContextOptions & {
      search?: string;
      loaded?: boolean;
      host?: string;
      also?: string | string[];
    } = {},
  ): Promise<Visitor> {
    const page = await tab(await browser.newContext(context));
    const address = new URL(site.address + search);
    address.hostname = host;
    const visitor = new Visitor(page, [address.origin, ...[also ?? []].flat()]);
    await page.goto(address.href);
    if (loaded) await visitor.state("ready");
    return visitor;
  }

  /**
   * The same visitor in another tab; waits until the members are loaded, unless `loaded` is false.
   */
  async sibling(loaded = true): Promise<Visitor> {
    const page = await tab(this.page.context());
    const visitor = new Visitor(page, [new URL(this.page.url()).origin]);
    await page.goto(this.page.url());
    if (loaded) await visitor.state("ready");
    return visitor;
  }

  /** Waits for the page to be `ready`, `answering` or `loading`. */
  async state(state: "ready" | "answering" | "loading", timeout = patience): Promise<void> {
    await this.page.locator(`body[data-state="${state}"]`).waitFor({ timeout });
  }

  async openSettings(): Promise<void> {
    await this.page
      .locator("details.settings")
      .evaluate((details: HTMLDetailsElement) => (details.open = true));
  }

  /** Sets a field of the settings form. */
  async set(name: string, value: string | boolean): Promise<void> {
    await this.openSettings();
    const field = this.page.locator(`#setting-${name}`);
    if (typeof value === "boolean") await field.setChecked(value);
    else if ((await field.evaluate((element) => element.tagName)) === "SELECT")
      await field.selectOption(value);
    else await field.fill(value);
  }

  /** Opens the dialog for choosing models. */
  async models(): Promise<void> {
    await this.page.locator("#models").click();
    await this.page.locator("#models-dialog .ensemble").first().waitFor();
  }

  /** Opens the dialog with all conversations. */
  async conversations(): Promise<void> {
    await this.page.locator("#conversations").click();
    await this.page
      .locator("#conversations-dialog[open] .conversations[aria-busy=false]")
      .waitFor({ state: "attached" });
  }

  /** The questions of the shown conversation. */
  questions(): Promise<string[]> {
    return this.page.locator(".exchange .question").allTextContents();
  }

  /** Adds the toys' files as models of the visitor's own, which answer together with others. */
  async ownToys(files = ["ada", "quill", "juno"]): Promise<void> {
    const members = `${process.env["CONCLAVE_WEB"] ?? "./"}dist/members/`;
    await this.pick(files.map((file) => `${members}${file}.gguf`));
    for (const file of files)
      await this.page
        .locator('.member[data-state="ready"] .name', { hasText: new RegExp(`^${file}$`, "i") })
        .first()
        .waitFor();
    const cards = this.page.locator(".member");
    await cards.nth(files.length).waitFor({ state: "detached" });
  }

  /** Lets only this member take part. */
  async only(card: Locator): Promise<void> {
    await this.page
      .locator(".takes-part input:checked")
      .evaluateAll((boxes: HTMLInputElement[]) => boxes.forEach((box) => box.click()));
    await card.getByRole("checkbox").check();
  }

  /** Puts files into an input `#offered`, for scripts of a test. */
  async offer(files: string | string[]): Promise<void> {
    await this.page.evaluate(() =>
      document.body.insertAdjacentHTML("beforeend", '<input type="file" id="offered" multiple>'),
    );
    await this.page.locator("#offered").setInputFiles(files);
  }

  /** Adds members from files by the dialog's picker: by path, or with given content. */
  async pick(
    files: string[] | { name: string; mimeType: string; buffer: Buffer }[],
  ): Promise<void> {
    await this.models();
    await this.page
      .locator("#models-dialog .add-files input:not([webkitdirectory])")
      .setInputFiles(files);
    await this.page.locator("#models-dialog[open]").waitFor({ state: "detached" });
  }

  /** The same from a folder. */
  async pickFolder(path: string): Promise<void> {
    await this.models();
    await this.page.locator("#models-dialog .add-files input[webkitdirectory]").setInputFiles(path);
    await this.page.locator("#models-dialog[open]").waitFor({ state: "detached" });
  }

  /** Adds a member behind a server by the dialog, without waiting for the server. */
  async join({
    base,
    key,
    judges = false,
    name,
  }: {
    base: string;
    key?: string;
    judges?: boolean;
    name: string;
  }): Promise<void> {
    const { page } = this;
    await page.locator("#add-model").click();
    await page.locator(".remote").evaluate((details: HTMLDetailsElement) => (details.open = true));
    await page.getByLabel("Address", { exact: true }).fill(base);
    assert.equal(
      await page.locator("#remote-hint").textContent(),
      `What is asked and answered goes to ${new URL(base).host}, and the key with it. ` +
        "The key is forgotten when this page closes.",
    );
    await page.getByLabel("Model", { exact: true }).fill(name);
    await page.getByLabel("Key", { exact: true }).fill(key ?? "");
    // Nothing may be late on a busy machine.
    await page.getByLabel("Wait, s", { exact: true }).fill("60");
    await page.getByLabel("It only judges").setChecked(judges);
    await page.getByRole("button", { name: "Ask it to join" }).click();
  }

  /** Waits until the page's own files are kept for offline visits. */
  async offlineCopy(): Promise<void> {
    await this.page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  }

  /** Asks; the answer may be over at once. */
  async ask(question: string): Promise<void> {
    const exchanges = this.page.locator(".exchange");
    const before = await exchanges.count();
    await this.page.locator("#question").fill(question);
    await this.page.locator("#ask").click();
    await exchanges.nth(before).waitFor();
  }

  /** Asks and waits for the end of the answer; returns its text. */
  async answer(question: string, timeout = 240_000): Promise<string> {
    await this.ask(question);
    await this.state("ready", timeout);
    return this.text();
  }

  /** The displayed text of the last answer. */
  async text(): Promise<string> {
    return (
      await this.page.locator(".exchange .answer").last().locator(".segment").allTextContents()
    ).join("");
  }

  /**
   * Runs `task` in the page as soon as `shown` holds, which would be too late from here. Neither
   * has outer scope.
   */
  async when(shown: () => boolean, task: () => void): Promise<void> {
    await this.page.evaluate(`{
      const watch = new MutationObserver(() => {
        if (!(${String(shown)})()) return;
        watch.disconnect();
        (${String(task)})();
      });
      watch.observe(document.body, { childList: true, subtree: true, characterData: true });
    }`);
  }

  /** Checks that axe-core finds nothing. `state`: what is shown. */
  async faultless(state?: string): Promise<void> {
    assert.deepEqual(await this.page.evaluate(faults), [], state);
  }

  /** Checks that nothing is wider than the window. */
  async fits(): Promise<void> {
    const wider = (): number => document.documentElement.scrollWidth - innerWidth;
    assert.equal(await this.page.evaluate(wider), 0, "nothing is cut off");
  }

  clean(): void {
    assert.deepEqual(this.complaints, []);
  }

  async leave(): Promise<void> {
    await this.page.context().close();
  }

  /** Leaves a clean visit. */
  async leaveClean(): Promise<void> {
    this.clean();
    await this.leave();
  }
}
