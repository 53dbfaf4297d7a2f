/**
 * Takes the moving picture for the README: the page's recorded answer, its first rounds and then
 * the whole, as an animated PNG (PNG, third edition, 2025, “Animation information”).
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { crc32 } from "node:zlib";
import { Site } from "./site.ts";
import { launch, Visitor } from "./visitor.ts";

const [out = "moving.png"] = process.argv.slice(2);
/** Milliseconds: between two looks at the page, of the rounds that are shown, of the last frame. */
const step = 380;
const shown = 3 * 3_690;
const still = 5_000;

interface Frame {
  png: Buffer;
  ms: number;
}

const site = new Site(`${process.env["CONCLAVE_WEB"] ?? "./"}dist/`);
await site.open();
const browser = await launch("none");
const visitor = await Visitor.arrive(browser, site, {
  viewport: { width: 760, height: 1400 },
  colorScheme: "light",
});
const { page } = visitor;
const region = page.getByRole("region", { name: "A recorded answer" });
await region.getByRole("button", { name: "Skip" }).click();
await page.clock.install();
await page.clock.pauseAt(Date.now() + 60_000);
await region.getByRole("button", { name: "Play again" }).click();
await page.mouse.move(0, 0);
const box = (await region.boundingBox())!;
const clip = {
  x: Math.floor(box.x),
  y: Math.floor(box.y),
  width: Math.ceil(box.width) + 1,
  height: Math.ceil(box.height) + 1,
};
const frames: Frame[] = [];
const look = async (ms: number): Promise<void> => {
  const png = await page.screenshot({ clip, animations: "disabled" });
  const last = frames.at(-1);
  if (last && png.equals(last.png)) last.ms += ms;
  else frames.push({ png, ms });
};
for (let ms = 0; ms < shown; ms += step) {
  await look(step);
  await page.clock.runFor(step);
}
await region.getByRole("button", { name: "Skip" }).click();
await page.mouse.move(0, 0);
await look(still);
mkdirSync(dirname(out), { recursive: true });
writeFileSync(out, animated(frames));
console.log(`${frames.length} frames`);
visitor.clean();
await browser.close();
site.close();

/** One PNG of frames of one size and kind, shown again and again. */
function animated(frames: readonly Frame[]): Buffer {
  const [signature, kinds] = [frames[0]!.png.subarray(0, 8), frames.map(({ png }) => header(png))];
  const [kind] = kinds;
  if (!kind || kinds.some((other) => !other.equals(kind)))
    throw new Error("the browser's pictures are of two kinds");
  const parts = [chunk("IHDR", kind), chunk("acTL", numbers(frames.length, 0))];
  let sequence = 0;
  for (const [index, { png, ms }] of frames.entries()) {
    // As large as the picture, at its corner; a fraction of a second; instead of the one before.
    const delay = Buffer.from([ms >> 8, ms & 255, 1000 >> 8, 1000 & 255, 0, 0]);
    parts.push(chunk("fcTL", numbers(sequence++), kind.subarray(0, 8), numbers(0, 0), delay));
    for (const [name, bytes] of chunks(png))
      if (name === "IDAT")
        parts.push(index === 0 ? chunk(name, bytes) : chunk("fdAT", numbers(sequence++), bytes));
  }
  return Buffer.concat([signature, ...parts, chunk("IEND")]);
}

function header(png: Buffer): Buffer {
  return chunks(png)[0]![1];
}

/** The chunks of a PNG: names and data. */
function chunks(png: Buffer): [name: string, data: Buffer][] {
  const found: [string, Buffer][] = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    found.push([png.toString("latin1", at + 4, at + 8), png.subarray(at + 8, at + 8 + length)]);
    at += 12 + length;
  }
  return found;
}

function chunk(name: string, ...data: Buffer[]): Buffer {
  const body = Buffer.concat([Buffer.from(name, "latin1"), ...data]);
  return Buffer.concat([numbers(body.length - 4), body, numbers(crc32(body))]);
}

/** Words of 32 bits, the highest byte first. */
function numbers(...words: number[]): Buffer {
  const bytes = Buffer.alloc(4 * words.length);
  words.forEach((word, index) => bytes.writeUInt32BE(word, 4 * index));
  return bytes;
}
