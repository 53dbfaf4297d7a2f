/**
 * The custom element in a foreign page: the bundled members, models of a hub, and a visitor's
 * actions.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, afterEach, before, test } from "node:test";
import type { Locator } from "playwright-core";
import type { ConclaveEvent } from "../../src/library/conclave.ts";
import { Hub } from "../hub.ts";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
let hub: Hub;
before(async () => {
  hub = await Hub.start();
  for (const file of ["ada", "quill"])
    await hub.put(
      `makers/${file}-GGUF/${file}.gguf`,
      await readFile(`${dist}members/${file}.gguf`),
    );
});
after(() => hub.stop());
afterEach(() => putNothingBeforeWorker(stand.site));

type Chat = HTMLElement & { ask: (question: string) => Promise<void> };

/** A page with the element and these attributes. */
async function arrive(
  attributes = "",
): Promise<{ visitor: Visitor; chat: Locator; part: (name: string) => Locator }> {
  const page =
    '<!doctype html><title>Embedded</title><link rel="icon" href="./mark.svg">' +
    '<script type="module" src="./library/element.js"></script><body data-state="ready">' +
    `<conclave-chat backend="cpu" ${attributes}></conclave-chat>`;
  stand.site.overrides.set("embed.html", page);
  const visitor = await stand.arrive({ search: "embed.html" });
  const chat = visitor.page.locator("conclave-chat");
  return { visitor, chat, part: (name) => chat.locator(`[part=${name}]`) };
}

/** Collects the reasons of the element's ends, for {@link ends}. */
const collectEnds = (chat: Locator): Promise<void> =>
  chat.evaluate((element) => {
    const ends: string[] = [];
    Object.assign(globalThis, { ends });
    element.addEventListener("end", (event) =>
      ends.push((event as CustomEvent<{ stop: string }>).detail.stop),
    );
  });

const ends = ({ page }: Visitor): Promise<string[]> =>
  page.evaluate(() => (globalThis as unknown as { ends: string[] }).ends);

test("the element answers in any page, goes on with a conversation, and begins anew", async () => {
  const { visitor, chat, part } = await arrive();
  await part("box").fill("What is 3 + 4?");
  await part("ask").click();
  await part("segment").first().waitFor();
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  const first = (await part("answer").textContent()) ?? "";
  assert.match(first, /\w/);
  assert.equal(await part("box").inputValue(), "");
  assert.equal(await part("question").textContent(), "What is 3 + 4?");
  assert.equal(await part("status").isVisible(), false);
  // Each writer is named once, underlined as its segments are.
  const lines = await part("segment").evaluateAll((segments) => [
    ...new Set(segments.map(({ className }) => className)),
  ]);
  assert.deepEqual(
    await part("writers")
      .locator("span")
      .evaluateAll((names) => names.map(({ className }) => className)),
    lines,
  );
  assert.match(
    (await part("writers").textContent()) ?? "",
    /^Written by (Ada|Quill|Juno)(, (Ada|Quill|Juno))*$/,
  );

  // The rule is read at each question; the error for an unknown one lists the valid ones.
  const told = await chat.evaluate(async (element: Chat) => {
    const scorings: string[] = [];
    const kinds = new Set<string>();
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") scorings.push(told.settings.scoring);
    });
    for (const kind of ["round", "end", "error"])
      element.addEventListener(kind, ({ type }) => void kinds.add(type));
    for (const rule of ["paper", "none"]) {
      element.setAttribute("rule", rule);
      await element.ask("What is 1 + 2?");
    }
    return { scorings, kinds: [...kinds] };
  });
  assert.deepEqual(told, { scorings: ["logit"], kinds: ["round", "end", "error"] });
  // Earlier questions and answers stay above; a question without an answer is only in the box.
  const log = part("log").locator("> *");
  const earlier = await log.allTextContents();
  assert.deepEqual(
    [earlier.length, earlier[0], earlier[1], earlier[2]],
    [4, "What is 3 + 4?", first, "What is 1 + 2?"],
  );
  assert.deepEqual(await log.evaluateAll((parts) => parts.map((one) => one.getAttribute("part"))), [
    "question earlier",
    "answer earlier",
    "question earlier",
    "answer earlier",
  ]);
  for (const one of [log.nth(0), log.nth(2), part("question"), part("box")])
    assert.equal(await one.getAttribute("dir"), "auto");
  assert.equal(await part("question").isVisible(), false);
  await part("status")
    .filter({ hasText: 'There is no rule "none". Choose one of harmonic, leader, paper.' })
    .waitFor();
  assert.equal(
    await part("box").inputValue(),
    "What is 1 + 2?",
    "the question is there to be asked again",
  );

  await part("reset").click();
  assert.deepEqual(
    [
      await part("answer").textContent(),
      await part("status").isVisible(),
      await part("reset").isVisible(),
    ],
    ["", false, false],
  );
  assert.deepEqual(
    [await log.count(), await part("question").isVisible(), await part("writers").isVisible()],
    [0, false, false],
  );
  await visitor.leaveClean();
});

