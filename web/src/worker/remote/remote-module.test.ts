/**
 * Members behind servers in the rounds, with a scripted module. The module itself is tested against
 * servers in tests/remote.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Download } from "../../protocol/errors.ts";
import type { Script } from "../../testing/scripted.ts";
import { collect, hello, open } from "../../testing/staged.ts";

const near: Script = { drafts: [{ text: " near", ended: false }], taste: () => 1 };
const far: Script = { drafts: [{ text: " far", ended: false }], taste: () => 1 };
const server = { remote: "https://host/v1", judge: true };
const fetched = (journal: string[]): number =>
  journal.filter((entry) => entry === "fetch remote.wasm").length;

test("the module is fetched once, for the first member that needs it", async () => {
  const { conclave, journal } = await open({ Near: near });
  assert.equal(fetched(journal), 0);
  await conclave.add({ name: "One", ...server });
  await conclave.add({ name: "Two", ...server });
  assert.equal(fetched(journal), 1);
  await conclave.remove("One");
  assert.ok(journal.includes("One freed") && !journal.includes("Two freed"));
  conclave.close();
});

test("a module that can't be fetched is fetched anew for the next member", async () => {
  let fails = 1;
  const fetching = async (): Promise<void> => {
    if (fails-- > 0) throw new Download("The line broke. Reload.");
  };
  const { conclave, journal } = await open({ Near: near }, undefined, { fetching });
  await assert.rejects(conclave.add({ name: "Far", ...server }), { name: "Download" });
  await conclave.add({ name: "Far", ...server });
  assert.equal(fetched(journal), 2);
  conclave.close();
});

test("its row counts, and it keeps what the others keep", async () => {
  const { conclave, journal } = await open({ Near: near, Far: far });
  await conclave.add({ name: "Judge", ...server });
  const events = await collect(conclave.ask(hello, { settings: { maxRounds: 1 } }));
  const round = events.find((event) => event.type === "round");
  assert.deepEqual(
    round?.scores[2]?.map(({ preference }) => preference),
    [1, 0.5],
  );
  assert.deepEqual([round?.remote, round?.abstained], [[2], []]);
  assert.ok(journal.indexOf("Judge begin") < journal.indexOf(`Judge keep ${round!.winner}`));
  conclave.close();
});

test("a trap of the module costs its member the answer, and not the engine", async () => {
  const { conclave, journal } = await open({ Near: near, Far: far });
  await conclave.add({ name: "Broken", ...server });
  const events = await collect(conclave.ask(hello, { settings: { maxRounds: 1 } }));
  const left = events.find((event) => event.type === "left");
  assert.deepEqual([left?.member, left?.error.kind], ["Broken", "Remote"]);
  assert.match(left!.error.message, /broke down/);
  assert.ok(!journal.includes("terminate"));
  conclave.close();
});

test("an address in the clear is refused before the server is asked", async () => {
  const { conclave, journal } = await open({ Near: near });
  const add = (source: object): Promise<unknown> => conclave.add({ name: "Far", ...source });
  await assert.rejects(add({ remote: "http://example.org/v1" }), { name: "Reference" });
  assert.ok(!journal.includes("Far connected"), journal.join("\n"));
  conclave.close();
});
