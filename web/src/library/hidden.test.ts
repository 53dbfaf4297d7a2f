/** Answers wait while the page is hidden on a phone, and continue elsewhere. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { endless, open } from "../testing/staged.ts";
import type { ConclaveEvent } from "./conclave.ts";

/** A stand-in for the document, which a test can hide. */
class Sight extends EventTarget {
  hidden = false;
  baseURI = "https://host/page";

  show(shown: boolean): void {
    this.hidden = !shown;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}

function onDevice(context: TestContext, handheld: boolean): Sight {
  const sight = new Sight();
  const globals = { document: sight, matchMedia: () => ({ matches: handheld }) };
  Object.assign(globalThis, globals);
  context.after(() =>
    Object.keys(globals).forEach((name) => delete (globalThis as Record<string, unknown>)[name]),
  );
  return sight;
}

const settle = async (): Promise<void> => {
  for (let count = 0; count < 100; count++) await setImmediate();
};

/**
 * Asks for six rounds and hides the page after the second; returns the rounds so far and a function
 * that ends the question.
 */
async function asked(
  sight: Sight,
  signal?: AbortSignal,
): Promise<{ events: ConclaveEvent[]; over: Promise<void> }> {
  const { conclave } = await open({ Ada: endless, Bo: endless });
  const events: ConclaveEvent[] = [];
  const over = (async () => {
    for await (const event of conclave.ask([{ role: "user", content: "hello" }], {
      settings: { maxRounds: 6 },
      ...(signal && { signal }),
    })) {
      events.push(event);
      if (event.type === "round" && event.round === 2) sight.show(false);
    }
  })();
  await settle();
  return { events, over };
}

const rounds = (events: ConclaveEvent[]): number =>
  events.filter(({ type }) => type === "round").length;

test("on a phone the rounds wait until the page is seen again", async (context) => {
  const sight = onDevice(context, true);
  const { events, over } = await asked(sight);
  const waiting = rounds(events);
  assert.ok(waiting >= 2 && waiting < 6, `${waiting} rounds`);
  await settle();
  assert.equal(rounds(events), waiting, "nothing is computed out of sight");
  sight.show(true);
  await over;
  assert.deepEqual([rounds(events), events.at(-1)?.type], [6, "end"]);
});

test("a stop ends an answer that waits, and elsewhere nothing waits", async (context) => {
  const controller = new AbortController();
  const { events, over } = await asked(onDevice(context, true), controller.signal);
  controller.abort();
  await over;
  const end = events.at(-1);
  assert.ok(end?.type === "end" && end.stop === "stopped");

  const elsewhere = await asked(onDevice(context, false));
  await elsewhere.over;
  assert.equal(rounds(elsewhere.events), 6);
});
