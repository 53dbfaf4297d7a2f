/**
 * Members behind a real server, llama.cpp's own: beside members of the tab in one answer, with the
 * same scores, and failing as servers do. `cargo xtask test --only browser` installs it.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import type { LeftEvent, RoundEvent } from "../../src/protocol/messages.ts";
import { LlamaServer } from "../llama.ts";
import { dist, stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");
const key = "sk-very-secret-0123456789";
const model = `${dist}members/ada.gguf`;
let open: LlamaServer;
let locked: LlamaServer;
before(
  async () =>
    void ([open, locked] = await Promise.all([
      LlamaServer.open(model),
      LlamaServer.open(model, { key }),
    ])),
);
after(() => Promise.all([open?.close(), locked?.close()]));

/** An answer's record, as the visitor downloads it. */
async function record({ page }: Visitor): Promise<{
  text: string;
  cores: string[];
  members: string[];
  rounds: (RoundEvent & { verified: boolean })[];
}> {
  const coming = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download the run" }).last().click();
  const text = await readFile(await (await coming).path(), "utf8");
  return {
    text,
    ...(JSON.parse(text) as {
      cores: string[];
      members: string[];
      rounds: (RoundEvent & { verified: boolean })[];
    }),
  };
}

test("two members of the tab, one behind a server and a judge by letters answer as one", {
  timeout: 240_000,
}, async () => {
  const visitor = await stand.arrive({
    search: "?backend=cpu",
    also: [open.address, locked.address],
  });
  const { page } = visitor;
  await visitor.ownToys(["quill", "juno"]);
  await visitor.join({ base: locked.base, key, name: "ada" });
  await page
    .locator('.member[data-state="ready"]', {
      hasText: `at ${new URL(locked.base).host} · ada · drafts and scores`,
    })
    .waitFor();
  await visitor.join({ base: open.base, judges: true, name: "judge" });
  const judge = page.locator('.member[data-state="ready"]', {
    // Under the server's own name for its model.
    hasText: `at ${new URL(open.base).host} · ada · judges only`,
  });
  await judge.waitFor();
  assert.match(
    (await judge.locator(".description").textContent()) ?? "",
    /hears what is asked and answered/,
  );
  for (const line of ["#tagline", "#about-models"])
    assert.match(
      (await page.locator(line).textContent()) ?? "",
      /here and at 127\.0\.0\.1:\d+ and 127\.0\.0\.1:\d+: what you ask and what is answered goes there/,
    );
  await visitor.set("seed", "1");
  const answer = await visitor.answer("What is 347 + 586?");
  assert.match(answer, /933/, "the toy that can add sits behind the server");
  await page.locator(".segment").first().click();
  assert.ok((await page.locator(".matrix td small", { hasText: "by letter" }).count()) > 0);
  await visitor.faultless();
  const { text, cores, members, rounds } = await record(visitor);
  assert.deepEqual(
    [cores, members.slice(2)],
    [
      ["fused", "fused", "remote", "remote"],
      ["ada", "judge"],
    ],
  );
  for (const { active, drafters, remote, abstained, scores } of rounds.filter(
    ({ verified }) => verified,
  )) {
    assert.deepEqual([active, drafters, remote, abstained], [[0, 1, 2, 3], [0, 1, 2], [2, 3], []]);
    assert.ok(
      scores[2]!.every(({ harmonic }) => harmonic! < 0) &&
        scores[3]!.every(({ preference }) => preference! > 0),
    );
  }
  const kept = await page.evaluate(() =>
    JSON.stringify([
      location.href,
      { ...localStorage },
      { ...sessionStorage },
      document.documentElement.outerHTML,
    ]),
  );
  for (const place of [text, kept]) assert.ok(!place.includes(key), "the key is nowhere");
  await visitor.leaveClean();
});

