/** Limits of an answer that goes on; weights and marks beside the answers of a conversation. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import type { Phase } from "../kept/risks.ts";
import type { KeptTurn } from "../kept/records.ts";
import type { Conclave } from "../library/conclave.ts";
import type { Settings } from "../protocol/engine.ts";
import type { ConclaveEvent, RoundEvent } from "../protocol/messages.ts";
import { turnOf } from "../testing/kept-turn.ts";
import { Answers, beyond } from "./answers.ts";
import type { Exchange } from "./exchange.ts";
import type { Slot } from "./members-panel.ts";
import { exchangeOf } from "./turns.ts";

const { window, document } = parseHTML('<html><body><div id="advice"></div></body></html>');
function ignored(): void {}
const matchMedia = (): object => ({ matches: true, addEventListener: ignored });
const view = { innerHeight: 100, matchMedia };
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement, ...view });
// All is below the window's end, so that nothing is scrolled.
window.HTMLElement.prototype.getBoundingClientRect = () => ({ top: 200, bottom: 200 }) as DOMRect;

const own = { maxRounds: 4, maxCharacters: 100, beta: 2 } as unknown as Settings;
const after = (rounds: number, characters: number, limits?: Settings): number[] => {
  const done = { rounds: Array<RoundEvent>(rounds), text: "x".repeat(characters) };
  const { maxRounds, maxCharacters } = beyond(done, own, limits);
  return [maxRounds, maxCharacters];
};

test("an answer goes on within its limits, and beyond those that it has reached", () => {
  assert.deepEqual(after(0, 0), [4, 100]);
  assert.deepEqual(after(3, 99), [4, 100], "what it had left");
  assert.deepEqual(after(4, 50), [8, 100], "as many rounds again");
  assert.deepEqual(after(9, 100), [12, 200]);
});

test("the limits are those chosen now, other settings its own", () => {
  const now = { maxRounds: 64, maxCharacters: 100, beta: 9 } as unknown as Settings;
  assert.deepEqual(after(4, 50, now), [64, 100]);
  const settings: Record<string, unknown> = { ...beyond({ rounds: [], text: "" }, own, now) };
  assert.equal(settings["beta"], 2);
});

const around = {
  messages: [],
  note: undefined,
  onEdited: ignored,
  onInspect: ignored,
  onSideBySide: ignored,
  onAgain: ignored,
  onContinue: ignored,
};
const kept = (turn: KeptTurn): Exchange => exchangeOf(turn, around, true);
const slotsOf = (...names: string[]): Slot[] =>
  names.map((name, voice) => ({ source: { name }, state: "ready", takesPart: true, voice }));

interface Beside {
  answers: Answers;
  exchanges: Exchange[];
  slots: Slot[];
  /** Weights that the chart and the cards show; undefined: none. */
  shown: () => { chart: string | undefined; cards: string | undefined };
  /** Makes all cards anew. */
  anew: () => void;
  /** Phases of risk that were entered; undefined: none any more. */
  phases: (Phase | undefined)[];
}

/** Answers of a conversation, with what is shown beside them. */
function beside(exchanges: Exchange[], slots: Slot[]): Beside {
  let [chart, cards]: (string | undefined)[] = [];
  const phases: (Phase | undefined)[] = [];
  const roundsIn = (rounds: readonly RoundEvent[]): string =>
    rounds.map(({ text }) => text).join("|");
  const session = { exchanges, take: (_: Exchange, event: unknown) => event, settle: ignored };
  const answers = new Answers({
    session,
    roster: {
      slots,
      risk: () => ({
        enter: (phase: Phase) => phases.push(phase),
        leave: () => phases.push(undefined),
      }),
    },
    members: {
      begin: () => (cards = "begun"),
      weigh: () => (cards = "begun"),
      rest: () => (cards = undefined),
      rounds: (here: (Slot | undefined)[], rounds: RoundEvent[]) =>
        (cards = `${here.map((slot) => slot?.source.name)}: ${roundsIn(rounds)}`),
    },
    chart: {
      show: ({ names, rounds }: { names: string[]; rounds: RoundEvent[] }) =>
        (chart = `${names}: ${roundsIn(rounds)}`),
      hide: () => (chart = undefined),
    },
    advice: { clear: ignored, reset: ignored, consider: ignored },
    remedies: { afterEnd: () => [], after: () => [], removal: () => [] },
    firstWords: ignored,
    onState: ignored,
    onReopened: ignored,
    onFatal: ignored,
    onNews: ignored,
  } as unknown as ConstructorParameters<typeof Answers>[0]);
  const anew = (): void => void (cards = undefined);
  return { answers, exchanges, slots, phases, anew, shown: () => ({ chart, cards }) };
}

/**
 * Lets members answer a question by these events, of which a stop or a failure may be the last.
 * `before`: called before each; `known`: an exchange that goes on.
 */
