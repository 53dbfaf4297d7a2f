/** Offers of copies of picked files, over a scripted store. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Conclave, Progress, Stored } from "../library/conclave.ts";
import { keepNothing } from "../kept/nothing.ts";
import { EngineFailure, StorageFailure } from "../protocol/errors.ts";
import { copyReference } from "../store/copy-reference.ts";
import { FileCopies } from "./file-copies.ts";
import type { Slot } from "./members-panel.ts";
import type { Action } from "./notices.ts";

const kept = new Map<string, string>();
/** Keys whose texts other tabs heard of. */
const written: string[] = [];
const localStorage = {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => {
    kept.set(key, value);
    written.push(key);
  },
  removeItem: (key: string) => kept.delete(key),
};
type Listener = (event: { key: string }) => void;
let onStorage: Listener = () => assert.fail();
Object.assign(globalThis, {
  addEventListener: (_type: string, listener: Listener) => (onStorage = listener),
});
Object.defineProperty(globalThis, "localStorage", { value: localStorage });
beforeEach(() => {
  kept.clear();
  written.length = 0;
});

const file = (name: string): File => new File(["model"], `${name}.gguf`, { lastModified: 7 });
const slot = (name: string, own: Partial<Slot> = {}): Slot => ({
  source: { name, files: [file(name)] },
  core: undefined,
  state: "ready",
  takesPart: true,
  voice: 0,
  ...own,
});
const settle = async (): Promise<void> => {
  // A reference is computed in another thread.
  for (let turn = 0; turn < 20; turn++) await copyReference([file("any")]);
};

interface Shown {
  tone: string;
  text: string;
  actions: Action[];
  share?: number;
}

interface Copying {
  name: string;
  isOver: boolean;
  done: () => void;
  fail: (error: Error) => void;
  progress: (progress: Progress) => void;
}

/** A page with a store that has these copies. */
function page({ free = 1000, keeps = true }: Partial<Stored> = {}) {
  const stored = new Set<string>();
  /** References of copies that can't be deleted, as a tab is loading them. */
  const loading = new Set<string>();
  /** References of copies that lack bytes. */
  const damaged = new Set<string>();
  let fails = false;
  let replaced = 0;
  const copying = [] as Copying[];
  const shown = new Map<string, Shown>();
  const notices = {
    clear: (key: string) => void shown.delete(key),
    progress: (key: string, share: number) => void Object.assign(shown.get(key)!, { share }),
    show: (
      key: string,
      tone: string,
      text: string,
      actions: Action[] = [],
      onDismiss?: (() => void) | null,
    ) => {
      const dismiss = { label: "Dismiss", run: onDismiss ?? (() => undefined) };
      const closing = onDismiss === null ? [] : [dismiss];
      const plain = text.replaceAll("\u00a0", " ");
      shown.set(key, { tone, text: plain, actions: [...actions, ...closing] });
    },
  };
  const library = {
    models: async () => {
      if (fails) throw new EngineFailure("The engine was closed.");
      const models = [...stored].map((ref) => ({
        ref,
        complete: true,
        toReserve: damaged.has(ref) ? 1 : 0,
      }));
      return { models, free, keeps };
    },
    deleteModel: async (ref: string) => {
      if (loading.has(ref)) throw new StorageFailure("It is being loaded.");
      stored.delete(ref);
    },
    keepFiles: (
      name: string,
      files: File[],
      { signal, onProgress }: { signal: AbortSignal; onProgress: (step: Progress) => void },
    ) =>
      new Promise<void>((resolve, reject) => {
        let isWhole = false;
        signal.addEventListener("abort", () => isWhole || reject(signal.reason));
        const done = (): void => {
          isWhole = true;
          void settle().then(async () => {
            const ref = await copyReference(files);
            stored.add(ref);
            damaged.delete(ref);
            copy.isOver = true;
            resolve();
          });
        };
        const copy = { name, isOver: false, done, fail: reject, progress: onProgress };
        copying.push(copy);
      }),
  };
  let remembered = 0;
  let engine = { ...library };
  const copies = new FileCopies({
    notices,
    starting: () => engine as unknown as Conclave,
    onKept: () => remembered++,
  });
  return {
    copies,
    copying,
    stored,
    loading,
    damaged,
    room: (bytes: number) => (free = bytes),
    /** Lets the list of what is stored fail, or not. */
    fail: (does: boolean) => (fails = does),
    /** Closes the engine and starts another. */
    restart: () => {
      engine = { ...library };
      for (const copy of copying.slice(replaced)) copy.fail(new EngineFailure("It was closed."));
      replaced = copying.length;
    },
    buttons: () => [...shown.values()].flatMap(({ actions }) => actions.map(({ label }) => label)),
    shown: () => [...shown.values()],
    /** Number of times that members were remembered anew. */
    remembered: () => remembered,
    said: () => [...shown.values()].map(({ text }) => text),
    press: async (label: string) => {
      const isIt = (action: Action): boolean => action.label === label;
      const [key, notice] = [...shown].find(([, { actions }]) => actions.some(isIt)) ?? [];
      assert.ok(key !== undefined && notice, `there is no ${label}`);
      shown.delete(key);
      notice.actions.find(isIt)?.run();
      await settle();
    },
  };
}
const offered = /^This browser lets the page read (\w+) in this visit only\. A copy of it, 5 B/;

