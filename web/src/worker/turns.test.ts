import assert from "node:assert/strict";
import { test } from "node:test";
import { Turns } from "./turns.ts";

/** Tasks that record their begin and end, and end when a test lets them. */
function tasks(): {
  journal: string[];
  task: (name: string) => () => Promise<string>;
  end: (name: string) => Promise<void>;
} {
  const journal: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    journal,
    task: (name) => async () => {
      journal.push(`${name} begins`);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      journal.push(`${name} ends`);
      if (name.startsWith("bad")) throw new Error(name);
      return name;
    },
    async end(name) {
      const end = ends.get(name);
      assert.ok(end, `${name} has not begun`);
      end();
      await settled();
    },
  };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

test("tasks that run alone wait for one another, whichever fails", async () => {
  const { journal, task, end } = tasks();
  const turns = new Turns();
  const bad = turns.alone(task("bad"));
  const good = turns.alone(task("good"));
  await settled();
  assert.deepEqual(journal, ["bad begins"]);
  const failed = assert.rejects(bad, /bad/);
  await end("bad");
  await failed;
  await end("good");
  assert.equal(await good, "good");
});

test("tasks beside each other run between those asked before and behind them", async () => {
  const { journal, task, end } = tasks();
  const turns = new Turns();
  void turns.alone(task("before"));
  void turns.beside(task("one"));
  turns.beside(task("bad two")).catch(() => undefined);
  void turns.alone(task("behind"));
  void turns.beside(task("last"));
  await settled();
  await end("before");
  assert.deepEqual(journal.splice(0), [
    "before begins",
    "before ends",
    "one begins",
    "bad two begins",
  ]);
  await end("bad two");
  assert.deepEqual(journal.splice(0), ["bad two ends"], "one still runs");
  await end("one");
  await end("behind");
  assert.deepEqual(journal.splice(0), ["one ends", "behind begins", "behind ends", "last begins"]);
});

test("one more joins those that run", async () => {
  const { journal, task, end } = tasks();
  const turns = new Turns();
  void turns.beside(task("one"));
  await settled();
  void turns.beside(task("two"));
  await settled();
  assert.deepEqual(journal, ["one begins", "two begins"]);
  await end("two");
  await end("one");
});
