/** The custom element in a page of someone else's: the bundled members, models of a hub, and what a visitor does with it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import type { Locator } from "playwright-core";
import type { ConclaveEvent } from "../../src/library/conclave.ts";
import { Hub } from "../hub.ts";
import { dist, stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");
let hub: Hub;
before(async () => {
  hub = await Hub.start();
  for (const file of ["ada", "quill"]) await hub.put(`makers/${file}-GGUF/${file}.gguf`, await readFile(`${dist}members/${file}.gguf`));
});
after(() => hub.stop());

type Chat = HTMLElement & { ask: (question: string) => Promise<void> };

/** A page with the element and these attributes. */
async function arrive(attributes = ""): Promise<{ visitor: Visitor; chat: Locator; part: (name: string) => Locator }> {
  const page = `<!doctype html><title>Embedded</title><link rel="icon" href="./mark.svg"><script type="module" src="./library/element.js"></script><body data-state="ready"><conclave-chat backend="cpu" ${attributes}></conclave-chat>`;
  stand.site.overrides.set("embed.html", page);
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "embed.html" });
  const chat = visitor.page.locator("conclave-chat");
  return { visitor, chat, part: (name) => chat.locator(`[part=${name}]`) };
}

test("the element answers in any page, goes on with the conversation, and begins anew", async () => {
  const { visitor, chat, part } = await arrive();
  await part("box").fill("What is 3 + 4?");
  await part("ask").click();
  await part("segment").first().waitFor();
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  assert.match((await part("answer").textContent()) ?? "", /\w/);
  assert.equal(await part("status").isVisible(), false);

  // A rule is read at each question; one that there isn't is told with those that there are.
  const told = await chat.evaluate(async (element: Chat) => {
    const scorings: string[] = [];
    const kinds = new Set<string>();
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") scorings.push(told.settings.scoring);
    });
    for (const kind of ["round", "end", "error"]) element.addEventListener(kind, ({ type }) => void kinds.add(type));
    for (const rule of ["paper", "none"]) {
      element.setAttribute("rule", rule);
      await element.ask("What is 1 + 2?");
    }
    return { scorings, kinds: [...kinds] };
  });
  assert.deepEqual(told, { scorings: ["logit"], kinds: ["round", "end", "error"] });
  await part("status").filter({ hasText: 'There is no rule "none". Choose one of harmonic, leader, paper.' }).waitFor();
  assert.equal(await part("box").inputValue(), "What is 1 + 2?", "the question is there to be asked again");

  await part("reset").click();
  assert.deepEqual([await part("answer").textContent(), await part("status").isVisible(), await part("reset").isVisible()], ["", false, false]);
  visitor.clean();
  await visitor.leave();
});

test("a conversation longer than the members' room goes on without its oldest questions", async () => {
  const { visitor, chat, part } = await arrive();
  const dropped = await chat.evaluate(async (element: Chat) => {
    const dropped: number[] = [];
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") dropped.push(told.dropped);
    });
    for (let count = 0; count < 6; count++) await element.ask(`What is ${count} + 1? ${"Tell me. ".repeat(60)}`);
    return dropped;
  });
  assert.equal(dropped.length, 6, "every question was answered");
  assert.equal(dropped[0], 0);
  assert.ok(dropped.at(-1)! > 0, dropped.join(", "));
  await part("status").filter({ hasText: "oldest questions are left out" }).waitFor();
  visitor.clean();
  await visitor.leave();
});

test("the element stops while its members are loading, and gives the question back", async () => {
  const { visitor, part } = await arrive();
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await visitor.page.route("**/members/ada.gguf", async (route) => (await held, route.continue()));
  await part("box").fill("What is 3 + 4?");
  await part("ask").click();
  await part("status").filter({ hasText: "Loading" }).waitFor();
  await part("ask").filter({ hasText: "Stop" }).click();
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  assert.equal(await part("box").inputValue(), "What is 3 + 4?");
  release();
  await part("ask").click();
  await part("segment").first().waitFor();
  await visitor.leave();
});

test("models are downloaded once, with consent, and what they take is told before", async () => {
  const refs = ["ada", "quill"].map((file) => `hf:makers/${file}-GGUF/${file}.gguf`).join(" ");
  const { visitor, chat, part } = await arrive(`hub="${hub.address}" members="${refs}"`);
  const question = "What is 3 + 4?";
  await part("box").fill(question);
  await part("box").press("Enter");
  await part("consent").waitFor();
  assert.match((await part("consent").textContent()) ?? "", new RegExp(`2 models have to be downloaded from ${new URL(hub.address).host.replaceAll(".", "\\.")}, 3 MB`));
  const asked = async (): Promise<number> => (await hub.seen()).filter((line) => /\.gguf/.test(JSON.stringify(line))).length;
  assert.equal(await asked(), 0, "nothing is downloaded before");
  await part("consent-decline").click();
  await part("status").filter({ hasText: "Nothing was downloaded." }).waitFor();
  assert.equal(await part("box").inputValue(), question);

  await chat.evaluate((element) => {
    const seen: unknown[] = [];
    Object.assign(globalThis, { seen });
    element.addEventListener("progress", (event) => void seen.push((event as CustomEvent).detail));
  });
  await part("box").press("Enter");
  await part("consent-download").press("Enter");
  await part("segment").first().waitFor();
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  const seen = await visitor.page.evaluate(() => (globalThis as unknown as { seen: { loaded: number; total: number }[] }).seen);
  assert.ok(seen.length > 0 && seen.every(({ loaded, total }) => loaded < total), JSON.stringify(seen));
  const downloads = await asked();
  assert.ok(downloads >= 2);

  await visitor.page.reload();
  await part("box").fill(question);
  await part("box").press("Enter");
  await part("segment").first().waitFor();
  assert.equal(await asked(), downloads, "the browser has kept them");
  await visitor.leave();
});

test("a reset in mid-answer begins anew, and what is asked right behind it is answered", async () => {
  const { visitor, chat, part } = await arrive();
  const prefixes = await chat.evaluate(async (element: Chat & { reset: () => void }) => {
    const prefixes: number[] = [];
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") prefixes.push(Math.max(...told.prefixes.map(({ prefix }) => prefix)));
    });
    let next: Promise<void> | undefined;
    element.addEventListener("round", () => (element.reset(), (next ??= element.ask("What is 1 + 2?"))), { once: true });
    await element.ask(`${"The fox went over the hill and the goose went home. ".repeat(5)}What did the fox do?`);
    await next;
    return prefixes;
  });
  const [before, after] = prefixes;
  assert.ok(prefixes.length === 2 && after! < before! / 2, `nothing of the first conversation is in the second: ${prefixes.join(" and ")} tokens`);
  assert.match((await part("answer").textContent()) ?? "", /^(?!.*fox).*\w/);
  visitor.clean();
  await visitor.leave();
});