test("a copy is offered once a member of a picked file is ready, and made when pressed", async () => {
  const { copies, said, press, copying, shown, remembered } = page();
  const ada = slot("Ada", { state: "loading" });
  copies.heed([ada]);
  await settle();
  assert.deepEqual(said(), [], "it may be no model");
  ada.state = "ready";
  copies.heed([ada]);
  copies.heed([ada]);
  await settle();
  assert.equal(said().length, 1);
  assert.match(said()[0]!, offered);
  assert.equal(copying.length, 0, "nothing is copied unasked");
  await press("Keep a copy");
  assert.deepEqual(
    copying.map(({ name }) => name),
    ["Ada.gguf"],
  );
  assert.match(said()[0]!, /^Ada is copied into this browser: 5 B\. You can ask meanwhile\.$/);
  const [notice] = shown();
  assert.deepEqual(
    notice!.actions.map(({ label }) => label),
    ["Stop copying"],
    "it can't be dismissed, which would not stop it",
  );
  copying[0]!.progress({
    phase: "downloading",
    loaded: 2,
    total: 5,
    rate: null,
    secondsLeft: null,
  });
  assert.equal(notice!.share, 0.4);
  assert.equal(ada.copy, undefined, "it is not whole yet");
  copying[0]!.done();
  await settle();
  await settle();
  assert.equal(ada.copy, await copyReference([file("Ada")]));
  assert.equal(remembered(), 1);
  assert.match(said()[0]!, /^Ada is kept in this browser.*“Change” lists it/);
});

test("files with handles, and members that are fetched, want no copy", async () => {
  const { copies, said } = page();
  copies.heed([
    slot("Ada", { handles: [] }),
    slot("Bo", { source: { name: "Bo", ref: "hf:o/r/bo.gguf" } }),
    slot("Cy", { source: { name: "Cy", files: [new Blob(["bytes in memory"])] } }),
  ]);
  await settle();
  assert.deepEqual(said(), []);
  const without = page({ keeps: false });
  without.copies.heed([slot("Ada")]);
  await settle();
  assert.deepEqual(without.said(), [], "there is no place for it");
});

test("who declines is not asked again about that file, but about another", async () => {
  const { copies, said, press } = page();
  copies.heed([slot("Ada")]);
  await settle();
  await press("Dismiss");
  copies.heed([]);
  copies.heed([slot("Ada"), slot("Bo")]);
  await settle();
  assert.deepEqual(
    said().map((text) => offered.exec(text)?.[1]),
    ["Bo"],
  );
  copies.heed([]);
  assert.deepEqual(said(), [], "the member has left");
  copies.heed([slot("Bo")]);
  await settle();
  assert.equal(said().length, 1, "nobody has declined it");
});

