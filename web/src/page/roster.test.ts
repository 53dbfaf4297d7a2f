/** The slots on the page, in a small document, over scripted members. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { file, stage, talker, type Surroundings } from "../testing/staged.ts";
import { atRisk, Risks } from "../kept/risks.ts";
import { Conclave } from "../library/conclave.ts";
import { EngineFailure, OutOfMemory } from "../protocol/errors.ts";
import type { ManifestEntry } from "../store/load.ts";
import { MembersPanel } from "./members-panel.ts";
import { Roster, type RosterWays, type Seat } from "./roster.ts";

const { window, document } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });
const ignored = (): void => undefined;
const entry: ManifestEntry = {
  name: "",
  file: "",
  bytes: 0,
  sha256: "",
  architecture: "",
  tokenizer: "",
  skills: [],
  description: "",
};

const seats = (...names: string[]): Seat[] =>
  names.map((name) => ({ source: { name, files: [file] } }));
const toys = (byDefault: boolean): Seat[] =>
  seats("Ada", "Bo", "Cy").map((seat) => ({ ...seat, entry, byDefault }));
const damaged = (name: string): Seat => ({ source: { name, files: [new Blob([])] } });

interface Furnished {
  roster: Roster;
  conclave: Conclave;
  /** Names on the cards. */
  cards: () => string[];
  /** Names of the engine's members, once all its requests are done. */
  seated: () => Promise<string[]>;
  shares: number[];
}

/** A page of `first`, to which requested toys are added. */
async function furnish(
  first: Seat[],
  around: Surroundings = {},
  ways: RosterWays = {},
  onFatal: (error: Error) => void = assert.fail,
): Promise<Furnished> {
  const names = ["Ada", "Bo", "Cy", "Dee", "Eve", "Flo", "Gus", "Hal", "Ivy", "Ada 2"];
  const { port } = stage(Object.fromEntries(names.map((name) => [name, talker])), 1, around);
  const conclave = await Conclave.open({ backend: "cpu" }, port);
  const host = document.createElement("ul");
  const panel = new MembersPanel(host as HTMLElement, {
    onRetry: ignored,
    onStop: ignored,
    onRemove: ignored,
    onRename: ignored,
    onTakesPart: ignored,
    onStored: ignored,
    onNews: ignored,
  });
  const shares: number[] = [];
  const roster: Roster = new Roster(
    panel,
    {
      onChanging: ignored,
      onChange: ignored,
      onBare: () => roster.bringToys(toys(true), true),
      onShare: (share) => shares.push(share),
      onFatal,
    },
    512,
    ways,
  );
  await roster.replaceAll("First", first);
  const attached = roster.attach(conclave);
  if (around.building === undefined) await attached;
  const settled = async (): Promise<void> => {
    // Several turns: a ready member removes others, a removed one brings others back.
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    roster,
    conclave,
    shares,
    cards: () => [...host.querySelectorAll(".name")].map(({ textContent }) => textContent ?? ""),
    seated: async () => {
      await settled();
      return conclave.members.map(({ name }) => name);
    },
  };
}

const shown = ({ slots }: Roster): string[] =>
  slots.map(({ source, state }) => `${source.name} ${state}`);
const find = ({ slots }: Roster, name: string) =>
  slots.find(({ source }) => source.name === name) ?? assert.fail(`${name} is not here`);

test("of two quick choices the last one holds, in the panel and in the engine", async () => {
  let built = (): void => {};
  const { roster, conclave, cards, seated, shares } = await furnish(seats("Ada", "Bo"), {
    building: new Promise((resolve) => (built = resolve)),
  });
  // While the first are still loading.
  const first = roster.replaceAll("First", seats("Cy", "Dee"));
  const second = roster.replaceAll("Second", seats("Eve"));
  setTimeout(built, 5);
  await Promise.all([first, second]);
  assert.deepEqual([roster.title, shown(roster), cards()], ["Second", ["Eve ready"], ["Eve"]]);
  assert.deepEqual(await seated(), ["Eve"]);
  assert.ok(
    shares.length > 0 && shares.every((share) => share >= 0 && share < 1),
    shares.join(", "),
  );
  conclave.close();
});

