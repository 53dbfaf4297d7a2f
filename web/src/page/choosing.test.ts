/** Copies among the members of the last visit, as the choice of models settles them. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { parseHTML } from "linkedom";
import type { Conclave, Stored, StoredModel } from "../library/conclave.ts";
import { StorageFailure } from "../protocol/errors.ts";
import type { MemberSource } from "../protocol/messages.ts";
import type { Slot } from "./members-panel.ts";
import type { Notices } from "./notices.ts";
import type { Roster, Seat } from "./roster.ts";

const { window, document } = parseHTML(
  '<!doctype html><html><body><dialog id="models-dialog"></dialog></body></html>',
);
Object.defineProperty(document, "baseURI", { value: "http://localhost/" });
const kept = new Map<string, string>();
Object.assign(globalThis, {
  window,
  document,
  HTMLElement: window.HTMLElement,
  HTMLDialogElement: window.HTMLElement,
  addEventListener: () => undefined,
});
Object.defineProperty(globalThis, "localStorage", {
  value: {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  },
});
const { Choosing } = await import("./choosing.ts");
beforeEach(() => kept.clear());

const copyOf = (digit: number): string => `copy:${String(digit).repeat(64)}`;
const sources: MemberSource[] = [
  { name: "Ada", ref: copyOf(1) },
  { name: "Bo", ref: copyOf(2) },
];

/** A page of Ada and Bo, from copies, which settles them by what `models` says. */
async function settled(models: () => Promise<Partial<Stored>>) {
  const slots = sources.map((source) => ({ source, state: "waiting" }) as Slot);
  const told = new Map<string, string>();
  let seated: string[] | undefined;
  const roster = {
    slots,
    title: "Mine",
    replaceAll: async (_title: string, seats: Seat[]) =>
      void (seated = seats.map(({ source }) => source.name)),
  };
  const choosing = new Choosing({
    roster: roster as unknown as Roster,
    notices: {
      show: (key: string, _tone: string, text: string) => void told.set(key, text),
      clear: (key: string) => void told.delete(key),
    } as unknown as Notices,
    library: () => undefined,
    starting: () => undefined,
    hub: undefined,
    handles: { recall: async () => new Map(), remember: () => undefined },
    onLeave: () => undefined,
  });
  await choosing.settle({ models } as unknown as Conclave);
  return { seated, told: [...told] };
}

const stored = (digit: number, toReserve = 0): StoredModel => ({
  ref: copyOf(digit),
  from: "mine.gguf",
  commit: null,
  files: [],
  bytes: 5,
  stored: 5,
  toReserve,
  complete: true,
  prompts: 0,
});

test("a copy that is gone, or lacks bytes, is told; the other members stay", async () => {
  for (const models of [[stored(1)], [stored(1), stored(2, 1)]]) {
    const { seated, told } = await settled(async () => ({ models, keeps: true }));
    assert.deepEqual(seated, ["Ada"]);
    const [[key, text] = ["", ""]] = told;
    assert.equal(key, "lost copies");
    assert.match(text, /^Bo was a picked file, whose copy is no longer in this browser\./);
  }
});

test("a list that can't be read once declares no copy gone", async () => {
  const refused = async (): Promise<never> => {
    throw new StorageFailure("The browser's storage failed.");
  };
  for (const models of [refused, async () => ({ models: [], keeps: false })])
    assert.deepEqual(await settled(models), { seated: undefined, told: [] });
});
