/**
 * Members on the open core: in one worker of their own, beside those of the fused core, in the same
 * answers.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Conclave,
  type Core,
  type MemberSource,
  type OpenOptions,
  type Progress,
} from "../library/conclave.ts";
import { DeviceLost, Download, EngineFailure } from "../protocol/errors.ts";
import type { Script } from "../testing/scripted.ts";
import {
  begun,
  collect,
  endless,
  file,
  hello,
  settle,
  stage,
  talker,
  type Stage,
  type Surroundings,
} from "../testing/staged.ts";
import { MemoryShelf } from "../store/shelf.ts";

const four = { Ada: talker, Bo: talker, Cy: talker, Di: talker };
const unplanned: Script = { ...talker, noPlan: true };
const from = (name: string, core?: Core): MemberSource => ({
  name,
  files: [file],
  ...(core === undefined ? {} : { core }),
});

async function open(
  scripts: Record<string, Script>,
  cores: number,
  { backend = "cpu", core, ...around }: OpenOptions & Surroundings = {},
): Promise<Stage & { conclave: Conclave }> {
  const made = stage(scripts, cores, around);
  return {
    ...made,
    conclave: await Conclave.open({ backend, ...(core === undefined ? {} : { core }) }, made.port),
  };
}

const fetches = ({ journal }: Stage): number =>
  journal.filter((entry) => entry === "fetch the open core").length;
const living = ({ threads }: Stage): unknown[] =>
  threads
    .filter(({ terminated }) => !terminated)
    .map(({ core, backend, members }) => [core, backend, ...members]);

test("members on the open core share one worker beside the others' threads", async () => {
  for (const [cores, beside] of [
    [1, []],
    [
      2,
      [
        ["fused", "cpu", "Ada"],
        ["fused", "cpu", "Cy"],
      ],
    ],
    [
      8,
      [
        ["fused", "cpu", "Ada"],
        ["fused", "cpu", "Cy"],
      ],
    ],
  ] as const) {
    const made = await open(four, cores);
    for (const source of [from("Ada"), from("Bo", "burn"), from("Cy"), from("Di", "burn")])
      await made.conclave.add(source);
    const sorted = living(made).sort();
    assert.deepEqual(sorted, [["burn", "cpu", "Bo", "Di"], ...beside], `${cores} cores`);
    assert.equal(made.conclave.threads, cores === 1 ? 2 : 3);
    assert.equal(made.conclave.heapBytes, (sorted.length + 1) * 65536, "the heaps of all");
    assert.deepEqual(
      made.conclave.members.map(({ core }) => core),
      ["fused", "burn", "fused", "burn"],
    );
    assert.equal(fetches(made), 1, "one module serves them all");
  }
});

test("on the GPU, too, the open core has its own worker, with an engine on the GPU", async () => {
  const made = await open(four, 8, { backend: "webgpu", kept: new MemoryShelf(), core: "burn" });
  for (const name of ["Ada", "Bo"]) await made.conclave.add(from(name));
  assert.deepEqual(living(made), [["burn", "webgpu", "Ada", "Bo"]]);
  assert.equal(made.conclave.threads, 1);
});

test("members of both cores take part in one answer", async () => {
  const speaker = (text: string): Script => ({
    drafts: [{ text, ended: true }],
    taste: (other) => other.length,
  });
  const made = await open({ Ada: speaker("Yes."), Bo: speaker("Certainly.") }, 2);
  await made.conclave.add(from("Ada"));
  await made.conclave.add(from("Bo", "burn"));
  const events = await collect(made.conclave.ask(hello));
  assert.deepEqual(begun(events).members, ["Ada", "Bo"]);
  const round = events.find((event) => event.type === "round");
  assert.deepEqual(
    round?.candidates.map(({ member, text }) => [member, text]),
    [
      ["Ada", "Yes."],
      ["Bo", "Certainly."],
    ],
  );
  assert.deepEqual(
    round?.scores.map((row) => row.map(({ meanLogit }) => meanLogit)),
    [
      [4, 10],
      [4, 10],
    ],
    "each scores both",
  );
  const end = events.at(-1);
  assert.equal(end?.type === "end" && end.text, "Certainly.");
});

test("a member's own core goes before the engine's", async () => {
  for (const core of ["fused", "burn"] as const) {
    const other = core === "fused" ? "burn" : "fused";
    const { conclave } = await open(four, 2, { core });
    assert.equal((await conclave.add(from("Ada"))).core, core);
    assert.equal((await conclave.add(from("Bo", other))).core, other);
  }
});

test("what the fused core has no plan for runs on the open one, if no core is named", async () => {
  for (const cores of [1, 2]) {
    const made = await open({ Ada: talker, Bo: unplanned }, cores);
    await made.conclave.add(from("Ada"));
    const phases: Progress["phase"][] = [];
    const about = await made.conclave.add(from("Bo"), {
      onProgress: ({ phase }) => phases.push(phase),
    });
    assert.equal(about.core, "burn");
    assert.deepEqual(phases, ["core", "loading"]);
    assert.deepEqual(
      living(made),
      cores === 1
        ? [["burn", "cpu", "Bo"]]
        : [
            ["fused", "cpu", "Ada"],
            ["burn", "cpu", "Bo"],
          ],
      "no empty thread stays behind",
    );
    assert.equal((await collect(made.conclave.ask(hello))).at(-1)?.type, "end");
  }
});

test("a core that was named is kept to", async () => {
  const named = await open({ Ada: unplanned }, 2, { core: "fused" });
  const own = await open({ Ada: unplanned }, 2);
  for (const [made, source] of [
    [named, from("Ada")],
    [own, from("Ada", "fused")],
  ] as const) {
    await assert.rejects(made.conclave.add(source), {
      name: "NoPlan",
      message: "It has no plan for this model.",
    });
    assert.equal(fetches(made), 0);
    assert.deepEqual(living(made), []);
  }
});

test("a load that fails otherwise does not go on to the open core", async () => {
  const made = await open({ Ada: talker }, 2);
  await assert.rejects(made.conclave.add({ name: "Ada", files: [new Blob(["none"])] }), {
    name: "ModelFile",
  });
  assert.equal(fetches(made), 0);
});

test("without need nothing of the open core is fetched or started", async () => {
  const fused = await open(four, 4);
  for (const name of ["Ada", "Bo"]) await fused.conclave.add(from(name));
  await collect(fused.conclave.ask(hello));
  const empty = await open({}, 4, { core: "burn" });
  for (const made of [fused, empty]) {
    assert.equal(fetches(made), 0);
    assert.ok(made.threads.every(({ core }) => core === "fused"));
  }
});

test("the worker ends with its last member; the next has another, of the same module", async () => {
  const made = await open(four, 2, { core: "burn" });
  for (const name of ["Ada", "Bo"]) await made.conclave.add(from(name));
  await made.conclave.remove("Ada");
  assert.deepEqual(
    made.threads.map(({ terminated }) => terminated),
    [false],
  );
  await made.conclave.remove("Bo");
  assert.deepEqual(
    made.threads.map(({ terminated }) => terminated),
    [true],
  );
  await made.conclave.add(from("Cy"));
  assert.deepEqual(
    made.threads.map(({ terminated, members }) => [terminated, ...members]),
    [
      [true, "Ada", "Bo"],
      [false, "Cy"],
    ],
  );
  assert.equal(fetches(made), 1);
});

test("all who wait hear how far the module is; it comes once, and answers go on", async () => {
  let arrive = (): void => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const made = await open(four, 2, { fetching: () => arrived });
  await made.conclave.add(from("Ada"));
  const heard: Record<string, [number, number][]> = { Bo: [], Cy: [] };
  const adding = Object.entries(heard).map(([name, steps]) =>
    made.conclave.add(from(name, "burn"), {
      onProgress: ({ phase, loaded, total }) => phase === "core" && steps.push([loaded, total]),
    }),
  );
  assert.equal((await collect(made.conclave.ask(hello))).at(-1)?.type, "end");
  arrive();
  await Promise.all(adding);
  assert.deepEqual(heard["Bo"], [[3, 7]]);
  assert.equal(fetches(made), 1);
  assert.deepEqual(living(made), [
    ["fused", "cpu", "Ada"],
    ["burn", "cpu", "Bo", "Cy"],
  ]);
});

test("a module that can't be had is told, and the next try asks for it again", async () => {
  let there = false;
  const fetching = async (): Promise<void> => {
    if (!there) throw new Download("There is no pkg-burn/. Build it.");
  };
  const made = await open(four, 2, { fetching });
  await assert.rejects(made.conclave.add(from("Ada", "burn")), {
    name: "Download",
    message: /no pkg-burn/,
  });
  there = true;
  assert.equal((await made.conclave.add(from("Ada", "burn"))).core, "burn");
  assert.equal(fetches(made), 2);
});

test("who stops while the module comes is answered at once; the member never joins", async () => {
  let arrive = (): void => {};
  const arrived = new Promise<void>((resolve) => (arrive = resolve));
  const made = await open(four, 2, { fetching: () => arrived });
  const controller = new AbortController();
  const adding = made.conclave.add(from("Ada", "burn"), { signal: controller.signal });
  await settle();
  controller.abort();
  await assert.rejects(adding, { name: "AbortError" });
  arrive();
  await settle();
  assert.deepEqual(made.threads, []);
});

test("where workers have no workers the open core is refused, and what needs it", async () => {
  const made = await open({ Ada: talker, Bo: unplanned }, 1, { workerless: true });
  await assert.rejects(
    made.conclave.add(from("Ada", "burn")),
    (error: unknown) =>
      error instanceof EngineFailure &&
      /worker of its own.*Take the fused core/.test(error.message),
  );
  await assert.rejects(made.conclave.add(from("Bo")), { name: "NoPlan" });
  assert.equal(fetches(made), 0);
  assert.equal((await made.conclave.add(from("Ada"))).core, "fused");
});

test("a device lost by the open core is told, whatever was thrown; the others go on", async () => {
  const made = await open({ Ada: endless, Bo: endless }, 2, {
    backend: "webgpu",
    kept: new MemoryShelf(),
  });
  await made.conclave.add(from("Ada"));
  await made.conclave.add(from("Bo", "burn"));
  const left: unknown[] = [];
  for await (const event of made.conclave.ask(hello, { settings: { maxRounds: 4 } })) {
    if (event.type === "round" && event.round === 2) made.threads[0]!.lost = "unplugged";
    if (event.type === "left")
      left.push([event.member, event.error.kind, /unplugged/.test(event.error.message)]);
  }
  assert.deepEqual(left, [["Bo", "DeviceLost", true]]);
  await assert.rejects(collect(made.conclave.ask(hello, { members: ["Bo"] })), DeviceLost);
});
