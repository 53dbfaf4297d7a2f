/** Links with an ensemble: a copy in this browser is of no use to who opens one. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readFragment } from "../kept/link.ts";
import { copyReference } from "../store/copy-reference.ts";
import type { Roster } from "./roster.ts";
import { linkTo } from "./shared-link.ts";

test("a link names members that can be fetched, none that only this browser has", async () => {
  Object.assign(globalThis, { location: { href: "https://host.example/page/" } });
  const fetched = { name: "Ada", ref: "hf:owner/model/ada.gguf" };
  const copied = { name: "Bo", ref: await copyReference([new File(["model"], "bo.gguf")]) };
  const linked = (...sources: { name: string; ref: string }[]) => {
    const slots = sources.map((source) => ({ source }));
    const link = linkTo("Why?", { title: "Both", slots } as unknown as Roster)!;
    return { models: link.models, read: readFragment(new URL(link.href).hash) };
  };
  assert.deepEqual(linked(fetched), {
    models: true,
    read: { question: "Why?", ensemble: { title: "Both", members: [fetched] } },
  });
  assert.deepEqual(linked(fetched, copied), {
    models: false,
    read: { question: "Why?", ensemble: undefined },
  });
});