test("a conversation longer than the room goes on without its oldest questions", async () => {
  const { visitor, chat, part } = await arrive();
  await part("box").fill("What is 9 +");
  const dropped = await chat.evaluate(async (element: Chat) => {
    const dropped: number[] = [];
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") dropped.push(told.dropped);
    });
    for (let count = 0; count < 6; count++)
      await element.ask(`What is ${count} + 1? ${"Tell me. ".repeat(60)}`);
    return dropped;
  });
  assert.equal(dropped.length, 6, "every question was answered");
  assert.equal(dropped[0], 0);
  assert.ok(dropped.at(-1)! > 0, dropped.join(", "));
  await part("status").filter({ hasText: "oldest questions are left out" }).waitFor();
  assert.equal(await part("box").inputValue(), "What is 9 +", "the visitor is typing");
  await visitor.leaveClean();
});

test("the element stops while its members are loading, and gives the question back", async () => {
  const { visitor, chat, part } = await arrive();
  await collectEnds(chat);
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await visitor.page.route("**/members/ada.gguf", async (route) => (await held, route.continue()));
  await part("box").fill("What is 3 + 4?");
  await part("ask").click();
  await part("status").filter({ hasText: "Loading" }).waitFor();
  // Enter stops nothing, and what is typed for later stays.
  const stop = part("ask").filter({ hasText: "Stop" });
  const ask = part("ask").filter({ hasText: "Ask" });
  await part("box").press("Enter");
  await part("box").fill("And 5 + 8?");
  await part("box").press("Enter");
  await stop.click();
  await ask.waitFor();
  assert.equal(await part("box").inputValue(), "And 5 + 8?");
  await part("box").fill("What is 3 + 4?");
  await ask.dblclick();
  await stop.click();
  await ask.waitFor();
  assert.equal(await part("box").inputValue(), "What is 3 + 4?");
  assert.deepEqual(await ends(visitor), ["stopped", "stopped"]);
  release();
  await part("ask").click();
  await part("segment").first().waitFor();
  await visitor.leave();
});

test("models are downloaded once, with consent, and what they take is told before", async () => {
  const refs = ["ada", "quill"].map((file) => `hf:makers/${file}-GGUF/${file}.gguf`).join(" ");
  const { visitor, chat, part } = await arrive(`hub="${hub.address}" members="${refs}"`);
  const question = "What is 3 + 4?";
  await collectEnds(chat);
  await part("box").fill(question);
  await part("box").press("Enter");
  await part("consent").waitFor();
  const host = new URL(hub.address).host.replaceAll(".", "\\.");
  assert.match(
    (await part("consent").textContent()) ?? "",
    new RegExp(`2 models have to be downloaded from ${host}, 3 MB`),
  );
  const asked = async (): Promise<number> =>
    (await hub.seen()).filter((line) => /\.gguf/.test(JSON.stringify(line))).length;
  assert.equal(await asked(), 0, "nothing is downloaded before");
  await part("consent-decline").click();
  await part("status").filter({ hasText: "Nothing was downloaded." }).waitFor();
  assert.equal(await part("box").inputValue(), question);
  assert.deepEqual(await ends(visitor), ["stopped"]);

  await chat.evaluate((element) => {
    const seen: unknown[] = [];
    Object.assign(globalThis, { seen });
    element.addEventListener("progress", (event) => void seen.push((event as CustomEvent).detail));
  });
  await part("box").press("Enter");
  await part("consent-download").press("Enter");
  await part("segment").first().waitFor();
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  const seen = await visitor.page.evaluate(
    () =>
      (globalThis as unknown as { seen: { share: number; loaded: number; total: number }[] }).seen,
  );
  assert.deepEqual([seen[0]?.share, seen.at(-1)?.share], [0, 1]);
  assert.ok(
    seen.length > 2 &&
      seen.every(({ share }, index) => index === 0 || share > seen[index - 1]!.share),
    JSON.stringify(seen),
  );
  const { loaded, total } = seen.at(-1)!;
  assert.ok(loaded === total && total > 2e6, `${loaded} of ${total} bytes`);
  assert.ok(await part("progress").isHidden());
  const downloads = await asked();
  assert.ok(downloads >= 2);

  await visitor.page.reload();
  await part("box").fill(question);
  await part("box").press("Enter");
  await part("segment").first().waitFor();
  assert.equal(await asked(), downloads, "the browser has kept them");
  await visitor.leave();
});

