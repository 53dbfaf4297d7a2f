/** The library in a foreign page, under the same strict policy. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  AskOptions,
  ConclaveError,
  ConclaveEvent,
  Message,
} from "../../src/library/conclave.ts";
import { putBeforeWorker, putNothingBeforeWorker } from "./before-worker.ts";
import { stage } from "./stage.ts";

const stand = stage("none");

type Library = typeof import("../../src/library/conclave.ts");

const begun = (events: ConclaveEvent[]) => events.find((event) => event.type === "begin")!;
const ended = (events: ConclaveEvent[]) => events.find((event) => event.type === "end")!;

test("a follow-up runs only what is new, a round no more than drafts and candidates", async () => {
  const visitor = await stand.arrive();
  const [first, second] = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu" });
    const ask = async (messages: Message[]): Promise<ConclaveEvent[]> => {
      const events: ConclaveEvent[] = [];
      for await (const event of conclave.ask(messages, {
        sampling: { seed: 1 },
        settings: { segmentTokens: 10 },
      }))
        events.push(event);
      return events;
    };
    const question = { role: "user", content: "What is 47 + 86?" } as const;
    const first = await ask([question]);
    const end = first.at(-1)!;
    const content = end.type === "end" ? end.text : "";
    const second = await ask([
      question,
      { role: "assistant", content },
      { role: "user", content: "What is 3 + 4?" },
    ]);
    conclave.close();
    return [first, second] as const;
  });
  for (const { prefix, run } of begun(first).prefixes)
    assert.equal(run, prefix, "the first question runs all of it");
  for (const { prefix, run } of begun(second).prefixes)
    assert.ok(run < prefix / 2, `a follow-up ran ${run} of ${prefix} tokens`);
  for (const events of [first, second]) {
    const rounds = events.filter((event) => event.type === "round");
    assert.equal(rounds.map((round) => round.text).join(""), ended(events).text);
    for (const round of rounds) {
      for (const { prefilled, drafted } of round.counters) {
        assert.equal(prefilled, 0, "nothing of the prefix is run again");
        assert.ok(drafted <= 9, `${drafted} decode steps for L = 10`);
      }
    }
  }
  await visitor.leaveClean();
});

test("moves by themselves draft and score what the rounds of an answer do", async () => {
  const visitor = await stand.arrive();
  const { round, drafts, scores } = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu" });
    const sampling = { temperature: 0, seed: 1 };
    const messages = [{ role: "user" as const, content: "What is 47 + 86?" }];
    const rounds = [];
    for await (const event of conclave.ask(messages, { sampling, settings: { maxRounds: 2 } }))
      if (event.type === "round") rounds.push(event);
    const [first, round] = rounds;
    const conversation = await conclave.begin(messages, { sampling });
    await conversation.draft();
    await conversation.verify(first!.candidates);
    await conversation.keep(first!.winner);
    const drafts = await conversation.draft();
    const scores = await conversation.verify(round!.candidates);
    await conversation.end();
    conclave.close();
    return { round: round!, drafts, scores };
  });
  for (const [place, { text }] of round.candidates.entries())
    assert.ok(drafts[place]!.text.startsWith(text), `${drafts[place]!.text} is cut to ${text}`);
  for (const [i, row] of round.scores.entries())
    for (const [j, score] of row.entries())
      assert.ok(Math.abs(scores[i]![j]!.meanLogit! - score.meanLogit!) < 1e-4);
  await visitor.leaveClean();
});

test("a stop in a long prompt is heard within a step, and nothing is read again", async () => {
  await putBeforeWorker(stand.site, "paced-worker.ts");
  const visitor = await stand.arrive({ serviceWorkers: "block" });
  const [stopped, again] = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu" });
    const fox = "The fox went over the hill and the goose went home. ";
    const content = `${fox.repeat(25)}What is 3 + 4?`;
    const ask = async (
      options: AskOptions,
      onEvent = (_event: ConclaveEvent): void => {},
    ): Promise<ConclaveEvent[]> => {
      const events: ConclaveEvent[] = [];
      for await (const event of conclave.ask([{ role: "user", content }], {
        settings: { maxRounds: 1 },
        ...options,
      })) {
        events.push(event);
        onEvent(event);
      }
      return events;
    };
    const controller = new AbortController();
    const stopped = await ask(
      { signal: controller.signal },
      ({ type }) => type === "reading" && controller.abort(),
    );
    const again = await ask({});
    conclave.close();
    return [stopped, again] as const;
  });
  assert.equal(ended(stopped).stop, "stopped");
  const reading = stopped.filter((event) => event.type === "reading");
  assert.equal(reading.length, stopped.length - 1, "neither begin nor a round");
  assert.ok(
    reading.every(({ done, total }) => done < total),
    "every member was stopped before its end",
  );
  const { prefixes, members } = begun(again);
  for (const [index, { prefix, run }] of prefixes.entries()) {
    const read = reading.filter(({ member }) => member === members[index]).at(-1)?.done ?? 0;
    assert.equal(run, prefix - read, `of ${prefix} tokens ${read} had been read`);
  }
  assert.ok(prefixes.some(({ prefix, run }) => run < prefix));
  putNothingBeforeWorker(stand.site);
  await visitor.leaveClean();
});

test("a conversation too long for one member is refused before the others read it", async () => {
  const visitor = await stand.arrive();
  const refusals = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const refusals = [];
    for (const threads of [1, 2]) {
      const conclave = await Conclave.open({ backend: "cpu", threads });
      await conclave.add(
        { name: "Ada", url: new URL("./members/ada.gguf", document.baseURI).href },
        { contextTokens: 1024 },
      );
      await conclave.add(
        { name: "Quill", url: new URL("./members/quill.gguf", document.baseURI).href },
        { contextTokens: 64 },
      );
      let events = 0;
      const content = "The fox went over the hill and the goose went home. ".repeat(10);
      try {
        for await (const _ of conclave.ask([{ role: "user", content }])) events++;
      } catch (thrown) {
        const { kind, member, message } = thrown as ConclaveError;
        refusals.push({ kind, member, message, events });
      }
      conclave.close();
    }
    return refusals;
  });
  assert.equal(refusals.length, 2);
  for (const { kind, member, message, events } of refusals) {
    assert.deepEqual({ kind, member, events }, { kind: "ContextFull", member: "Quill", events: 0 });
    assert.match(
      message,
      /^\d{3} tokens do not fit the context of 64 tokens; shorten the text, start a new conversation/,
    );
  }
  await visitor.leaveClean();
});

test("weights are asked for while the engine is still being fetched", async () => {
  stand.site.overrides.set(
    "bare.html",
    '<!doctype html><title>Bare</title><link rel="icon" href="./mark.svg"><body>',
  );
  const visitor = await stand.arrive({
    search: "bare.html",
    loaded: false,
  });
  const { page } = visitor;
  const order: string[] = [];
  page
    .context()
    .on("request", (request) =>
      order.push(new URL(request.url()).pathname.split("/").at(-1) ?? ""),
    );
  let asked = (): void => {};
  const weights = new Promise<void>((resolve) => (asked = resolve));
  await page.route("**/members/*.gguf", async (route) => (asked(), route.continue()));
  // The engine opens only once weights were requested, or a timeout has passed.
  await page.route("**/engine-shared-relaxed.wasm", async (route) => {
    await Promise.race([weights, page.waitForTimeout(60_000)]);
    order.push("the module goes on");
    await route.continue();
  });
  const members = await page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu" });
    const members = conclave.members.map(({ name }) => name);
    conclave.close();
    return members;
  });
  assert.ok(
    order.findIndex((name) => name.endsWith(".gguf")) < order.indexOf("the module goes on"),
    order.join(", "),
  );
  const files = order.filter((name) => /\.(gguf|wasm|json)$/.test(name)).sort();
  assert.deepEqual(
    files,
    ["ada.gguf", "engine-shared-relaxed.wasm", "juno.gguf", "quill.gguf"],
    "and nothing but what a load needs, once",
  );
  assert.deepEqual(members, ["Ada", "Quill", "Juno"]);
  await visitor.leaveClean();
});