test("toys by default leave once a member of the visitor's own is ready, not before", async () => {
  const { roster, conclave, cards, seated } = await furnish(toys(true));
  assert.deepEqual(shown(roster), ["Ada ready", "Bo ready", "Cy ready"]);
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(shown(roster), ["Ada ready", "Bo ready", "Cy ready", "Dee loading"]);
  assert.equal(roster.madeRoom, false);
  assert.deepEqual(await seated(), ["Dee"]);
  assert.deepEqual([cards(), roster.madeRoom], [["Dee"], true]);
  conclave.close();
});

test("a load that fails, or is stopped, keeps the toys", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  roster.add(damaged("Dee"));
  assert.deepEqual(await seated(), ["Ada", "Bo", "Cy"]);
  assert.deepEqual(shown(roster).at(-1), "Dee failed");
  roster.stop(roster.add(seats("Eve")[0]!)!);
  assert.deepEqual(await seated(), ["Ada", "Bo", "Cy"]);
  assert.deepEqual(shown(roster).at(-1), "Eve stopped");
  // Both cards go, and nothing is added twice.
  for (const name of ["Dee", "Eve"]) await roster.remove(find(roster, name));
  assert.deepEqual([await seated(), roster.title], [["Ada", "Bo", "Cy"], "The bundled toys"]);
  conclave.close();
});

test("they come back when the last one goes, and leave again for the next", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  for (const seat of seats("Dee", "Eve")) roster.add(seat);
  roster.title = "Own";
  assert.deepEqual(await seated(), ["Dee", "Eve"]);
  await roster.remove(find(roster, "Dee"));
  assert.deepEqual([await seated(), roster.title], [["Eve"], "Own"]);
  await roster.remove(find(roster, "Eve"));
  assert.deepEqual(
    [await seated(), roster.title, roster.madeRoom],
    [["Ada", "Bo", "Cy"], "The bundled toys", false],
  );
  roster.add(seats("Flo")[0]!);
  assert.deepEqual(await seated(), ["Flo"]);
  conclave.close();
});

test("toys that the visitor asked for stay", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  roster.keep(find(roster, "Bo"));
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(await seated(), ["Bo", "Dee"]);
  await roster.remove(find(roster, "Dee"));
  assert.deepEqual(await seated(), ["Bo", "Ada", "Cy"], "those that left come back to it");
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(await seated(), ["Bo", "Dee"]);
  // Their list may arrive late.
  roster.bringToys(toys(true), true);
  assert.deepEqual(shown(roster), ["Bo ready", "Dee ready"]);
  // Requested by name, with others present.
  assert.ok(roster.bringToys(toys(false), false));
  assert.deepEqual([await seated(), roster.madeRoom], [["Bo", "Dee", "Ada", "Cy"], false]);
  roster.add(seats("Eve")[0]!);
  assert.deepEqual(await seated(), ["Bo", "Dee", "Ada", "Cy", "Eve"]);
  conclave.close();

  const chosen = await furnish(toys(false));
  chosen.roster.add(seats("Dee")[0]!);
  assert.deepEqual(await chosen.seated(), ["Ada", "Bo", "Cy", "Dee"]);
  chosen.conclave.close();
});

test("toys for which there is no room leave the others as they are", async () => {
  const names = ["Dee", "Eve", "Flo", "Gus", "Hal", "Ivy"];
  const { roster, conclave, seated } = await furnish(seats(...names));
  assert.equal(roster.bringToys(toys(false), false), false);
  assert.deepEqual([await seated(), roster.aside], [names, []]);
  conclave.close();
});

test("another engine loads no member whose load was stopped", async () => {
  const { roster, conclave, seated } = await furnish(seats("Ada", "Bo"));
  const dee = roster.add(seats("Dee")[0]!)!;
  roster.stop(dee);
  await seated();
  roster.detach();
  for (const name of ["Ada", "Bo"]) await conclave.remove(name); // As a new engine has it.
  await roster.attach(conclave);
  assert.deepEqual(shown(roster), ["Ada ready", "Bo ready", "Dee stopped"]);
  await roster.retry(dee);
  assert.equal(dee.state, "ready");
  conclave.close();
});

test("toys that are removed by hand stay away", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  for (const name of ["Ada", "Bo", "Cy"]) await roster.remove(find(roster, name));
  assert.deepEqual(await seated(), []);
  conclave.close();
});

