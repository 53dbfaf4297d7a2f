/** The library and the custom element in a page of someone else's, under the same strict policy. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";

const stand = stage("none");

interface Event {
  type: string;
  text?: string;
  stop?: string;
  prefixes?: { prefix: number; run: number }[];
  counters?: { prefix: number; prefilled: number; drafted: number; verified: number }[];
  candidates?: { text: string; tokens: number }[];
  scores?: unknown[][];
}

test("a follow-up runs only what is new, and a round costs no more than drafts and candidates", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const [first, second] = await visitor.page.evaluate(async () => {
    interface Library {
      Conclave: { load(options: object): Promise<{ ask(messages: object[], options: object): AsyncIterable<Event>; close(): void }> };
    }
    const { Conclave } = (await import(new URL("./conclave.js", document.baseURI).href)) as Library;
    const conclave = await Conclave.load({ backend: "cpu" });
    const ask = async (messages: object[]): Promise<Event[]> => {
      const events: Event[] = [];
      for await (const event of conclave.ask(messages, { sampling: { seed: 1 } })) events.push(event);
      return events;
    };
    const question = { role: "user", content: "What is 47 + 86?" };
    const first = await ask([question]);
    const content = first.at(-1)?.text ?? "";
    const second = await ask([question, { role: "assistant", content }, { role: "user", content: "What is 3 + 4?" }]);
    conclave.close();
    return [first, second] as const;
  });
  for (const { prefix, run } of first[0]!.prefixes!) assert.equal(run, prefix, "the first question runs all of it");
  for (const { prefix, run } of second[0]!.prefixes!) assert.ok(run < prefix / 2, `a follow-up ran ${run} of ${prefix} tokens`);
  for (const events of [first, second]) {
    const rounds = events.filter((event) => event.type === "round");
    assert.equal(rounds.map((round) => round.text).join(""), events.at(-1)?.text);
    for (const round of rounds) {
      for (const { prefilled, drafted } of round.counters!) {
        assert.equal(prefilled, 0, "nothing of the prefix is run again");
        assert.ok(drafted <= 9, `${drafted} decode steps for L = 10`);
      }
    }
  }
  visitor.clean();
  await visitor.leave();
});

test("the custom element answers in any page, and stops", async () => {
  stand.site.overrides.set(
    "embed.html",
    '<!doctype html><title>Embedded</title><link rel="icon" href="./mark.svg"><script type="module" src="./element.js"></script><body data-state="ready"><conclave-chat backend="cpu"></conclave-chat>',
  );
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "embed.html" });
  const { page } = visitor;
  const chat = page.locator("conclave-chat");
  await chat.locator("input").fill("What is 3 + 4?");
  await chat.locator("button").click();
  await chat.locator("[part=segment]").first().waitFor();
  await chat.locator("button", { hasText: "Ask" }).waitFor();
  assert.match((await chat.locator("[part=answer]").textContent()) ?? "", /\w/);
  visitor.clean();
  await visitor.leave();
});

test("the custom element stops while its members are loading, and gives the question back", async () => {
  stand.site.overrides.set(
    "embed.html",
    '<!doctype html><title>Embedded</title><link rel="icon" href="./mark.svg"><script type="module" src="./element.js"></script><body data-state="ready"><conclave-chat backend="cpu"></conclave-chat>',
  );
  const visitor = await Visitor.arrive(stand.browser, stand.site, { search: "embed.html" });
  const { page } = visitor;
  const chat = page.locator("conclave-chat");
  let release = (): void => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/members/ada.gguf", async (route) => (await held, route.continue()));
  await chat.locator("input").fill("What is 3 + 4?");
  await chat.locator("button").click();
  await chat.locator("[part=answer]", { hasText: "Loading" }).waitFor();
  await chat.locator("button", { hasText: "Stop" }).click();
  await chat.locator("button", { hasText: "Ask" }).waitFor();
  assert.equal(await chat.locator("input").inputValue(), "What is 3 + 4?");
  release();
  await chat.locator("button").click();
  await chat.locator("[part=segment]").first().waitFor();
  await visitor.leave();
});
