/**
 * Measured kernel choices: kept in the browser's private files, used at the next visit, measured
 * again with other kernels or invalid data. The adapter is a software one under another name, so
 * that it is measured like a graphics card.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { EngineModule } from "../../src/protocol/engine.ts";
import { putBeforeWorker } from "../browser/before-worker.ts";
import { stage } from "../browser/stage.ts";
import type { Visitor } from "../browser/visitor.ts";
import type { Watched } from "../browser/watched-worker.ts";

const stand = stage("swiftshader", [], 3_600_000);
const patience = 400_000;

/** As written by remembered-choices.ts. */
interface Kept {
  of: string;
  normInside: boolean;
  asATile?: number;
}

interface Visit extends Watched {
  text: string;
  /** Content of the file afterwards. */
  kept: string;
}

before(async () => {
  await putBeforeWorker(stand.site, "watched-worker.ts", { vendor: "acme" });
  stand.site.overrides.set(
    "bare.html",
    '<!doctype html><title>Bare</title><link rel="icon" href="./mark.svg"><body>',
  );
});

/** A visit that loads one member and asks it; `found` is stored as the choices when it begins. */
async function visit({ page }: Visitor, found?: string): Promise<Visit> {
  if (found !== undefined) {
    await page.evaluate(async (found) => {
      const root = await navigator.storage.getDirectory();
      const folder = await (
        await root.getDirectoryHandle("conclave-choices", { create: true })
      ).getDirectoryHandle("measured", { create: true });
      const stream = await (
        await folder.getFileHandle("choices.json", { create: true })
      ).createWritable();
      await stream.write(found);
      await stream.close();
    }, found);
  }
  await page.evaluate(async () => {
    const { Conclave } = (await import(
      new URL("./library/conclave.js", document.baseURI).href
    )) as typeof import("../../src/library/conclave.ts");
    const members = [{ name: "Ada", url: new URL("./members/ada.gguf", document.baseURI).href }];
    const conclave = await Conclave.load({ backend: "webgpu", members });
    let text = "";
    const asked = conclave.ask([{ role: "user", content: "What is 3 + 4?" }], {
      sampling: { temperature: 0 },
      settings: { maxRounds: 1, segmentTokens: 3 },
    });
    for await (const event of asked) if (event.type === "end") text = event.text;
    Object.assign(window, { conclave, text });
  });
  const watched = await page
    .workers()[0]!
    .evaluate(() => (globalThis as unknown as { watched: Watched }).watched);
  const { text, kept } = await page.evaluate(async () => {
    const { conclave, text } = window as unknown as { conclave: { close(): void }; text: string };
    conclave.close();
    const root = await navigator.storage.getDirectory();
    const folder = await (await root.getDirectoryHandle("conclave-choices")).getDirectoryHandle(
      "measured",
    );
    const file = await (await folder.getFileHandle("choices.json")).getFile();
    return { text, kept: await file.text() };
  });
  return { ...watched, text, kept };
}

const kernelsVersion = ({ page }: Visitor): Promise<string> =>
  page.evaluate(async () => {
    const address = new URL("./pkg/conclave.js", document.baseURI);
    const module = (await import(address.href)) as Omit<EngineModule, "default"> & {
      default(input: { module_or_path: URL }): Promise<unknown>;
    };
    await module.default({ module_or_path: new URL("./conclave_bg.wasm", address) });
    return module.kernelsVersion();
  });

/**
 * A product that includes its norm: launched by default and measured; never launched if another was
 * chosen.
 */
const normInside = "product_vector_norm_q8_0";
const tile = "product_tile_q8_0";

const arrive = (): Promise<Visitor> => stand.arrive({ search: "bare.html", loaded: false });

function assertMeasured({ launched, kept }: Visit, of: string): void {
  assert.ok((launched[normInside] ?? 0) > 0, "nothing was taken for granted");
  const { asATile = 0, ...choices } = JSON.parse(kept) as Kept;
  assert.deepEqual(choices, { of, normInside: Boolean(choices.normInside) });
  assert.ok(asATile >= 16 && asATile <= 32, `${asATile} rows`);
}

test("what is measured is kept, and decides at the next visit which kernels are launched", {
  timeout: patience,
}, async () => {
  const visitor = await arrive();
  const of = `acme ${await kernelsVersion(visitor)}`;
  const first = await visit(visitor);
  assertMeasured(first, of);
  assert.notEqual(first.text, "");

  const again = await visit(visitor);
  assert.equal(again.kept, first.kept);
  assert.equal(again.text, first.text);

  // Choices that differ from this adapter's are launched as stored.
  const tiles: number[] = [];
  for (const asATile of [2, 32]) {
    const kept = JSON.stringify({ of, normInside: false, asATile } satisfies Kept);
    const other = await visit(visitor, kept);
    assert.equal(other.launched[normInside], undefined);
    assert.equal(other.kept, kept, "nothing was measured");
    assert.equal(other.text, first.text);
    tiles.push(other.launched[tile] ?? 0);
  }
  assert.ok(
    tiles[0]! > tiles[1]!,
    `as a tile from 2 rows on ${tiles[0]} times, from 32 on ${tiles[1]}`,
  );
  await visitor.leaveClean();
});

test("choices of other kernels or another adapter, or none, are measured anew, without harm", {
  timeout: patience,
}, async () => {
  const visitor = await arrive();
  const of = `acme ${await kernelsVersion(visitor)}`;
  const choice: Kept = { of, normInside: false, asATile: 2 };
  const others = [
    JSON.stringify({ ...choice, of: "acme 0123456789abcdef" }),
    JSON.stringify({ ...choice, of: of.replace("acme", "other") }),
    JSON.stringify({ ...choice, asATile: 1e9 }),
    "{",
  ];
  const texts = new Set<string>();
  for (const found of others) {
    const measured = await visit(visitor, found);
    assertMeasured(measured, of);
    texts.add(measured.text);
  }
  assert.equal(texts.size, 1);
  assert.ok(!texts.has(""));
  await visitor.leaveClean();
});