test("without room that is said before the copy, until there is some", async () => {
  const { copies, said, press, copying, shown, room } = page({ free: 3 });
  copies.heed([slot("Ada")]);
  await settle();
  assert.match(said()[0]!, /There is no room for it: the browser lets the page keep 3 B more\./);
  assert.equal(shown()[0]!.tone, "warning");
  await press("Try again");
  assert.match(said()[0]!, /There is no room/);
  room(5);
  await press("Try again");
  assert.match(said()[0]!, /brings it back next time\.$/);
  assert.equal(copying.length, 0);
  await press("Keep a copy");
  copying[0]!.fail(new StorageFailure("Ada.gguf needs more."));
  await settle();
  assert.deepEqual(said(), ["Ada.gguf needs more."]);
  await press("Try again");
  assert.equal(copying.length, 2);
});

test("a copy that is stopped is not kept, and can be begun again", async () => {
  const { copies, said, press, copying, stored } = page();
  const ada = slot("Ada");
  copies.heed([ada]);
  await settle();
  await press("Keep a copy");
  await press("Stop copying");
  assert.deepEqual(said(), ["The copy of Ada was stopped; nothing of it is kept."]);
  assert.deepEqual([ada.copy, stored.size], [undefined, 0]);
  await press("Copy it after all");
  copying[1]!.done();
  await settle();
  await settle();
  assert.notEqual(ada.copy, undefined);
  // Removed while it is copied.
  const bo = slot("Bo");
  copies.heed([ada, bo]);
  await settle();
  await press("Keep a copy");
  copies.heed([ada]);
  await settle();
  assert.ok(!said().some((text) => text.includes("Bo")), "the visitor knows why");
});

test("a file that was copied is known when it is picked again, even twice", async () => {
  const { copies, said, stored, remembered } = page();
  stored.add(await copyReference([file("Ada")]));
  const both = [slot("Ada"), slot("Ada")];
  copies.heed(both);
  await settle();
  assert.deepEqual(said(), []);
  assert.ok(remembered() > 0 && both.every(({ copy }) => copy !== undefined));
  const twice = [slot("Bo"), slot("Bo")];
  copies.heed(twice);
  await settle();
  assert.equal(said().length, 1);
  copies.heed([twice[1]!]);
  await settle();
  assert.equal(said().length, 1, "the other one still wants it");
});

test("if nothing is to be kept, no copy is offered, made or left", async () => {
  keepNothing(true);
  const { copies, said, press, copying, stored } = page();
  const ada = slot("Ada");
  copies.heed([ada]);
  await settle();
  assert.deepEqual(said(), []);
  keepNothing(false);
  copies.heed([ada]);
  await settle();
  assert.equal(said().length, 1);
  // Chosen in another tab while the offer is read, and while it is copied.
  keepNothing(true);
  await press("Keep a copy");
  assert.deepEqual([copying.length, said()], [0, []]);
  keepNothing(false);
  copies.heed([]);
  copies.heed([ada]);
  await settle();
  await press("Keep a copy");
  keepNothing(true);
  copying[0]!.done();
  await settle();
  await settle();
  assert.deepEqual([stored.size, ada.copy, said()], [0, undefined, []]);
  keepNothing(false);
  copies.heed([]);
  copies.heed([ada]);
  await settle();
  await press("Keep a copy");
  keepNothing(true);
  onStorage({ key: "conclave keeps nothing" });
  await settle();
  assert.deepEqual([stored.size, ada.copy, said()], [0, undefined, []]);
});