test("an element that is moved keeps its answer and members; taken out it ends them", async () => {
  const { visitor, chat, part } = await arrive();
  const { page } = visitor;
  const stops = await chat.evaluate(async (element: Chat) => {
    const stops: string[] = [];
    element.addEventListener("end", (event) =>
      stops.push((event as CustomEvent<{ stop: string }>).detail.stop),
    );
    // Moves it at once, and with a removal in between, as some frameworks do.
    element.addEventListener(
      "round",
      () => document.body.appendChild(document.createElement("section")).append(element),
      { once: true },
    );
    await element.ask("What is 3 + 4?");
    element.addEventListener(
      "round",
      () => (element.remove(), void Promise.resolve().then(() => document.body.prepend(element))),
      { once: true },
    );
    await element.ask("What is 1 + 2?");
    return stops;
  });
  assert.ok(stops.length === 2 && stops.every((stop) => stop !== "stopped"), stops.join(", "));
  assert.ok(page.workers().length > 0, "the engine is there");
  assert.match((await part("answer").textContent()) ?? "", /\w/);
  await chat.evaluate((element) => element.remove());
  await page.waitForFunction(() => document.querySelector("conclave-chat") === null);
  for (let count = 0; page.workers().length > 0 && count < 600; count++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(page.workers().length, 0, "and gone with it");
  await visitor.leave();
});

test("attributes that mean nothing are told with those that do", async () => {
  const { visitor, chat, part } = await arrive();
  const faults: [string, string, string][] = [
    ["backend", "gpu", 'open.backend must be "auto" or "webgpu" or "cpu"; it was "gpu".'],
    ["core", "x", 'open.core must be "fused" or "burn"; it was "x".'],
    ["thinking", "loudly", 'ask.thinking must be "off" or "on" or "auto"; it was "loudly".'],
  ];
  for (const [name, value, message] of faults) {
    const told = await chat.evaluate(
      async (element: Chat, [name, value]) => {
        const { members } = element as Chat & { members: unknown };
        const told: string[] = [];
        const hear = (event: Event): void =>
          void told.push((event as unknown as CustomEvent<Error>).detail.message);
        element.addEventListener("error", hear);
        const before = element.getAttribute(name!);
        element.setAttribute(name!, value!);
        Object.assign(element, { members: name === "thinking" ? members : [] });
        await element.ask("What is 3 + 4?");
        if (before === null) element.removeAttribute(name!);
        else element.setAttribute(name!, before);
        Object.assign(element, { members: undefined });
        element.removeEventListener("error", hear);
        return told;
      },
      [name, value],
    );
    assert.deepEqual(told, [message]);
    await part("status").filter({ hasText: message }).waitFor();
  }
  const refused = await chat.evaluate((element: Chat) =>
    element.ask(5 as unknown as string).catch((error: Error) => error.message),
  );
  assert.equal(refused, "The question must be a string; it was 5.");
  await chat.evaluate(
    (element: Chat) => Object.assign(element, { members: 5 }) && element.ask("What is 3 + 4?"),
  );
  await part("status").filter({ hasText: "load.members must be a list; it was 5." }).waitFor();
  await visitor.leaveClean();
});

test("a reset in mid-answer begins anew; a question right after it is answered", async () => {
  const { visitor, chat, part } = await arrive();
  const prefixes = await chat.evaluate(async (element: Chat & { reset: () => void }) => {
    const prefixes: number[] = [];
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin")
        prefixes.push(Math.max(...told.prefixes.map(({ prefix }) => prefix)));
    });
    let next: Promise<void> | undefined;
    element.addEventListener(
      "round",
      () => (element.reset(), (next ??= element.ask("What is 1 + 2?"))),
      { once: true },
    );
    await element.ask(
      `${"The fox went over the hill and the goose went home. ".repeat(5)}What did the fox do?`,
    );
    await next;
    return prefixes;
  });
  const [before, after] = prefixes;
  assert.ok(
    prefixes.length === 2 && after! < before! / 2,
    `nothing of the first conversation is in the second: ${prefixes.join(" and ")} tokens`,
  );
  assert.match((await part("answer").textContent()) ?? "", /^(?!.*fox).*\w/);
  await visitor.leaveClean();
});

