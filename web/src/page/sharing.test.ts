/**
 * Tabs that share an engine, simulated in one process: its own locks, real broadcast channels,
 * scripted engines.
 */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { Conclave, type ConclaveEvent } from "../library/conclave.ts";
import { openLocks } from "../store/locks.ts";
import { collect, endless, file, hello, stage, type Stage } from "../testing/staged.ts";
import { ensembleKey } from "./ensemble-key.ts";
import { Sharing } from "./sharing.ts";

let open: Conclave[] = [];
afterEach(() => {
  for (const conclave of open.reverse()) conclave.close();
  open = [];
});

interface Tab {
  conclave: Conclave;
  sharing: Sharing;
  /** Engines of this tab. */
  stages: Stage[];
}

/** Makes tabs of one browser. */
function browser(): (key: string | undefined) => Promise<Tab> {
  const locks = openLocks(null);
  return async (key) => {
    const stages: Stage[] = [];
    const sharing = new Sharing({
      locks,
      openChannel: (name) => new BroadcastChannel(name),
      startWorker: () => {
        stages.push(stage({ Ada: endless }));
        return stages.at(-1)!.port;
      },
      onLost: (fail) => fail(),
    });
    const conclave = Conclave.start({ backend: "cpu" }, () => sharing.startPort(key));
    open.push(conclave);
    await conclave.ready;
    await conclave.add({ name: "Ada", files: [file] });
    return { conclave, sharing, stages };
  };
}
const text = (events: ConclaveEvent[]): string =>
  events.map((event) => (event.type === "round" ? event.text : "")).join("");
const answer = ({ conclave }: Tab, maxRounds = 2): Promise<ConclaveEvent[]> =>
  collect(conclave.ask(hello, { settings: { maxRounds } }));

test("tabs of one ensemble have one engine, others their own", async () => {
  const tab = browser();
  const [one, two, other, alone] = [
    await tab("toys"),
    await tab("toys"),
    await tab("others"),
    await tab(undefined),
  ];
  assert.deepEqual(
    [one, two, other, alone].map(({ stages, sharing }) => [
      stages.length,
      sharing.elsewhere,
      sharing.shared,
    ]),
    [
      [1, false, true],
      [0, true, true],
      [1, false, false],
      [1, false, false],
    ],
  );
  for (const events of await Promise.all([answer(one), answer(two), answer(other)]))
    assert.equal(text(events), "la la ");
});

test("tabs that come at once have one engine as well", async () => {
  const tab = browser();
  const tabs = await Promise.all([tab("toys"), tab("toys"), tab("toys")]);
  assert.equal(tabs.flatMap(({ stages }) => stages).length, 1);
  for (const events of await Promise.all(tabs.map((each) => answer(each))))
    assert.equal(text(events), "la la ");
});

test("a tab that lets go leaves the engine to the others, wherever it is", async () => {
  const tab = browser();
  const [one, two, three] = [await tab("toys"), await tab("toys"), await tab("toys")];
  one.conclave.close();
  two.conclave.close();
  assert.equal(text(await answer(three)), "la la ");
  assert.equal(one.stages[0]!.journal.includes("terminate"), false);
  three.conclave.close();
  // Detected by a released lock.
  for (let wait = 0; wait < 100 && !one.stages[0]!.journal.includes("terminate"); wait++)
    await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(one.stages[0]!.journal.includes("terminate"), true, "with the last it ends");
});

test("the engine's end in mid-answer: the next tab has it, and the answer goes on", async () => {
  const tab = browser();
  const [one, two, three] = [await tab("toys"), await tab("toys"), await tab("toys")];
  const events: ConclaveEvent[] = [];
  for await (const event of two.conclave.ask(hello, { settings: { maxRounds: 6 } })) {
    events.push(event);
    if (event.type === "round" && event.round === 2)
      one.stages[0]!.port.onerror?.({ message: "its tab was closed" } as ErrorEvent);
  }
  assert.equal(text(events), "la ".repeat(6));
  assert.equal(events.filter(({ type }) => type === "reopened").length, 1);
  assert.equal(text(await answer(three)), "la la ");
  assert.equal(text(await answer(one)), "la la ");
  assert.equal([one, two, three].flatMap(({ stages }) => stages).length, 2);
});

test("a tab that comes to rest gives up an engine that others use, and keeps its own", async () => {
  const tab = browser();
  const [one, two, alone] = [await tab("toys"), await tab("toys"), await tab("others")];
  const answering = answer(two, 6);
  for (const { sharing } of [one, alone]) sharing.giveUp();
  assert.equal(text(await answering), "la ".repeat(6));
  assert.equal(text(await answer(one)), "la la ");
  assert.deepEqual(
    [one.stages[0], alone.stages[0]].map((each) => each?.journal.includes("terminate")),
    [true, false],
  );
});

test("an engine is found by the members that it has now", async () => {
  const tab = browser();
  const one = await tab("toys");
  await one.sharing.offer(undefined);
  const two = await tab("toys");
  assert.equal(two.stages.length, 1, "while members change nobody comes in");
  await one.sharing.offer("toys");
  await one.sharing.offer("others");
  const three = await tab("others");
  assert.deepEqual([three.stages.length, one.sharing.shared, two.sharing.shared], [0, true, false]);
});

test("a key says where members come from and how they are held; a tab's own have none", () => {
  const source = { name: "Ada", ref: "hf:owner/repo/file.gguf" };
  const key = ensembleKey(["1"], [{ source, contextTokens: 512 }]);
  assert.ok(key !== undefined);
  assert.equal(ensembleKey(["1"], [{ source: { ...source, bytes: 5 }, contextTokens: 512 }]), key);
  const others = [
    ensembleKey(["2"], [{ source, contextTokens: 512 }]),
    ensembleKey(["1"], [{ source, contextTokens: 1024 }]),
    ensembleKey(["1"], [{ source: { ...source, quantise: "Q8_0" }, contextTokens: 512 }]),
    ensembleKey(
      ["1"],
      [{ source: { name: "Ada", url: "https://host/ada.gguf" }, contextTokens: 512 }],
    ),
  ];
  assert.equal(new Set([key, ...others]).size, 5);
  assert.ok(!others.includes(undefined));
  assert.equal(ensembleKey(["1"], []), undefined);
  assert.equal(
    ensembleKey(["1"], [{ source: { name: "Ada", files: [file] }, contextTokens: 512 }]),
    undefined,
  );
  assert.equal(
    ensembleKey(
      ["1"],
      [{ source: { name: "Ada", remote: "https://host/v1" }, contextTokens: 512 }],
    ),
    undefined,
  );
});