test("“Delete everything” ends copies under way, deletes the others, and asks no more", async () => {
  const { copies, said, press, copying, stored } = page();
  const [ada, bo] = [slot("Ada"), slot("Bo")];
  const fetched = "hf:o/r/cy.gguf";
  stored.add(await copyReference([file("Ada")])).add(fetched);
  copies.heed([ada, bo]);
  await settle();
  await press("Keep a copy");
  copying[0]!.done(); // Too late for it to be stopped.
  await copies.forget();
  assert.deepEqual([[...stored], copying[0]!.isOver], [[fetched], true]);
  assert.deepEqual([ada.copy, bo.copy, said()], [undefined, undefined, []]);
  copies.heed([ada, bo]);
  copies.heed([slot("Ada"), slot("Bo")]);
  await settle();
  assert.deepEqual(said(), []);
});

test("“Delete everything” says if a copy is left, which goes at a later change", async () => {
  const { copies, stored, loading, fail } = page();
  const [ada, bo] = await Promise.all(["Ada", "Bo"].map((name) => copyReference([file(name)])));
  stored.add(ada!).add(bo!);
  loading.add(ada!);
  assert.equal(await copies.forget(), false);
  assert.deepEqual([...stored], [ada]);
  // It is loaded by now; one that was made since stays.
  loading.clear();
  stored.add(bo!);
  copies.heed([]);
  await settle();
  assert.deepEqual([...stored], [bo]);
  fail(true);
  assert.equal(await copies.forget(), false, "the list can't be read");
  fail(false);
  copies.heed([]);
  await settle();
  assert.deepEqual([...stored], []);
  assert.equal(await copies.forget(), true);
  // A visit in which nothing is to be kept deletes what an earlier one could not.
  keepNothing(true);
  const later = page();
  later.stored.add(ada!);
  later.copies.heed([]);
  await settle();
  assert.deepEqual([...later.stored], []);
});

test("a copy that is wanted after “Delete everything” is no longer to be deleted", async () => {
  const { copies, stored, loading, press, copying } = page();
  const ref = await copyReference([file("Ada")]);
  stored.add(ref);
  loading.add(ref);
  assert.equal(await copies.forget(), false);
  const ada = slot("Ada");
  copies.heed([ada]);
  await settle();
  assert.equal(ada.copy, undefined, "it goes as soon as it can");
  await press("Keep a copy");
  copying[0]!.done();
  await settle();
  await settle();
  loading.clear();
  copies.heed([ada]);
  await settle();
  assert.deepEqual([[...stored], ada.copy], [[ref], ref]);
});

test("a tab hears of “Delete everything” in another, and ends and deletes its copy", async () => {
  const { copies, said, press, copying, stored, loading } = page();
  await copies.forget();
  assert.deepEqual(written, ["conclave copies deleted"], "other tabs hear of it");
  assert.equal(kept.size, 0, "nothing is left of that");
  const [ada, bo] = [slot("Ada"), slot("Bo")];
  const refs = await Promise.all(["Ada", "Bo"].map((name) => copyReference([file(name)])));
  stored.add(refs[0]!);
  copies.heed([ada, bo]);
  await settle();
  await press("Keep a copy");
  copying[0]!.done(); // Too late for it to be stopped.
  loading.add(refs[1]!);
  onStorage({ key: "conclave copies deleted" });
  await settle();
  await settle();
  assert.deepEqual([ada.copy, bo.copy, said()], [undefined, undefined, []]);
  loading.clear();
  copies.heed([ada, bo]);
  await settle();
  assert.deepEqual([[...stored], said()], [[refs[0]], []], "the other tab deletes the others");
});

test("the same file as two members is copied once, until the last of them has left", async () => {
  const { copies, said, press, copying, shown, remembered } = page();
  const twice = [slot("Ada"), slot("Ada")];
  copies.heed([twice[0]!]);
  await settle();
  await press("Keep a copy");
  copies.heed(twice);
  await settle();
  assert.match(said().join(), /^Ada is copied into this browser/);
  assert.equal(shown()[0]!.share, 0, "its progress stays");
  copies.heed([twice[1]!]);
  await settle();
  assert.match(said().join(), /^Ada is copied into this browser/);
  copying[0]!.done();
  await settle();
  await settle();
  assert.equal(twice[1]!.copy, await copyReference([file("Ada")]));
  assert.deepEqual([copying.length, remembered()], [1, 1]);
});