test("members set before the element is defined are its members", async () => {
  stand.site.overrides.set(
    "bare.html",
    '<!doctype html><title>Bare</title><link rel="icon" href="./mark.svg">' +
      '<body data-state="ready"><conclave-chat backend="cpu"></conclave-chat>',
  );
  const visitor = await stand.arrive({ search: "bare.html", loaded: false });
  const members = await visitor.page.evaluate(async () => {
    const element = document.querySelector("conclave-chat")! as Chat;
    Object.assign(element, { members: [{ name: "Only", url: "./members/quill.gguf" }] });
    await import(new URL("./library/element.js", document.baseURI).href);
    let members: string[] = [];
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") members = told.members;
    });
    await element.ask("What is 3 + 4?");
    return members;
  });
  assert.deepEqual(members, ["Only"]);
  await visitor.leaveClean();
});

test("an answer ends as stopped when its members change or the element leaves", async () => {
  // None is over before it is stopped.
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const { visitor, chat, part } = await arrive();
  const { ends, begun, refused, box } = await chat.evaluate(async (element: Chat) => {
    const ends: string[] = [];
    const begun: string[] = [];
    element.addEventListener("error", (event) =>
      ends.push(String((event as unknown as CustomEvent).detail)),
    );
    element.addEventListener("end", (event) =>
      ends.push((event as CustomEvent<{ stop: string }>).detail.stop),
    );
    element.addEventListener("conclave-event", (event) => {
      const told = (event as CustomEvent<ConclaveEvent>).detail;
      if (told.type === "begin") begun.push(told.members.join());
    });
    let refused: unknown;
    const during = (change: () => void): Promise<void> => {
      element.addEventListener("round", change, { once: true });
      return element.ask("Tell me a story about a fox.");
    };
    await during(
      () => void element.ask("And now?").catch((error: Error) => (refused = error.name)),
    );
    await during(() => element.setAttribute("assets", "./library/"));
    await during(() => element.setAttribute("members", "./members/members.json"));
    await during(() =>
      Object.assign(element, { members: [{ name: "Only", url: "./members/quill.gguf" }] }),
    );
    await during(() => element.remove());
    document.body.append(element);
    const box = element.shadowRoot!.querySelector<HTMLInputElement>("[part=box]")!.value;
    return { ends, begun, refused, box };
  });
  assert.deepEqual(ends.slice(1), ["stopped", "stopped", "stopped", "stopped"]);
  assert.deepEqual(begun, [...Array<string>(4).fill("Ada,Quill,Juno"), "Only"]);
  assert.deepEqual([refused, box], ["Settings", ""]);

  // A folder without the files, such as a bundler's that has not copied them.
  await chat.evaluate((element) => element.setAttribute("assets", "./nowhere/"));
  await part("box").fill("What is 3 + 4?");
  await part("box").press("Enter");
  await part("status").filter({ hasText: "name their folder by `assets`" }).waitFor();
  await visitor.leave();
});

test("a stop just before the consent is asked for leaves nothing to consent to", async () => {
  const { visitor, chat, part } = await arrive(
    `hub="${hub.address}" members="hf:makers/ada-GGUF/ada.gguf"`,
  );
  await chat.evaluate((element) => {
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function (...[message, ...rest]: [unknown, ...never[]]): void {
      const stop = element.shadowRoot!.querySelector<HTMLElement>("[part=ask]")!;
      if ((message as { type: string }).type === "models") stop.click();
      postMessage.call(this, message, ...rest);
    };
  });
  await part("box").fill("What is 3 + 4?");
  await part("box").press("Enter");
  await part("ask").filter({ hasText: "Ask" }).waitFor();
  await visitor.page.waitForTimeout(300);
  assert.equal(await part("consent").isVisible(), false);
  await visitor.leave();
});