test("the same model scores the same here and behind a server, and answers the same", {
  timeout: 240_000,
}, async () => {
  const visitor = await stand.arrive({ also: [open.address] });
  const answered = await visitor.page.evaluate(async (remote) => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as typeof import("../../src/library/conclave.ts");
    const conclave = await Conclave.load({
      backend: "cpu",
      members: [
        { name: "Here", url: "./members/ada.gguf" },
        { name: "There", remote, timeout: 60_000 },
      ],
    });
    const ask = async (
      question: string,
      members: string[],
    ): Promise<{ rounds: RoundEvent[]; text: string }> => {
      const rounds: RoundEvent[] = [];
      for await (const event of conclave.ask([{ role: "user", content: question }], {
        members,
        sampling: { temperature: 0, seed: 1 },
      })) {
        if (event.type === "round") rounds.push(event);
        if (event.type === "end") return { rounds, text: event.text };
      }
      throw new Error("it has no end");
    };
    const all = [];
    for (const question of [
      "What is 347 + 586?",
      "Sort these words: pear, apple, fig.",
      "Tell me a story about a fox.",
    ]) {
      all.push({
        both: await ask(question, ["Here", "There"]),
        here: await ask(question, ["Here"]),
        there: await ask(question, ["There"]),
      });
    }
    conclave.close();
    return all;
  }, open.base);
  let compared = 0;
  let furthest = 0;
  // ln Σ 1/p changes by no more than a small error common to every token, while a surprise adds
  // them all up.
  const sum = (harmonic: number, tokens: number) => Math.log(Math.expm1(-harmonic) + tokens);
  for (const { both, here, there } of answered) {
    assert.equal(there.text, here.text);
    for (const { scores, candidates } of both.rounds) {
      for (const [j, { tokens, ended }] of candidates.entries()) {
        const [near, far] = [scores[0]![j]!, scores[1]![j]!];
        assert.ok(tokens >= 0 && near.harmonic !== undefined);
        furthest = Math.max(
          furthest,
          Math.abs(
            sum(near.harmonic, tokens + Number(ended)) - sum(far.harmonic!, tokens + Number(ended)),
          ),
        );
        compared++;
      }
    }
  }
  assert.ok(compared >= 10, String(compared));
  assert.ok(furthest <= 2e-3, `scores are ${furthest} apart`);
  await visitor.leaveClean();
});

test("a server that freezes, dies and returns, or refuses the key is told, and others go on", {
  timeout: 240_000,
}, async (context) => {
  const visitor = await stand.arrive({
    also: [open.address, locked.address],
  });
  let server = await LlamaServer.open(model);
  // For a failed test: a process still running would keep this one from ending.
  context.after(() => server.close());
  const port = Number(new URL(server.address).port);
  visitor.allow(server.address);
  const { page } = visitor;
  const refused = await page.evaluate(
    async ({ remote, locked }) => {
      const { Conclave } = (await import(
        new URL("./library/conclave.js", document.baseURI).href
      )) as typeof import("../../src/library/conclave.ts");
      const conclave = await Conclave.load({
        backend: "cpu",
        members: [
          { name: "Quill", url: "./members/quill.gguf" },
          { name: "There", remote, timeout: 3000 },
        ],
      });
      const refused = await conclave.add({ name: "Locked", remote: locked, key: "wrong" }).then(
        () => "joined",
        (error: Error) => `${error.name}: ${error.message}`,
      );
      Object.assign(window, { conclave });
      return refused;
    },
    { remote: server.base, locked: locked.base },
  );
  assert.match(refused, /^Remote: .*refuses the key/);
  const ask = (
    maxRounds: number,
  ): Promise<{ rounds: RoundEvent[]; left: LeftEvent[]; stop: string }> =>
    page.evaluate(async (maxRounds) => {
      const { conclave } = window as unknown as {
        conclave: import("../../src/library/conclave.ts").Conclave;
      };
      const told: { rounds: RoundEvent[]; left: LeftEvent[]; stop: string } = {
        rounds: [],
        left: [],
        stop: "",
      };
      for await (const event of conclave.ask(
        [{ role: "user", content: "Tell me a story about a fox." }],
        {
          sampling: { temperature: 0, seed: 1 },
          // One candidate a member.
          settings: { maxRounds, segmentTokens: 4, branch: 0 },
        },
      )) {
        if (event.type === "round") told.rounds.push(event);
        if (event.type === "left") told.left.push(event);
        if (event.type === "end") told.stop = event.stop;
      }
      return told;
    }, maxRounds);

  server.freeze(true);
  const frozen = await ask(5);
  server.freeze(false);
  await server.ready();
  assert.deepEqual(
    frozen.rounds.slice(0, 2).map(({ drafters, abstained }) => [drafters, abstained]),
    [
      [[0], [1]],
      [[0], [1]],
    ],
  );
  assert.deepEqual(
    frozen.left.map(({ member, error }) => [member, error.kind]),
    [["There", "Remote"]],
  );
  assert.equal(frozen.rounds.length, 5, "nothing is lost");

  // From here on nothing may be late on a busy machine.
  await page.evaluate(async (remote) => {
    const { conclave } = window as unknown as {
      conclave: import("../../src/library/conclave.ts").Conclave;
    };
    await conclave.add({ name: "There", remote, timeout: 60_000 }, { replace: "There" });
  }, server.base);
  const again = await ask(2);
  assert.deepEqual(
    [again.left, again.rounds[0]!.drafters],
    [[], [0, 1]],
    "the next question asks it again",
  );

  // It stops during the answer, and returns in time.
  const answering = ask(6);
  await server.close();
  server = await LlamaServer.open(model, { port });
  const restarted = await answering;
  assert.equal(restarted.rounds.length, 6);
  await server.ready();
  assert.ok((await ask(1)).rounds[0]!.drafters.includes(1));
  await server.close();
  // The console messages about broken connections are the browser's own.
  assert.ok(
    visitor.complaints.every((complaint) => /net::ERR_|401/.test(complaint)),
    visitor.complaints.join("\n"),
  );
  await visitor.leave();
});
