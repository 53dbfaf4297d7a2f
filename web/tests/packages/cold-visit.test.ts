/**
 * What a first visit costs where every answer of the server takes a while: how many requests, and
 * how many of them wait for another.
 */
import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Browser } from "playwright-core";
import { launch } from "../browser/visitor.ts";
import { open } from "./asking.ts";
import { policy, serveFolder } from "./folder-server.ts";
import { limit, Project } from "./project.ts";

let browser: Browser;
before(async () => {
  browser = await launch("none");
});
after(() => browser.close());

const page = `<!doctype html>
<title>Cold</title>
<link rel="icon" href="data:,">
<script type="module">
  import { Conclave } from "./node_modules/conclave/conclave.js";

  const conclave = await Conclave.load();
  for await (const event of conclave.ask([{ role: "user", content: "What is 347 + 586?" }])) {
    if (event.type === "begin") document.body.dataset.state = "begun";
  }
</script>
<body></body>`;

const delay = 100;
/** How many requests may wait for one another. */
const most = 4;

interface Asked {
  path: string;
  from: number;
  to: number;
}

/** The longest chain of requests of which each came after the one before was answered. */
function hops(asked: Asked[]): string[] {
  const chains = new Map<Asked, string[]>();
  for (const one of [...asked].sort((a, b) => a.from - b.from)) {
    const before = [...chains].filter(([{ to }]) => to <= one.from).map(([, chain]) => chain);
    const longest = before.reduce(
      (longest, chain) => (chain.length > longest.length ? chain : longest),
      [],
    );
    chains.set(one, [...longest, one.path]);
  }
  return [...chains.values()].reduce(
    (longest, chain) => (chain.length > longest.length ? chain : longest),
    [],
  );
}

/**
 * Of one visit in a browser that has nothing yet: requests and when they were under way, in ms, and
 * when the answer began.
 */
async function visit(
  context: TestContext,
  folder: string,
  keeping: string,
): Promise<{ asked: Asked[]; took: number }> {
  const asked: Asked[] = [];
  const began = performance.now();
  const address = await serveFolder(context, folder, {
    headers: { ...policy(), "cache-control": keeping },
    before: async ({ url: path = "" }) => {
      const one = {
        path: path.replace("/node_modules/conclave", ""),
        from: performance.now() - began,
        to: Number.POSITIVE_INFINITY,
      };
      asked.push(one);
      await sleep(delay);
      // Nothing that depends on it can be asked for earlier.
      one.to = performance.now() - began;
    },
  });
  const visitor = await open(context, browser, address);
  await visitor.page.locator('body[data-state="begun"]').waitFor({ state: "attached" });
  const took = performance.now() - began;
  visitor.clean();
  return { asked, took };
}

test(
  "the first answer begins after at most 12 requests, of which at most 4 wait for one another",
  limit,
  async (context) => {
    const project = await Project.empty(context);
    await project.write("index.html", page);
    // On a busy machine requests may come one after another that need not, and no visit has fewer
    // than it has to: the shortest of some visits counts, or of some more where none is short
    // `enough`.
    const shortestOf = async (
      keeping: string,
      enough = Number.POSITIVE_INFINITY,
    ): Promise<{ requests: number; serial: number }> => {
      const visits: { asked: Asked[]; took: number; serial: string[] }[] = [];
      for (
        let count = 0;
        count < 3 || (count < 10 && visits.every(({ serial }) => serial.length > enough));
        count += 1
      ) {
        const { asked, took } = await visit(context, project.folder, keeping);
        visits.push({ asked, took, serial: hops(asked) });
      }
      const [best] = visits.sort((a, b) => a.serial.length - b.serial.length || a.took - b.took);
      const { asked, took, serial } = best!;
      context.diagnostic(
        `${keeping}: ${asked.length} requests, ${serial.length} hops (${serial.join(" → ")}), ${Math.round(took)} ms at ${delay} ms a request`,
      );
      for (const { path, from, to } of asked)
        context.diagnostic(`  ${Math.round(from)} to ${Math.round(to)} ms ${path}`);
      return { requests: asked.length, serial: serial.length };
    };
    // As GitHub Pages has it, and as a host has it that lets browsers keep nothing unasked.
    const kept = await shortestOf("max-age=600", most);
    const checked = await shortestOf("max-age=0, must-revalidate");
    assert.ok(kept.requests <= 12 && kept.serial <= most, JSON.stringify(kept));
    assert.ok(checked.requests <= 12, JSON.stringify(checked));
  },
);
