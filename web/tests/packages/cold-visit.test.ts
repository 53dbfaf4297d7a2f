/**
 * Cost of a first visit with a slow server: the number of requests, and how many wait for another.
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
/** Maximum number of consecutive requests. */
const most = 4;

interface Asked {
  path: string;
  from: number;
  to: number;
}

/** The longest chain of requests, each sent after the one before was answered. */
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
 * One visit with empty caches: requests with their times in ms, and the beginning of the answer.
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
      // A request that depends on it can't be sent earlier.
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
    // On a busy machine independent requests may look consecutive, but never fewer than the
    // dependent ones: takes the shortest of some visits, or of more if none is short `enough`.
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
        `${keeping}: ${asked.length} requests, ${serial.length} hops (${serial.join(" → ")}), ` +
          `${Math.round(took)} ms at ${delay} ms a request`,
      );
      for (const { path, from, to } of asked)
        context.diagnostic(`  ${Math.round(from)} to ${Math.round(to)} ms ${path}`);
      return { requests: asked.length, serial: serial.length };
    };
    // Cache headers of GitHub Pages, and of a host that forbids unvalidated caching.
    const kept = await shortestOf("max-age=600", most);
    const checked = await shortestOf("max-age=0, must-revalidate");
    assert.ok(kept.requests <= 12 && kept.serial <= most, JSON.stringify(kept));
    assert.ok(checked.requests <= 12, JSON.stringify(checked));
  },
);
