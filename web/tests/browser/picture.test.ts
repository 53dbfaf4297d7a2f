/**
 * The picture of an answer has the layout of the page: faces, places, directions, lists, tables.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { stage } from "./stage.ts";
import { withWriter, writing } from "./with-writer.ts";

const stand = stage("none");
const writer = writing();

/** Text that was drawn, with its left edge, right edge and baseline in CSS pixels. */
interface Drawn {
  text: string;
  font: string;
  direction: string;
  left: number;
  right: number;
  y: number;
}

/** Text that is drawn for the picture, in order. */
async function drawnBy(page: Page): Promise<Drawn[]> {
  await page.evaluate(() => {
    const drawn: Drawn[] = [];
    Object.assign(globalThis, { drawn });
    const own = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      const { font, direction, textAlign } = this;
      const matrix = this.getTransform();
      const left = (matrix.a * x + matrix.e) / matrix.a;
      const right = left + this.measureText(text).width;
      if (textAlign !== "left") throw new Error(textAlign);
      drawn.push({ text, font, direction, left, right, y: (matrix.d * y + matrix.f) / matrix.d });
      own.call(this, text, x, y);
    };
  });
  await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as picture" }).press("Enter"),
  ]);
  return page.evaluate(() => (globalThis as unknown as { drawn: Drawn[] }).drawn);
}

const near = (a: number, b: number): boolean => Math.abs(a - b) < 1.5;

test("a picture keeps headings, emphasis, numbers, columns and code", async () => {
  const answer = [
    "## Two eggs",
    "",
    "Take **two** *fresh* eggs.",
    "",
    "3. Beat them.",
    "4. Fry them.",
    "   - gently",
    "",
    "| what | grams |",
    "|:-----|------:|",
    "| eggs | 120 |",
    "| butter | 9 |",
    "",
    "```python",
    "def fry(eggs):",
    "    if eggs:",
    "        return eggs * 2",
    "```",
  ].join("\n");
  // The picture is as wide on a phone.
  const visitor = await withWriter(stand, writer, answer, {
    viewport: { width: 360, height: 740 },
  });
  const { page } = visitor;
  await visitor.answer("How do I fry two eggs?");
  // Also while the question is edited.
  await page.getByRole("button", { name: "Edit the question and ask again" }).click();
  const drawn = await drawnBy(page);
  const of = (text: string): Drawn =>
    drawn.find((each) => each.text.trim() === text) ??
    assert.fail(`${text} is not among ${JSON.stringify(drawn.map((each) => each.text))}`);
  const size = ({ font }: Drawn): number => Number(/([\d.]+)px/.exec(font)?.[1]);
  const weight = ({ font }: Drawn): number => Number(/\b(\d{3})\b/.exec(font)?.[1] ?? 400);

  const [question, heading, plain] = [of("How do I fry two eggs?"), of("Two eggs"), of("Take")];
  assert.ok(question.y < heading.y && heading.y < plain.y);
  assert.match(question.font, /system-ui/);
  assert.match(heading.font, /Newsreader/);
  assert.ok(size(heading) > size(plain) && weight(heading) === 600 && weight(plain) === 400);
  assert.ok(weight(of("two")) > 600 && near(of("two").y, plain.y));
  assert.match(of("fresh").font, /^italic/);
  assert.doesNotMatch(plain.font, /italic/);

  for (const [mark, item] of [
    ["3.", "Beat them."],
    ["4.", "Fry them."],
    ["•", "gently"],
  ] as const) {
    assert.ok(near(of(mark).y, of(item).y), mark);
    assert.ok(of(mark).right < of(item).left && of(mark).left > 40, mark);
  }
  assert.ok(of("gently").left > of("Fry them.").left + 10);

  const [what, grams, eggs, butter] = [of("what"), of("grams"), of("eggs"), of("butter")];
  const [many, few] = [of("120"), of("9")];
  assert.ok(near(what.left, eggs.left) && near(eggs.left, butter.left));
  assert.ok(near(grams.right, many.right) && near(many.right, few.right));
  assert.ok(near(what.y, grams.y) && near(eggs.y, many.y) && near(butter.y, few.y));
  assert.ok(butter.right + 8 < few.left && eggs.y < butter.y);
  assert.equal(weight(what), 600);

  const code = ["def", "if", "return"].map(of);
  for (const each of code) assert.match(each.font, /monospace/);
  // Each level is indented by four characters of one width.
  const wide = (code[0]!.right - code[0]!.left) / 3;
  assert.ok(near(code[1]!.left - code[0]!.left, 4 * wide), `${wide}`);
  assert.ok(near(code[2]!.left - code[0]!.left, 8 * wide));
  assert.ok(code[0]!.y < code[1]!.y && code[1]!.y < code[2]!.y);
  assert.ok(!drawn.some(({ text }) => text === "Copy"), "no controls");
  assert.ok(drawn.every(({ left, right }) => left >= 39 && right <= 682));
  assert.ok(of("Conclave: several small models, one answer").y > code[2]!.y);
  assert.equal(await page.locator(".answer").count(), 1, "the copy is gone");
  await visitor.leaveClean();
});