test("a frame without an address starts the engine, by its creator's", async () => {
  stand.site.overrides.set(
    "frame.html",
    '<!doctype html><title>Frame</title><link rel="icon" href="./mark.svg">' +
      '<body data-state="ready"><iframe srcdoc="<title>Inside</title>"></iframe>',
  );
  const visitor = await stand.arrive({ search: "frame.html", loaded: false });
  const frame = visitor.page.frames().find((one) => one.url() === "about:srcdoc")!;
  const members = await frame.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    const conclave = await Conclave.load({ backend: "cpu", members: "members/members.json" });
    const { members } = conclave;
    conclave.close();
    return members.map(({ name }) => name);
  });
  assert.deepEqual(members, ["Ada", "Quill", "Juno"]);
  await visitor.leaveClean();
});

test("a page that trusts no address of a worker is told the name to trust", async () => {
  stand.site.overrides.set(
    "trusting.html",
    '<!doctype html><title>Trusting</title><link rel="icon" href="./mark.svg">' +
      '<meta http-equiv="Content-Security-Policy" ' +
      "content=\"require-trusted-types-for 'script'; trusted-types other\">" +
      '<body data-state="ready">',
  );
  const visitor = await stand.arrive({ search: "trusting.html", loaded: false });
  const { kind, message } = await visitor.page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as Library;
    return Conclave.load({ backend: "cpu" }).then(
      () => ({ kind: "", message: "" }),
      ({ kind, message }: ConclaveError) => ({ kind, message }),
    );
  });
  assert.equal(kind, "Engine");
  assert.match(message, /`trusted-types conclave 'allow-duplicates'`/);
  await visitor.leave();
});
