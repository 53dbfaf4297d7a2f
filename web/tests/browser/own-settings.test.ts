/** Settings of a visitor: instructions, theme, text size, names of members, their room. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { dist, stage } from "./stage.ts";
import { Visitor } from "./visitor.ts";
import { isAlone, writing } from "./with-writer.ts";

const stand = stage("none");
const writer = writing();

test("a chosen theme and text size hold, also after a reload, and axe finds no fault", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { colorScheme: "light" });
  const { page } = visitor;
  const look = (): Promise<{ paper: string; text: number; scheme: string }> =>
    page.evaluate(() => {
      const root = getComputedStyle(document.documentElement);
      return {
        paper: root.backgroundColor,
        text: Number.parseFloat(root.fontSize),
        scheme: root.colorScheme,
      };
    });
  const before = await look();
  await visitor.set("theme", "dark");
  await visitor.set("size", "21");
  const after = await look();
  assert.notEqual(after.paper, before.paper);
  assert.deepEqual([before.text, after.text, after.scheme], [16, 21, "dark"]);
  await visitor.faultless();
  await visitor.fits();
  await page.reload();
  assert.deepEqual(await look(), after, "before any member is loaded");
  await visitor.state("ready");
  await page.emulateMedia({ colorScheme: "dark" });
  await visitor.set("theme", "light");
  assert.equal((await look()).paper, before.paper, "light on a dark system");
  await visitor.set("theme", "auto");
  assert.equal((await look()).paper, after.paper);
  await visitor.leaveClean();
});

test("members read instructions before the conversation, also after a reload", async () => {
  const origin = new URL(writer.address).origin;
  writer.answer = "Yes.";
  const visitor = await Visitor.arrive(stand.browser, stand.site, { also: origin });
  const { page } = visitor;
  await visitor.openSettings();
  await page.getByLabel("System prompt").fill("Answer like a sailor.");
  await page.getByLabel("System prompt").blur();
  await visitor.join({ base: writer.address, name: "words" });
  await isAlone(visitor, writer);
  await visitor.answer("Is it late?");
  const prompts = writer.bodies("/apply-template").map(({ messages }) => messages);
  const wanted = [
    { role: "system", content: "Answer like a sailor." },
    { role: "user", content: "Is it late?" },
  ];
  assert.ok(
    prompts.some((messages) => isDeepStrictEqual(messages, wanted)),
    JSON.stringify(prompts),
  );
  await page.reload();
  assert.equal(await page.getByLabel("System prompt").inputValue(), "Answer like a sailor.");
  await visitor.state("ready");
  assert.notEqual(await visitor.answer("What is 2 + 3?"), "", "the toys read them too");
  await visitor.leaveClean();
});

test("a member has a name that people say, and can be given another", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site);
  const { page } = visitor;
  await visitor.pick([
    {
      name: "smollm2-135m-instruct-q8_0.gguf",
      mimeType: "application/octet-stream",
      buffer: await readFile(`${dist}members/ada.gguf`),
    },
  ]);
  const ready = (name: string) =>
    page.locator('.member[data-state="ready"]', { has: page.locator(".name", { hasText: name }) });
  await ready("SmolLM2 135M").waitFor();
  await visitor.state("ready");
  await page.getByRole("button", { name: "Rename SmolLM2 135M" }).press("Enter");
  const box = page.getByRole("textbox", { name: "Its name" });
  assert.equal(await box.inputValue(), "SmolLM2 135M");
  await visitor.faultless();
  await box.press("Escape");
  await page.keyboard.press("Enter");
  await box.fill("Captain");
  await box.press("Enter");
  await ready("Captain").waitFor();
  await visitor.state("ready");
  await visitor.answer("What is 2 + 3?");
  assert.match(
    (await page.locator(".legend").textContent()) ?? "",
    /^Written by Captain in \d+ segments?\.$/,
  );
  await visitor.leaveClean();
});

test("the page can be installed: its manifest names icons of its own that are there", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { loaded: false });
  const { page } = visitor;
  const client = await page.context().newCDPSession(page);
  const { errors, url } = await client.send("Page.getAppManifest");
  assert.deepEqual(errors, []);
  const { icons } = (await (await fetch(url)).json()) as { icons: { src: string }[] };
  for (const { src } of icons) assert.ok((await fetch(new URL(src, url))).ok, src);
  assert.equal(icons.length, 3);
  await visitor.leaveClean();
});

test("the first visit's way to real models is in view, clear of the question box", async () => {
  for (const [width, height] of [
    [1280, 900],
    [1440, 900],
    [390, 844],
    [320, 640],
  ] as const) {
    const visitor = await stand.arrive({ viewport: { width, height } });
    const { page } = visitor;
    await page.getByRole("region", { name: "A recorded answer" }).waitFor();
    const [choose, composer] = await Promise.all(
      ["#choose", "#composer"].map((part) => page.locator(part).boundingBox()),
    );
    assert.ok(
      choose && composer && choose.y > 0 && choose.y + choose.height <= composer.y,
      `${width} × ${height}: ${JSON.stringify([choose, composer])}`,
    );
    await visitor.fits();
    await visitor.leaveClean();
  }
});

test("a link to the page has a preview, whose picture is there as large as it says", async () => {
  const html = await readFile(`${dist}index.html`, "utf8");
  const meta = (name: string): string =>
    new RegExp(`<meta (?:property|name)="${name}" content="([^"]+)">`).exec(html)?.[1] ?? "";
  for (const name of ["og:title", "og:description", "og:image:alt", "twitter:card"])
    assert.notEqual(meta(name), "", name);
  const home = meta("og:url");
  const image = meta("og:image");
  assert.ok(home !== "" && image.startsWith(home), image);
  const png = await readFile(dist + image.slice(home.length));
  assert.equal(png.toString("latin1", 1, 4), "PNG");
  assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)].map(String), [
    meta("og:image:width"),
    meta("og:image:height"),
  ]);
});

test("a recorded answer plays at the first visit, can be skipped, or stands still", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, { loaded: false });
  const { page } = visitor;
  const shown = page.getByRole("region", { name: "A recorded answer" });
  await shown.locator('.drafting li[data-state="kept"]').first().waitFor();
  await shown.locator(".wrote").first().waitFor();
  assert.equal(await shown.locator(".showing-legend").isVisible(), false);
  await shown.getByRole("button", { name: "Skip" }).press("Enter");
  assert.equal(await shown.locator(".drafting").isVisible(), false);
  assert.match(
    (await shown.locator(".showing-legend").textContent()) ?? "",
    /^Written by Qwen2\.5 Coder/,
  );
  const whole = await shown.locator(".showing-answer").textContent();
  assert.equal(
    await page.evaluate(() => document.activeElement?.textContent),
    "Play again",
    "the focus is on its replacement",
  );
  await page.reload();
  await page.getByRole("button", { name: "Watch a recorded answer" }).waitFor();
  assert.equal(await shown.count(), 0, "at the next visit only when asked for");
  await visitor.leave();

  const calm = await Visitor.arrive(stand.browser, stand.site, {
    loaded: false,
    reducedMotion: "reduce",
  });
  const still = calm.page.getByRole("region", { name: "A recorded answer" });
  await still.locator(".showing-legend").waitFor();
  assert.equal(await still.locator(".showing-answer").textContent(), whole);
  assert.equal(await still.locator(".drafting").isVisible(), false);
  await calm.leaveClean();
});

for (const [width, height] of [
  [1280, 860],
  [390, 844],
  [320, 640],
] as const)
  test(`a first visit tells of the toys before one scrolls, ${width} × ${height}`, async () => {
    const visitor = await stand.arrive({ viewport: { width, height } });
    const { page } = visitor;
    await page.getByRole("region", { name: "A recorded answer" }).waitFor();
    const [told, box] = await page.evaluate(() =>
      ["#about-toys", "#composer"].map((selector) => {
        const { top, bottom } = document.querySelector(selector)!.getBoundingClientRect();
        return { top, bottom };
      }),
    );
    // On a small phone its first lines.
    const end = width === 320 ? told!.top + 60 : told!.bottom;
    assert.ok(told!.top >= 0 && end <= box!.top, JSON.stringify([told, box]));
    assert.equal(await page.evaluate(() => scrollY), 0);
    await visitor.leaveClean();
  });

test("members get the most room that fits, and another at once where it is chosen", async () => {
  const visitor = await Visitor.arrive(stand.browser, stand.site, {
    serviceWorkers: "block",
    search: "?debug",
  });
  const { page } = visitor;
  const rooms = (): Promise<number[]> =>
    page.evaluate(() =>
      (
        globalThis as unknown as { conclave: { members: { context: number }[] } }
      ).conclave.members.map(({ context }) => context),
    );
  assert.deepEqual(await rooms(), [1024, 1024, 1024], "all that the toys were made for");
  await visitor.set("maxRounds", "1");
  await visitor.answer("What is 347 + 586?");
  await visitor.models();
  await page.locator("#context-tokens").selectOption("2048");
  await page.locator("#context-tokens").selectOption("");
  await page.locator("#models-dialog").getByRole("button", { name: "Close" }).click();
  await visitor.state("ready");
  assert.deepEqual(await rooms(), [1024, 1024, 1024]);
  assert.equal(await page.locator(".exchange").count(), 1, "the conversation stays");
  assert.notEqual(await visitor.answer("Tell me a short story about a fox."), "");
  await visitor.leaveClean();
});