async function answer(
  page: Beside,
  turn: KeptTurn,
  before: (type: string) => void = ignored,
  known?: Exchange,
): Promise<void> {
  const exchange = known ?? exchangeOf({ ...turn, events: [], answer: "" }, around, false);
  if (!known) page.exchanges.push(exchange);
  const ask = async function* (): AsyncGenerator<ConclaveEvent> {
    for (const event of turn.events) {
      before(event.type);
      yield event;
    }
    if (!turn.events.some(({ type }) => type === "end")) throw new Error("It failed.");
  };
  const slots = page.slots.filter(({ source }) => turn.members.includes(source.name));
  await page.answers.answer({ ask } as unknown as Conclave, exchange, { slots });
}

const none = { chart: undefined, cards: undefined };
const first = { chart: "Ada,Quill: One|two", cards: "Ada,Quill: One|two" };

test("a kept answer's weights are shown beside its own members, and beside no others", () => {
  const page = beside([kept(turnOf("q", ["One", "two"]))], []);
  page.answers.changed();
  assert.deepEqual(page.shown(), none, "no member is here yet");
  page.slots.push(...slotsOf("Ada", "Juno"));
  page.answers.heed();
  assert.deepEqual(page.shown(), none, "Quill is not here");
  page.slots.push(...slotsOf("Quill"));
  page.answers.heed();
  assert.deepEqual(page.shown(), first);
  page.slots.splice(0, 1);
  page.answers.heed();
  assert.deepEqual(page.shown(), none, "Ada has gone");
});

test("of a conversation without answers no weights are shown, whatever was there before", async () => {
  const page = beside([], slotsOf("Ada", "Quill"));
  await answer(page, turnOf("q", ["One", "two"]));
  assert.deepEqual(page.shown(), first);
  page.slots.splice(0, 2, ...slotsOf("Juno"));
  page.answers.heed();
  assert.equal(page.shown().chart, first.chart, "it was asked in this visit");
  page.exchanges.length = 0;
  page.answers.changed();
  assert.deepEqual(page.shown(), none);
});

test("an answer that ends before its first round leaves the chart and the cards as they were", async () => {
  const failing = turnOf("again", [], false);
  const unread = { ...failing, events: [] };
  const page = beside([kept(turnOf("q", ["One", "two"]))], slotsOf("Ada", "Quill"));
  page.answers.changed();
  for (const turn of [failing, unread, turnOf("stopped", [])]) {
    await answer(page, turn);
    assert.deepEqual(page.shown(), first, turn.question);
  }
  // The first of a conversation, in place of one that was taken out.
  page.exchanges.length = 0;
  page.answers.changed();
  await answer(page, failing);
  assert.deepEqual(page.shown(), none);
});

test("chart and cards agree while a question is read beside votes that stay", async () => {
  const earlier = kept(turnOf("q", ["One", "two"]));
  const page = beside([earlier], slotsOf("Ada", "Quill"));
  page.answers.changed();
  const seen = new Map<string, unknown>();
  const note = (type: string): void => void seen.set(type, page.shown());
  // It goes on.
  await answer(page, turnOf("q", ["three"]), note, earlier);
  const three = { chart: "Ada,Quill: One|two|three", cards: "Ada,Quill: One|two|three" };
  assert.deepEqual(seen.get("begin"), first);
  assert.deepEqual(seen.get("round"), first, "after it has begun");
  assert.deepEqual(page.shown(), three);
  // A round of it is opened while another question is read.
  await answer(page, turnOf("other", ["four"]), (type) => {
    if (type === "begin") {
      earlier.inspect(2);
      page.answers.chartOf(earlier);
    }
    note(type);
  });
  assert.deepEqual(seen.get("round"), three, "its open round stays");
  assert.deepEqual(page.shown(), three);
});

test("cards that are made anew have their votes again", async () => {
  const page = beside([], slotsOf("Ada", "Quill"));
  await answer(page, turnOf("q", ["One", "two"]));
  const heeded = (): unknown => {
    page.anew();
    page.answers.heed();
    return page.shown();
  };
  assert.equal((heeded() as typeof first).cards, undefined, "only then");
  page.slots[0]!.source = { name: "Bea" };
  assert.deepEqual(heeded(), { ...first, cards: "Bea,Quill: One|two" }, "renamed");
  page.slots.splice(1, 1);
  assert.deepEqual(heeded(), { ...first, cards: "Bea,: One|two" }, "removed");
  page.slots.push(...slotsOf("Quill"));
  assert.deepEqual(heeded(), { ...first, cards: "Bea,Quill: One|two" }, "added again");
});

test("the mark stands from the question to the end of the answer", async () => {
  const page = beside([], slotsOf("Ada", "Quill"));
  let atEnd: (Phase | undefined)[] = [];
  await answer(page, turnOf("q", ["One", "two"]), (type) => {
    if (type === "end") atEnd = [...page.phases];
  });
  assert.deepEqual(atEnd, ["read", "round", "later", "later"]);
  assert.equal(page.phases.at(-1), undefined);
});