test("an ensemble replaces the toys at once; if none loads they return until a retry", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  await roster.replaceAll("Pair", [damaged("Dee"), damaged("Eve")]);
  assert.deepEqual(await seated(), ["Ada", "Bo", "Cy"]);
  assert.deepEqual(
    [roster.title, shown(roster).slice(0, 2)],
    ["Pair", ["Dee failed", "Eve failed"]],
  );
  const dee = find(roster, "Dee");
  dee.source = { name: "Dee", files: [file] };
  await roster.load(dee);
  assert.deepEqual(await seated(), ["Dee"]);
  conclave.close();

  // Removing a member of the last visit, without toys before.
  const last = await furnish(seats("Dee"));
  await last.roster.remove(find(last.roster, "Dee"));
  assert.deepEqual(await last.seated(), ["Ada", "Bo", "Cy"]);
  last.conclave.close();
});

test("a judge cannot answer without the toys", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  roster.add({ source: { name: "Judge", remote: "https://host/v1", judge: true } });
  while (roster.loading) await seated();
  assert.deepEqual(shown(roster), ["Ada ready", "Bo ready", "Cy ready", "Judge ready"]);
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(await seated(), ["Judge", "Dee"]);
  await roster.remove(find(roster, "Dee"));
  assert.deepEqual(await seated(), ["Judge", "Ada", "Bo", "Cy"]);
  conclave.close();
});

test("while an answer is under way they stay in it", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  roster.busy = true;
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(await seated(), ["Ada", "Bo", "Cy", "Dee"]);
  roster.busy = false;
  assert.deepEqual(await seated(), ["Dee"]);
  conclave.close();
});

test("toys that came by default take up nobody's place", async () => {
  const { roster, conclave, seated } = await furnish(toys(true));
  const names = ["Dee", "Eve", "Flo", "Gus", "Hal", "Ivy", "Ada", "Ada 2"];
  for (const name of names.slice(0, 7)) assert.ok(roster.add(seats(name)[0]!), name);
  assert.ok(roster.slots.length <= 8 && !roster.full);
  assert.ok(roster.add(seats("Bo")[0]!));
  assert.equal(roster.add(seats("Cy")[0]!), undefined);
  assert.equal((await seated()).length, 8);
  assert.deepEqual(
    roster.slots.map(({ entry }) => entry),
    names.map(() => undefined),
  );
  conclave.close();
});

test("a member that ended a tab is not loaded until it is tried; the toys stand in", async () => {
  const risks = new Risks(undefined, "this");
  const [own] = seats("Dee");
  const ending = { ...atRisk(own!.source, 1e9), phase: "load" as const, at: 1 };
  risks.heldBack = ({ name }) => (name === "Dee" && !tried ? ending : undefined);
  let tried = false;
  const { roster, conclave, seated } = await furnish([own!], {}, { risks });
  assert.deepEqual(await seated(), ["Ada", "Bo", "Cy"]);
  assert.deepEqual(shown(roster), ["Dee held", "Ada ready", "Bo ready", "Cy ready"]);
  assert.ok(roster.heldBack);
  tried = true;
  await roster.retry(find(roster, "Dee"));
  assert.deepEqual(await seated(), ["Dee"]);
  assert.ok(!roster.heldBack);
  conclave.close();
});

/** Marks of risk, with what is stored of them. */
function recorded(): { storage: Map<string, string>; risks: Risks } {
  const storage = new Map<string, string>();
  const risks = new Risks(
    {
      getItem: (key) => storage.get(key) ?? null,
      setItem: (key, value) => void storage.set(key, value),
      removeItem: (key) => void storage.delete(key),
      key: (index) => [...storage.keys()][index] ?? null,
      get length() {
        return storage.size;
      },
    },
    "this",
  );
  return { storage, risks };
}

test("a load is marked while it lasts; what memory refuses is tried with less room", async () => {
  const marked: string[][] = [];
  const { storage, risks } = recorded();
  const { roster, conclave, seated } = await furnish([], {}, { risks, room: () => 8192 });
  const add = conclave.add.bind(conclave);
  const rooms: (number | undefined)[] = [];
  conclave.add = async (source, options) => {
    marked.push([...storage.values()]);
    rooms.push(options?.contextTokens);
    if ((options?.contextTokens ?? 0) > 2048) throw new OutOfMemory("no room");
    return add(source, options);
  };
  roster.add(seats("Dee")[0]!);
  assert.deepEqual(await seated(), ["Dee"]);
  assert.deepEqual(rooms, [8192, 4096, 2048]);
  assert.equal(find(roster, "Dee").contextTokens, 2048);
  assert.ok(marked.every(([mark]) => /"name":"Dee".*"phase":"queued"/.test(mark ?? "")));
  assert.equal(storage.size, 0, "nothing is left of a load that ended");
  conclave.close();
});

