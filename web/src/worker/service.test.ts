/** The library against the service, through the real protocol; only the engine is scripted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Message, Rule } from "../protocol/engine.ts";
import { ConclaveError, ContextFull, DeviceLost, EngineFailure } from "../protocol/errors.ts";
import type { ConclaveEvent } from "../protocol/messages.ts";
import { ranges, rules, settings, type Script } from "../testing/scripted.ts";
import { begun, collect, endless, hello, open, settle, talker } from "../testing/staged.ts";

test("ask yields reading, begin, rounds and end; the segments joined are the answer", async () => {
  const { conclave, members } = await open({ Ada: talker, Bo: talker });
  const events = await collect(conclave.ask(hello, { sampling: { seed: 7 } }));
  assert.deepEqual(
    events.map((event) => event.type),
    ["reading", "reading", "begin", "round", "round", "end"],
  );
  const end = events.at(-1);
  assert.ok(end?.type === "end");
  assert.equal(end.stop, "ended");
  assert.equal(end.text, "Hello there.");
  assert.deepEqual(begun(events).weights, [0.5, 0.5], "the engine's own");
  assert.deepEqual(members.get("Bo")?.messages, hello);
  assert.equal(members.get("Bo")?.sampling?.seed, 7);
  assert.notEqual(
    members.get("Ada")?.stream,
    members.get("Bo")?.stream,
    "members of one seed must not draft in step",
  );
  const round = events[3];
  assert.ok(round?.type === "round");
  assert.deepEqual(round.counters[0], { prefix: 10, prefilled: 0, drafted: 9, verified: 10 });
});

test("settings are the engine's defaults with what the caller changes", async () => {
  const { conclave } = await open({ Ada: talker });
  const begin = begun(await collect(conclave.ask(hello, { settings: { maxRounds: 1 } })));
  assert.deepEqual(begin.settings, { ...settings, maxRounds: 1 });
});

test("a rule is a preset of all settings, with what the caller changes put over it", async () => {
  const { conclave, members } = await open({ Ada: talker });
  assert.deepEqual(conclave.rules, rules);
  assert.deepEqual(conclave.ranges, ranges);
  assert.deepEqual(conclave.defaults, rules.harmonic);
  const paper = await collect(
    conclave.ask(hello, { rule: "paper", settings: { maxRounds: 1, reward: "shares" } }),
  );
  assert.deepEqual(begun(paper).settings, { ...rules.paper, maxRounds: 1, reward: "shares" });
  assert.deepEqual(
    members.get("Ada")?.settings,
    begun(paper).settings,
    "a verifier is told all of them",
  );
  const round = paper.find((event) => event.type === "round");
  assert.equal(round?.scores[0]?.[0]?.harmonic, -2, "whatever a verifier gives crosses");
  for (const rule of ["papers", "toString"]) {
    await assert.rejects(collect(conclave.ask(hello, { rule: rule as Rule })), {
      name: "Settings",
      message: `There is no rule "${rule}". Choose one of harmonic, leader, paper.`,
    });
  }
});

test("a stop while members read ends the answer in a step, and nothing is read again", async () => {
  const { conclave, members } = await open({
    Ada: { ...talker, step: 1 },
    Bo: { ...talker, step: 2 },
  });
  const controller = new AbortController();
  const events: ConclaveEvent[] = [];
  for await (const event of conclave.ask(hello, { signal: controller.signal })) {
    events.push(event);
    if (event.type === "reading") controller.abort();
  }
  const read = [...members.values()].map((member) => member.counters().prefix);
  assert.ok(
    read.some((tokens) => tokens < 5),
    `they read ${read.join(" and ")} of 5 tokens`,
  );
  const end = events.at(-1);
  assert.ok(end?.type === "end");
  assert.equal(end.stop, "stopped");
  assert.ok(
    events.slice(0, -1).every(({ type }) => type === "reading"),
    "neither begin nor a round",
  );

  const again = await collect(conclave.ask(hello));
  assert.deepEqual(
    begun(again).prefixes,
    read.map((tokens) => ({ prefix: 5, run: tokens < 5 ? 5 - tokens : 5 })),
  );
  const last = again.filter((event) => event.type === "reading").at(-1);
  assert.deepEqual({ done: last?.done, total: last?.total }, { done: 5, total: 5 });
});

test("stopping keeps the text so far, and the next question is answered", async () => {
  const { conclave, journal } = await open({ Ada: endless });
  const controller = new AbortController();
  let text = "";
  let stop = "";
  for await (const event of conclave.ask(hello, { signal: controller.signal })) {
    if (event.type === "round" && event.round === 3) controller.abort();
    if (event.type === "end") ({ text, stop } = event);
  }
  assert.equal(stop, "stopped");
  assert.ok(text.startsWith("la la la "), text);
  assert.equal(journal.filter((entry) => entry === "query free").length, 1);
  const again = await collect(conclave.ask(hello, { settings: { maxRounds: 2 } }));
  assert.equal(again.at(-1)?.type, "end");
});

test("a stop gets through to members that never wait for anything", async () => {
  const { conclave } = await open({
    Ada: { ...endless, instant: true },
  });
  const controller = new AbortController();
  const stops: string[] = [];
  for await (const event of conclave.ask(hello, {
    signal: controller.signal,
    settings: { maxRounds: 5000 },
  })) {
    if (event.type === "round" && event.round === 1) controller.abort();
    if (event.type === "end") stops.push(event.stop);
  }
  assert.deepEqual(stops, ["stopped"]);
});

test("leaving the loop stops the answer in the worker", async () => {
  const { conclave, journal } = await open({ Ada: endless });
  for await (const event of conclave.ask(hello)) if (event.type === "round") break;
  await collect(conclave.ask(hello, { settings: { maxRounds: 1 } }));
  assert.equal(
    journal.filter((entry) => entry === "query free").length,
    2,
    "the first answer came to its end",
  );
});

test("a signal that is aborted already yields an empty answer", async () => {
  const { conclave } = await open({ Ada: talker });
  const events = await collect(conclave.ask(hello, { signal: AbortSignal.abort() }));
  assert.deepEqual(
    events.map((event) => (event.type === "end" ? event.stop : event.type)),
    ["stopped"],
  );
});

test("an error in mid-answer is typed and carries the text so far", async () => {
  const broken = Object.assign(new Error("The numbers are none."), { name: "Engine" });
  const { conclave } = await open({
    Ada: {
      drafts: [{ text: "so far", ended: false }],
      taste: () => 1,
      failure: { move: "verify", call: 2, error: broken },
    },
  });
  await assert.rejects(collect(conclave.ask(hello)), (error: unknown) => {
    assert.ok(error instanceof EngineFailure);
    assert.equal(error.partial, "so far");
    assert.equal(error.member, "Ada");
    return true;
  });
});

test("members that fail in mid-answer are told; the answer ends with the last one", async () => {
  const full = Object.assign(new Error("Start a new conversation."), { name: "ContextFull" });
  for (const cores of [1, 2]) {
    const singing = (call: number): Script => ({
      drafts: [{ text: "la ", ended: false }],
      taste: () => 1,
      failure: { move: "draft", call, error: full },
    });
    const { conclave, members } = await open({ Ada: singing(3), Bo: singing(5) }, cores);
    const events = await collect(conclave.ask(hello));
    const told = events
      .filter(({ type }) => type !== "reading")
      .map((event) => (event.type === "round" ? event.active : event.type));
    assert.deepEqual(told, ["begin", [0, 1], [0, 1], "left", [1], "end"]);
    const left = events.find((event) => event.type === "left");
    assert.deepEqual(left, {
      type: "left",
      round: 3,
      member: "Ada",
      error: { kind: "ContextFull", message: "Start a new conversation.", member: "Ada" },
    });
    const end = events.at(-1);
    assert.deepEqual(end?.type === "end" && [end.stop, end.text], ["context", "la la la "]);
    // It takes part in the next question.
    const again = await collect(conclave.ask(hello, { settings: { maxRounds: 1 } }));
    assert.deepEqual(
      again.flatMap((event) => (event.type === "round" ? [event.active] : [])),
      [[0, 1]],
    );
    assert.equal(members.size, 2);
  }
});

const thinker: Script = { ...talker, thoughts: ["Hm", "m."] };

test("members think before round one if allowed; it is told, no part of the answer", async () => {
  for (const cores of [1, 2]) {
    for (const thinking of ["on", "auto"] as const) {
      const { conclave, members, journal } = await open({ Ada: thinker, Bo: talker }, cores);
      const events = await collect(conclave.ask(hello, { thinking }));
      const types = events.filter(({ type }) => type !== "reading").map(({ type }) => type);
      assert.deepEqual(types, [
        "begin",
        "thinking",
        "thinking",
        "thought",
        "round",
        "round",
        "end",
      ]);
      assert.equal(begun(events).thinking, thinking);
      assert.deepEqual(
        events.flatMap((event) => (event.type === "thinking" ? [[event.member, event.text]] : [])),
        [
          ["Ada", "Hm"],
          ["Ada", "m."],
        ],
      );
      assert.deepEqual(
        events.find((event) => event.type === "thought"),
        { type: "thought", member: "Ada", text: "Hmm.", tokens: 4 },
      );
      const end = events.at(-1);
      assert.equal(end?.type === "end" && end.text, "Hello there.");
      assert.ok(!journal.some((entry) => entry.includes("verify") && entry.includes("Hm")));
      assert.deepEqual(
        [...members.values()].map((member) => member.thinking),
        [thinking, thinking],
      );
    }
    const { conclave, members, journal } = await open({ Ada: thinker, Bo: talker }, cores);
    assert.equal(
      begun(await collect(conclave.ask(hello))).thinking,
      "off",
      "unless it is asked for",
    );
    assert.ok(!journal.some((entry) => entry.endsWith("think")));
    assert.deepEqual(
      [...members.values()].map((member) => member.thinking),
      ["off", "off"],
    );
  }
});

test("a member that fails as it thinks leaves the answer to the others", async () => {
  const error = new Error("not finite");
  const failing: Script = { ...thinker, failure: { move: "think", call: 1, error } };
  for (const cores of [1, 2]) {
    const { conclave } = await open({ Ada: thinker, Bo: failing, Cy: talker }, cores);
    const events = await collect(conclave.ask(hello, { thinking: "on" }));
    const types = events.map(({ type }) => type).filter((type) => !type.endsWith("ing"));
    assert.deepEqual(types, ["begin", "thought", "left", "round", "round", "end"]);
    assert.deepEqual(
      events.flatMap((event) => (event.type === "left" ? [event.member, event.error.message] : [])),
      ["Bo", "not finite. Reload the engine to go on; the text so far is kept."],
    );
    const alone = await open({ Bo: failing }, cores);
    await assert.rejects(collect(alone.conclave.ask(hello, { thinking: "on" })), /not finite/);
  }
});

test("a stop while members think ends the answer before any round", async () => {
  for (const cores of [1, 2]) {
    const { conclave } = await open(
      { Ada: { ...thinker, thoughts: Array.from({ length: 100 }, () => "hm ") } },
      cores,
    );
    const controller = new AbortController();
    const events: ConclaveEvent[] = [];
    for await (const event of conclave.ask(hello, { thinking: "on", signal: controller.signal })) {
      events.push(event);
      if (event.type === "thinking") controller.abort();
    }
    const thinking = events.filter(({ type }) => type === "thinking").length;
    assert.ok(thinking < 50, `it heard the stop after ${thinking} pieces`);
    assert.ok(!events.some(({ type }) => type === "round"));
    const end = events.at(-1);
    assert.equal(end?.type === "end" && end.stop, "stopped");
  }
});

const tooLong = Object.assign(
  new Error("70 tokens do not fit the context of 64 tokens. Start a new conversation."),
  { name: "ContextFull" },
);

test("a conversation too long for one member is refused before any member reads", async () => {
  for (const cores of [1, 2]) {
    const { conclave, journal } = await open(
      { Ada: talker, Bo: { ...talker, failure: { move: "measure", call: 1, error: tooLong } } },
      cores,
    );
    const events: ConclaveEvent[] = [];
    await assert.rejects(
      async () => {
        for await (const event of conclave.ask(hello)) events.push(event);
      },
      (error: unknown) =>
        error instanceof ContextFull &&
        error.member === "Bo" &&
        error.partial === "" &&
        /70 tokens.*64 tokens/.test(error.message),
    );
    assert.deepEqual(events, []);
    assert.deepEqual(
      journal.filter((entry) => / begin/.test(entry)),
      [],
    );
    assert.equal(
      (await collect(conclave.ask(hello))).at(-1)?.type,
      "end",
      "the next question is answered",
    );
  }
});

test("a stop while a full context is found out ends the answer as stopped", async () => {
  for (const move of ["measure", "draft"] as const) {
    const controller = new AbortController();
    const onMove = async (made: string): Promise<void> => {
      if (made !== move) return;
      controller.abort();
      await settle();
    };
    const { conclave } = await open({
      Ada: { ...talker, onMove, failure: { move, call: 1, error: tooLong } },
    });
    const end = (await collect(conclave.ask(hello, { signal: controller.signal }))).at(-1);
    assert.deepEqual(end?.type === "end" && { stop: end.stop, text: end.text }, {
      stop: "stopped",
      text: "",
    });
  }
});

test("a device that is lost in mid-answer is told as such, whatever was thrown", async () => {
  const { conclave } = await open({ Ada: endless });
  let text = "";
  await assert.rejects(
    async () => {
      for await (const event of conclave.ask(hello)) {
        if (event.type !== "round") continue;
        text += event.text;
        if (event.round === 2) await conclave.loseDevice();
      }
    },
    (error: unknown) => {
      assert.ok(error instanceof DeviceLost);
      assert.match(error.message, /destroyed/);
      assert.ok(error.partial?.startsWith("la la "));
      return true;
    },
  );
  assert.ok(text.startsWith("la la "));
});

test("a conversation too long for everybody names nobody", async () => {
  const script: Script = { ...talker, failure: { move: "measure", call: 1, error: tooLong } };
  const { conclave } = await open({ Ada: script, Bo: script });
  await assert.rejects(
    collect(conclave.ask(hello)),
    (error: unknown) => error instanceof ContextFull && error.member === undefined,
  );
});

test("questions asked at once are answered one after the other", async () => {
  const { conclave } = await open({ Ada: talker });
  const answers = await Promise.all([collect(conclave.ask(hello)), collect(conclave.ask(hello))]);
  assert.ok(answers.every((events) => events.at(-1)?.type === "end"));
});

test("no member and an unknown member are settings errors", async () => {
  const { conclave } = await open({ Ada: talker });
  await assert.rejects(collect(conclave.ask(hello, { members: [] })), { name: "Settings" });
  await assert.rejects(collect(conclave.ask(hello, { members: ["Zoe"] })), {
    name: "Settings",
    message: /Zoe/,
  });
});

test("what can't be asked is a settings error, and the engine answers on", async () => {
  const { conclave } = await open({ Ada: talker });
  const refused = async (messages: Message[], members?: string[]): Promise<void> =>
    assert.rejects(
      collect(conclave.ask(messages, members ? { members } : {})),
      (error: unknown) => error instanceof ConclaveError && error.kind === "Settings",
    );
  await refused(hello, ["Ada", "Ada"]);
  await refused([]);
  await refused([...hello, { role: "assistant", content: "Hello." }]);
  await refused([
    { role: "user", content: (() => "a function can't be cloned") as unknown as string },
  ]);
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("a setting out of its range is told to the caller, who can ask again", async () => {
  const { conclave } = await open({ Ada: talker });
  const ask = collect(conclave.ask(hello, { sampling: { temperature: Number.NaN } }));
  await assert.rejects(ask, {
    name: "Settings",
    message: "sampling.temperature must be a number from 0 to 10; it was NaN.",
  });
  assert.equal((await collect(conclave.ask(hello))).at(-1)?.type, "end");
});

test("a worker that fails, or sends nonsense, ends what goes on with a typed error", async () => {
  const made = await open({ Ada: endless });
  await assert.rejects(
    async () => {
      for await (const event of made.conclave.ask(hello)) {
        if (event.type === "round" && event.round === 1) made.inject({ type: "event", id: "x" });
      }
    },
    (error: unknown) => error instanceof EngineFailure && error.partial === "la ",
  );
  await assert.rejects(collect(made.conclave.ask(hello)), EngineFailure);
  made.conclave.close();
});

test("close ends the worker and fails what is under way", async () => {
  const { conclave, journal } = await open({
    Ada: endless,
  });
  await assert.rejects(
    async () => {
      for await (const event of conclave.ask(hello)) if (event.type === "round") conclave.close();
    },
    (error: unknown) => error instanceof ConclaveError && /closed/.test(error.message),
  );
  assert.ok(journal.includes("terminate"));
});
