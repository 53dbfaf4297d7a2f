/** Formulas in answers: drawn as MathML by the browser, on the page and in the element. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";
import { withWriter, writing } from "./with-writer.ts";

const stand = stage("none");
const writer = writing();

const solved = [
  "The roots of $ax^2 + bx + c = 0$ cost nothing, neither $5 nor $6:",
  "",
  "\\[",
  "x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}",
  "- 0",
  "\\]",
  "",
  "So \\(x \\in \\mathbb{R}\\), and",
  "",
  "$$",
  "\\begin{aligned} \\sum_{k=1}^n k &= \\frac{n(n+1)}{2} \\\\ " +
    "\\begin{pmatrix} a & b \\\\ c & d \\end{pmatrix} &\\ne 0 \\end{aligned}",
  "$$",
  "",
  "but $\\nonsense{x}$ is none.",
].join("\n");

const typesetters = (): number => stand.site.asked.filter((file) => file === "typeset.js").length;

const maths = ({ page }: Visitor): Promise<string[]> =>
  page
    .locator(".answer math")
    .evaluateAll((all) => all.map((math) => math.getAttribute("display") ?? ""));

for (const [colorScheme, width] of [
  ["light", 1280],
  ["dark", 360],
] as const)
  test(`formulas are drawn and spoken, and copied as their source, ${colorScheme}`, async () => {
    const before = typesetters();
    const visitor = await withWriter(stand, writer, solved, {
      serviceWorkers: "block",
      colorScheme,
      viewport: { width, height: 800 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const { page } = visitor;
    assert.equal(typesetters(), before, "nothing is fetched before a formula");
    await visitor.answer("Solve it!");
    await page.locator(".answer math").nth(3).waitFor();
    assert.equal(typesetters(), before + 1);
    assert.equal((await maths(visitor)).filter((display) => display === "block").length, 2);
    const words = (await page.locator(".answer").innerText()).replaceAll(/\s+/g, " ");
    assert.ok(words.includes("neither $5 nor $6:"), words);
    assert.ok(words.includes("but $\\nonsense{x}$ is none."), "an error is its source");
    // Drawn: a fraction is higher than a letter, and its bar is there.
    const heights = await page
      .locator(".answer mfrac, .answer mi")
      .evaluateAll((parts) =>
        parts.map((part) => [part.localName, part.getBoundingClientRect().height]),
      );
    const least = (name: string): number =>
      Math.min(...heights.filter(([one]) => one === name).map(([, height]) => Number(height)));
    assert.ok(least("mfrac") > 1.5 * least("mi"), JSON.stringify(heights));
    // A reader of the screen meets MathML, and no source beside it.
    const spoken = await page.locator(".answer").ariaSnapshot();
    assert.match(spoken, /math/);
    assert.ok(!spoken.includes("\\frac"), spoken);
    // Each formula belongs to its writer, whose round it opens.
    assert.equal(await page.locator(".answer .formula.segment").count(), 5);

    const copied = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
    await page.locator(".answer").evaluate((answer) => getSelection()?.selectAllChildren(answer));
    await page.keyboard.press("ControlOrMeta+c");
    const selected = (await copied()).replaceAll("\u00a0", " ");
    for (const part of [
      "of $ax^2 + bx + c = 0$ cost",
      "\\(x \\in \\mathbb{R}\\), and",
      "\\frac{-b",
    ])
      assert.ok(selected.includes(part), selected);
    await page.getByRole("button", { name: "Copy the answer" }).press("Enter");
    await page.waitForFunction(
      (wanted) => navigator.clipboard.readText().then((text) => text === wanted),
      solved,
    );
    await visitor.faultless();
    await visitor.fits();
    await visitor.leaveClean();
  });

test("a round inside a formula is opened by a press on it, and by the arrows", async () => {
  const visitor = await withWriter(
    stand,
    writer,
    "It is $$ a + b + c + d + e + f + g + h + i + j + k $$ and nothing else.",
  );
  const { page } = visitor;
  await visitor.set("segmentTokens", "3");
  await visitor.answer("Write!");
  const formula = page.locator(".answer .formula.segment");
  await formula.locator("math").waitFor();
  const opened = async (): Promise<number> => {
    const head = await page.locator(".inspector h3").textContent({ timeout: 5_000 });
    return Number(/\d+/.exec(head ?? "")?.[0]);
  };
  const own = await page
    .locator(".answer .segment")
    .evaluateAll((parts) => parts.map((part) => Number((part as HTMLElement).dataset["round"])));
  const first = Number(await formula.getAttribute("data-round"));
  const after = own[own.lastIndexOf(first) + 1]!;
  assert.ok(after - first > 2, "rounds without an element of their own");
  // A press opens one after the other, and the last closes.
  for (let round = first; round < after; round++) {
    await formula.click();
    assert.equal(await opened(), round);
    assert.ok((await formula.getAttribute("data-open")) !== null);
  }
  await formula.click();
  assert.equal(await page.locator(".inspector").count(), 0);
  assert.match(
    (await formula.getAttribute("title")) ?? "",
    new RegExp(`^Round ${first}, by words; .*Round ${after - 1}, by words$`),
  );
  // Once a round is open, the arrows pass through all.
  await page.locator('.answer .segment[tabindex="0"]').focus();
  await page.keyboard.press("Enter");
  const met = [await opened()];
  for (let step = 1; step < Math.max(...own); step++) {
    await page.keyboard.press("ArrowRight");
    met.push(await opened());
  }
  assert.deepEqual(
    met,
    met.map((_, place) => place + 1),
  );
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".inspector").count(), 0);
  // While none is open, a step leads to another element.
  await page.keyboard.press("ArrowRight");
  assert.ok(await formula.evaluate((element) => element === document.activeElement));
  await page.keyboard.press("ArrowRight");
  assert.ok(await formula.evaluate((element) => element !== document.activeElement));
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  assert.ok((await opened()) >= first);
  await visitor.leaveClean();
});

test("a hostile formula does nothing, and none takes long", async () => {
  // Spaces, since the server sends a word as one token.
  const bomb =
    "\\def\\a{\\b \\b \\b \\b} \\def\\b{\\c \\c \\c \\c} " +
    "\\def\\c{\\d \\d \\d \\d} \\def\\d{x x x x} ";
  const formulas = [
    "\\href{javascript:document.title='taken'}{x}",
    "\\url{https://tracker.example}",
    "\\includegraphics{https://tracker.example/pixel.png}",
    "\\htmlStyle{position:fixed;inset:0}{x}",
    "\\class{segment}{x}",
    "\\text{<img src=x onerror=document.title='taken'>}",
    "\\color{red;background:url(https://tracker.example)}x",
    "\\rule{10000em}{10000em}",
    `${bomb}${"\\a ".repeat(19)}\\a`,
    `${"{ ".repeat(99)}${"} ".repeat(98)}}`,
    `${"\\frac{ ".repeat(70)}1${" }{2}".repeat(70)}`,
    "\\def\\x{\\x\\x}\\x",
  ];
  const visitor = await withWriter(
    stand,
    writer,
    `Formulas:\n\n${formulas.map((one) => `- $${one}$`).join("\n")}`,
  );
  const { page } = visitor;
  await page.evaluate(() => {
    const slow = ((globalThis as unknown as { slow: number[] }).slow = []) as number[];
    new PerformanceObserver((list) =>
      slow.push(...list.getEntries().map(({ duration }) => duration)),
    ).observe({ type: "longtask" });
  });
  await visitor.answer("Attack!");
  await page.locator(".answer math").first().waitFor();
  const slow = await page.evaluate(() => (globalThis as unknown as { slow: number[] }).slow);
  assert.ok(Math.max(0, ...slow) < 5000, `${slow.join(" and ")} ms`);
  const parts = await page.locator(".answer").evaluate((answer) => {
    const all = [...answer.querySelectorAll(".formula *")];
    return {
      names: [...new Set(all.map(({ localName }) => localName))],
      attributes: [...new Set(all.flatMap((part) => part.getAttributeNames()))],
      largest: Math.max(...all.map((part) => part.getBoundingClientRect().height)),
    };
  });
  for (const name of ["a", "img", "script", "svg"]) assert.ok(!parts.names.includes(name), name);
  assert.deepEqual(
    parts.attributes.filter((name) => /^(?:on|src|href|xlink|id$|data-)/.test(name)),
    [],
  );
  assert.ok(parts.largest < 2000, `${parts.largest} pixels`);
  assert.equal(await page.title(), "Conclave");
  await visitor.leaveClean();
});

test("a formula grows into place while it is written, and in an embedded element", async () => {
  const visitor = await withWriter(stand, writer, "Then $a+b$ is $c$, and \\[d\\] ends.");
  const { page } = visitor;
  await page.evaluate(() => {
    const seen = ((globalThis as unknown as { seen: Set<Element> }).seen = new Set());
    new MutationObserver(() => {
      for (const math of document.querySelectorAll(".answer math")) seen.add(math);
    }).observe(document.body, { childList: true, subtree: true });
  });
  await visitor.answer("Write!");
  await page.locator(".answer math").nth(2).waitFor();
  const { seen, left } = await page.evaluate(() => {
    const { seen } = globalThis as unknown as { seen: Set<Element> };
    return { seen: seen.size, left: [...seen].filter((math) => math.isConnected).length };
  });
  assert.deepEqual([seen, left], [3, 3], "a formula that is there is never made again");
  await visitor.leaveClean();

  stand.site.overrides.set(
    "embed.html",
    '<!doctype html><title>Embedded</title><link rel="icon" href="./mark.svg">' +
      '<script type="module" src="./library/element.js"></script><body data-state="ready">' +
      '<conclave-chat backend="cpu"></conclave-chat>',
  );
  const own = new URL(writer.address).origin;
  const other = await stand.arrive({ search: "embed.html", also: own });
  await other.page.evaluate((base) => {
    const chat = document.querySelector("conclave-chat") as HTMLElement & { members: unknown };
    chat.members = [{ remote: base, name: "words" }];
  }, writer.address);
  const chat = other.page.locator("conclave-chat");
  await chat.locator("[part=box]").fill("Write!");
  await chat.locator("[part=ask]").click();
  await chat.locator("math").nth(2).waitFor();
  assert.ok((await chat.locator("math").first().boundingBox())!.height > 5);
  assert.equal(
    await chat
      .locator(".formula.display")
      .evaluate((formula) => getComputedStyle(formula).textAlign),
    "center",
    "its style is in the shadow",
  );
  await other.leaveClean();
});
