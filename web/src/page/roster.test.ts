/** The places on the page, in a small document, over scripted members. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";
import { file, stage, talker } from "../testing/staged.ts";
import { Conclave } from "../library/conclave.ts";
import { MembersPanel } from "./members-panel.ts";
import { Roster } from "./roster.ts";

const { window, document } = parseHTML("<!doctype html><html><body><ul></ul></body></html>");
Object.assign(globalThis, { window, document, HTMLElement: window.HTMLElement });
const ignored = (): void => undefined;

test("of two choices in quick succession the last one holds, in the panel and in the engine", async () => {
  const names = ["Ada", "Bo", "Cy", "Dee", "Eve"];
  let built = (): void => {};
  const { port, members } = stage(Object.fromEntries(names.map((name) => [name, talker])), 1, { building: new Promise((resolve) => (built = resolve)) });
  const conclave = await Conclave.open({ backend: "cpu" }, port);
  const host = document.querySelector("ul")!;
  const events = { onRetry: ignored, onStop: ignored, onRemove: ignored, onTakesPart: ignored, onStored: ignored, onNews: ignored };
  const shares: number[] = [];
  const roster = new Roster(new MembersPanel(host as HTMLElement, events), { onChanging: ignored, onChange: ignored, onShare: (share) => shares.push(share), onFatal: assert.fail }, 512);
  const seats = (...names: string[]) => names.map((name) => ({ source: { name, files: [file] } }));
  void roster.replaceAll("Both", seats("Ada", "Bo"));
  await roster.attach(conclave);
  // While the first are still being loaded.
  const first = roster.replaceAll("First", seats("Cy", "Dee"));
  const second = roster.replaceAll("Second", seats("Eve"));
  setTimeout(built, 5);
  await Promise.all([first, second]);
  assert.deepEqual([roster.title, roster.slots.map(({ source, state }) => [source.name, state])], ["Second", [["Eve", "ready"]]]);
  assert.deepEqual(
    [...host.querySelectorAll(".name")].map(({ textContent }) => textContent),
    ["Eve"],
  );
  assert.deepEqual(
    conclave.members.map(({ name }) => name),
    ["Eve"],
  );
  assert.ok(!members.has("Cy") && !members.has("Dee"));
  assert.ok(shares.length > 0 && shares.every((share) => share >= 0 && share < 1), shares.join(", "));
  conclave.close();
});