test("an engine that is replaced loses no copy: the next one makes it", async () => {
  const { copies, said, press, copying, restart, stored } = page();
  const ada = slot("Ada");
  copies.heed([ada]);
  await settle();
  await press("Keep a copy");
  restart();
  ada.state = "waiting";
  copies.heed([ada]);
  await settle();
  assert.equal(copying.length, 2);
  assert.match(said().join(), /^Ada is copied into this browser/);
  copying[1]!.done();
  await settle();
  await settle();
  assert.deepEqual([...stored], [ada.copy]);
  // One that was stopped is not begun again.
  copies.heed([slot("Bo")]);
  await settle();
  await press("Keep a copy");
  await press("Stop copying");
  restart();
  await settle();
  assert.equal(copying.length, 3);
});

test("a copy that lacks bytes is offered, and made, again", async () => {
  const { copies, said, press, copying, stored, damaged } = page();
  const ref = await copyReference([file("Ada")]);
  stored.add(ref);
  damaged.add(ref);
  const ada = slot("Ada");
  copies.heed([ada]);
  await settle();
  assert.match(said().join(), offered);
  assert.equal(ada.copy, undefined);
  await press("Keep a copy");
  copying[0]!.done();
  await settle();
  await settle();
  assert.equal(ada.copy, ref);
});

test("many members are one offer, compared with the room for all of them", async () => {
  const { copies, said, press, copying, buttons, room } = page({ free: 12 });
  const three = ["Ada", "Bo", "Cy"].map((name) => slot(name));
  copies.heed(three);
  await settle();
  assert.equal(said().length, 1);
  assert.match(
    said()[0]!,
    /^This browser lets the page read Ada, Bo and Cy in this .*Copies of them, 15 B .*bring them/,
  );
  assert.match(said()[0]!, /no room for all of them: the browser lets the page keep 12 B more/);
  assert.deepEqual(buttons(), [
    "Keep Ada only",
    "Keep Bo only",
    "Keep Cy only",
    "Try again",
    "Dismiss",
  ]);
  // The copy under way has not taken its room yet.
  await press("Keep Ada only");
  assert.match(said()[1]!, /Bo and Cy in this visit.*the browser lets the page keep 7 B more/);
  room(1000);
  await press("Try again");
  assert.deepEqual(buttons().slice(1), ["Keep copies", "Dismiss"]);
  copies.heed(three.slice(0, 2));
  await settle();
  assert.match(said()[1]!, /the page read Bo in this visit only\. A copy of it, 5 B/);
  copies.heed(three);
  await settle();
  await press("Keep copies");
  assert.deepEqual(
    copying.map(({ name }) => name),
    ["Ada.gguf", "Bo.gguf", "Cy.gguf"],
  );
  assert.equal(said().length, 3);
  const declining = page();
  declining.copies.heed(three.map(({ source: { name } }) => slot(name)));
  await settle();
  await declining.press("Dismiss");
  declining.copies.heed([slot("Bo")]);
  await settle();
  assert.deepEqual(declining.said(), []);
});

test("a list that could not be read once is read again at the next change", async () => {
  const { copies, said, fail } = page();
  const ada = slot("Ada");
  fail(true);
  copies.heed([ada]);
  await settle();
  assert.deepEqual(said(), []);
  fail(false);
  copies.heed([ada]);
  await settle();
  assert.match(said().join(), offered);
});

test("while another tab copies the file, the notice says that this one waits", async () => {
  const { copies, said, press, copying, buttons } = page();
  copies.heed([slot("Ada")]);
  await settle();
  await press("Keep a copy");
  const step = { loaded: 0, total: 0, rate: null, secondsLeft: null };
  copying[0]!.progress({ ...step, phase: "waiting" });
  assert.match(said().join(), /^Ada is being copied by another tab/);
  assert.deepEqual(buttons(), ["Stop copying"]);
  copying[0]!.progress({ ...step, phase: "downloading" });
  assert.match(said().join(), /^Ada is copied into this browser/);
});