test("a member of picked files is marked, held back and released by the name of their copy", async () => {
  const { storage, risks } = recorded();
  const { roster, conclave, seated } = await furnish(seats("Dee"), {}, { risks });
  assert.deepEqual(await seated(), ["Dee"]);
  const dee = find(roster, "Dee");
  const copy = `copy:${"0".repeat(64)}`;
  dee.copy = copy;
  const risk = roster.risk([dee]);
  risk.enter("read");
  const [mark] = JSON.parse([...storage.values()][0]!);
  assert.deepEqual([mark.key, mark.ref, mark.name], [copy, copy, "Dee"]);
  risk.leave();
  // As the next visit has it, whose member has that name alone.
  let held = true;
  const ending = { ...atRisk({ name: "Dee", ref: copy }, 1e9), phase: "load" as const, at: 1 };
  risks.heldBack = ({ ref }) => (held && ref === copy ? ending : undefined);
  risks.release = ({ ref }) => void (held &&= ref !== copy);
  await roster.load(dee);
  assert.equal(dee.state, "held");
  await conclave.remove("Dee");
  await roster.retry(dee);
  assert.equal(dee.state, "ready");
  conclave.close();
});

test("a member that stopped the engine is at fault while the others load again", async () => {
  const { storage, risks } = recorded();
  let fatal = 0;
  const { roster, conclave, seated } = await furnish([], {}, { risks }, () => fatal++);
  const add = conclave.add.bind(conclave);
  const marked: string[] = [];
  conclave.add = async (source, options) => {
    if (source.name === "Dee") throw new EngineFailure("no memory; the engine starts again");
    marked.push(...storage.values());
    return add(source, options);
  };
  roster.add(seats("Dee")[0]!);
  await seated();
  assert.equal(fatal, 1);
  roster.add(seats("Eve")[0]!);
  await seated();
  marked.length = 0;
  roster.detach();
  await conclave.remove("Eve"); // As a new engine has it.
  await roster.attach(conclave);
  assert.deepEqual(shown(roster).slice(0, 2), ["Dee failed", "Eve ready"]);
  assert.match(marked.join(), /"name":"Dee"[^}]*"phase":"load"/);
  assert.equal(storage.size, 0, "nothing is left once all are there");
  conclave.close();
});

test("one that is tried again beside the others keeps its mark until its own end", async () => {
  const { storage, risks } = recorded();
  const { roster, conclave, seated } = await furnish([], {}, { risks }, ignored);
  const add = conclave.add.bind(conclave);
  const held = new Map<string, () => void>();
  let failing = true;
  conclave.add = async (source, options) => {
    if (source.name === "Dee" && failing) throw new EngineFailure("the engine starts again");
    await new Promise<void>((resolve) => held.set(source.name, resolve));
    return add(source, options);
  };
  const dee = roster.add(seats("Dee")[0]!)!;
  await seated();
  roster.add(seats("Eve")[0]!);
  roster.detach();
  const attached = roster.attach(conclave);
  await seated();
  failing = false;
  void roster.retry(dee);
  await seated();
  held.get("Eve")!();
  await attached;
  assert.deepEqual([...storage.values()].join().match(/"name":"\w+"/g), ['"name":"Dee"']);
  held.get("Dee")!();
  await seated();
  assert.deepEqual([shown(roster), storage.size], [["Dee ready", "Eve ready"], 0]);
  conclave.close();
});

test("members follow another choice of room, after an answer under way", async () => {
  let room = 1024;
  const { roster, conclave, seated } = await furnish(seats("Ada", "Bo"), {}, { room: () => room });
  const given: (number | undefined)[] = [];
  const add = conclave.add.bind(conclave);
  conclave.add = (source, options) => (given.push(options?.contextTokens), add(source, options));
  room = 2048;
  roster.busy = true;
  await roster.resize();
  assert.deepEqual(given, []);
  roster.busy = false;
  assert.deepEqual((await seated()).sort(), ["Ada", "Bo"]);
  assert.deepEqual(given, [2048, 2048]);
  await roster.resize();
  assert.equal(given.length, 2, "nothing changes");
  conclave.close();
});