test("a picture has formulas as they are read: letters in italics, bars, roots", async () => {
  const answer = [
    "Solve $ax = h$:",
    "",
    "\\[",
    "y = \\frac{k + 1}{\\sqrt{7}}",
    "\\]",
    "",
    "and $\\nonsense{x}$ is none.",
  ];
  const visitor = await withWriter(stand, writer, answer.join("\n"));
  const { page } = visitor;
  await visitor.answer("Solve it!");
  await page.locator(".answer math").nth(1).waitFor();
  // Level strokes: from, to, and their height.
  await page.evaluate(() => {
    const level: { left: number; right: number; y: number }[] = [];
    Object.assign(globalThis, { level });
    const { moveTo, lineTo } = CanvasRenderingContext2D.prototype;
    let [atX, atY] = [0, 0];
    const placed = (context: CanvasRenderingContext2D, x: number, y: number): [number, number] => {
      const { a, d, e, f } = context.getTransform();
      return [(a * x + e) / a, (d * y + f) / d];
    };
    CanvasRenderingContext2D.prototype.moveTo = function (x, y) {
      [atX, atY] = placed(this, x, y);
      moveTo.call(this, x, y);
    };
    CanvasRenderingContext2D.prototype.lineTo = function (x, y) {
      const [left, top] = [atX, atY];
      [atX, atY] = placed(this, x, y);
      if (Math.abs(atY - top) < 0.01) level.push({ left, right: atX, y: atY });
      lineTo.call(this, x, y);
    };
  });
  const drawn = await drawnBy(page);
  const lines = await page.evaluate(
    () => (globalThis as unknown as { level: { left: number; right: number; y: number }[] }).level,
  );
  const all = drawn.map(({ text }) => text).join("");
  const of = (text: string): Drawn =>
    drawn.find((each) => each.text.trim() === text) ?? assert.fail(`${text} is not in ${all}`);
  for (const text of ["𝑎", "𝑥", "ℎ", "𝑦", "𝑘"]) of(text);
  assert.ok(!all.includes("\\frac") && !all.includes("$a"), all);
  assert.ok(all.includes("$\\nonsense{x}$"), "what is no formula is its source");
  const [above, below] = [of("𝑘"), of("7")];
  const covers = ({ left, right }: { left: number; right: number }): boolean =>
    left < below.left && right > below.right - 1 && right - left < 200;
  const [bar, roof] = lines.filter(covers).sort((a, b) => a.y - b.y);
  assert.ok(bar && roof, JSON.stringify(lines));
  assert.ok(above.y < bar.y && bar.y <= roof.y && roof.y < below.y, JSON.stringify([bar, roof]));
  assert.ok(of("𝑦").y > above.y && of("𝑦").y < below.y);
  await visitor.leaveClean();
});

test("a right-to-left question and answer are so in the picture and on the page", async () => {
  const answer = ["القهوة مشروب دافئ من cheese 3.5 kg.", "", "1. البند الأول", "2. البند الثاني"];
  answer.push("", "| الاسم | السعر |", "|---|---|", "| شاي | 7 |", "", "```", "a = b", "```");
  const visitor = await withWriter(stand, writer, answer.join("\n"));
  const { page } = visitor;
  const question = "اكتب عن القهوة من فضلك؟";
  await visitor.answer(question);
  const drawn = await drawnBy(page);
  const of = (text: string): Drawn => {
    const trimmed = (each: Drawn): string => each.text.trim();
    const exact = drawn.filter((each) => trimmed(each) === text);
    // A paragraph may have several writers and lines.
    const parts = exact.length > 0 ? exact : drawn.filter((each) => text.includes(trimmed(each)));
    assert.ok(parts.length > 0, `${text} is not among ${drawn.map((each) => each.text).join("|")}`);
    const [first] = parts as [Drawn];
    const right = Math.max(...parts.map((part) => part.right));
    return { ...first, left: Math.min(...parts.map((part) => part.left)), right };
  };
  for (const text of [question, answer[0]!]) {
    assert.equal(of(text).direction, "rtl");
    assert.ok(near(of(text).right, 680), `${text} ${of(text).right}`);
  }
  assert.ok(
    drawn.some(({ text }) => text.trim() === question),
    "a line is drawn as one",
  );
  assert.ok(near(of("البند الأول").right, of("البند الثاني").right));
  assert.ok(of("1.").left > of("البند الأول").right, "the number is on the right");
  assert.ok(of("7").right < of("شاي").left, "the first column is on the right");
  assert.equal(of("a = b").direction, "ltr");
  assert.ok(of("a = b").left < 80);

  const right = (selector: string): Promise<number> =>
    page.locator(selector).evaluate((element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getBoundingClientRect().right;
    });
  assert.ok(near(await right(".exchange .question"), await right(".answer > p")));
  assert.ok(
    (await right(".question-line .edit")) <
      (await page.locator(".exchange .question").boundingBox())!.x,
  );
  await page.getByRole("button", { name: "Edit the question and ask again" }).click();
  assert.equal(
    await page
      .locator(".question-form textarea")
      .evaluate((box) => getComputedStyle(box).direction),
    "rtl",
  );
  await visitor.leaveClean();
});
