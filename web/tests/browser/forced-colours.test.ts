/**
 * The page in forced colours (Windows' high contrast): the browser replaces its colours and drops
 * its backgrounds, and all that they told must be told by lines, borders or the system's own
 * colours.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { stage } from "./stage.ts";
import type { Visitor } from "./visitor.ts";

const stand = stage("none");

type Rgb = [number, number, number];

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: Rgb, b: Rgb): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** A computed colour; a translucent one as it is seen on a ground. */
function rgb(text: string, ground: Rgb = [0, 0, 0]): Rgb {
  const [r, g, b, alpha = 1] = [...text.matchAll(/[\d.]+/g)].map(Number);
  return [r!, g!, b!].map((value, i) => value * alpha + ground[i]! * (1 - alpha)) as Rgb;
}

/** Fails unless a colour stands out from another. */
function standsOut(colour: string, from: string, what: string, least = 3): void {
  const ground = rgb(from);
  assert.ok(contrast(rgb(colour, ground), ground) >= least, `${what}: ${colour} on ${from}`);
}

/** The system's colours as the page has them. */
const systemColours = (page: Page): Promise<Record<"canvas" | "text", string>> =>
  page.evaluate(() => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.backgroundColor = "Canvas";
    probe.style.color = "CanvasText";
    const { backgroundColor, color } = getComputedStyle(probe);
    probe.remove();
    return { canvas: backgroundColor, text: color };
  });

/** Colours that make up at least a tenth of an element as it is drawn. */
async function drawn(element: Locator): Promise<string[]> {
  await element.scrollIntoViewIfNeeded();
  const picture = [...(await element.screenshot())];
  return element.page().evaluate(async (bytes) => {
    const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d")!;
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const counts = new Map<string, number>();
    for (let at = 0; at < data.length; at += 4) {
      const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
      counts.set(colour, (counts.get(colour) ?? 0) + 1);
    }
    return [...counts].filter(([, n]) => n > data.length / 40).map(([colour]) => colour);
  }, picture);
}

/** Fails unless two colours of a bar, as it is drawn, stand out from each other. */
async function isFilledInPart(bar: Locator, what: string): Promise<void> {
  const colours = (await drawn(bar)).map((colour) => rgb(colour));
  const most = Math.max(...colours.flatMap((a) => colours.map((b) => contrast(a, b))));
  assert.ok(most >= 3, `${what}: ${JSON.stringify(colours)}`);
}

/** Fails unless all controls in view have edges that stand out. */
async function controlsHaveEdges(visitor: Visitor, state: string): Promise<void> {
  const { page } = visitor;
  const { canvas } = await systemColours(page);
  const edges = await page.evaluate(() => {
    const controls =
      "button, .file span, select, textarea, input:not([type=checkbox], [type=file])";
    const within = document.querySelector("dialog[open]") ?? document;
    return [...within.querySelectorAll<HTMLElement>(controls)]
      .filter((one) => one.checkVisibility() && one.offsetWidth > 1)
      .map((one) => {
        const style = getComputedStyle(one);
        const name = `${one.localName} ${one.className} ${one.textContent.slice(0, 20)}`;
        const width = Number.parseFloat(style.borderBottomWidth);
        return { name, style: style.borderBottomStyle, width, colour: style.borderBottomColor };
      });
  });
  assert.ok(edges.length > 3, state);
  for (const { name, style, width, colour } of edges) {
    assert.ok(style === "solid" && width >= 1, `${state}: ${name} has no border`);
    standsOut(colour, canvas, `${state}: the border of ${name}`);
  }
}

/** Fails unless whatever takes the focus by Tab has a ring, at up to so many places. */
async function focusIsSeen(visitor: Visitor, places: number): Promise<void> {
  const { page } = visitor;
  const { canvas } = await systemColours(page);
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  const seen = new Set<string>();
  for (let place = 0; place < places; place++) {
    await page.keyboard.press("Tab");
    const ring = await page.evaluate(() => {
      const focus = document.activeElement as HTMLElement;
      if (focus === document.body) return undefined;
      // A field for files lies over its label.
      const shown = focus.matches(".file input") ? focus.nextElementSibling! : focus;
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(shown);
      const name = `${focus.localName} ${focus.className} ${focus.id}`;
      return { name, outlineStyle, width: Number.parseFloat(outlineWidth), outlineColor };
    });
    if (!ring) break;
    seen.add(ring.name);
    assert.ok(ring.outlineStyle !== "none" && ring.width >= 2, `${ring.name} has no ring`);
    standsOut(ring.outlineColor, canvas, `the ring of ${ring.name}`);
  }
  assert.ok(seen.size > 5, [...seen].join(", "));
}

for (const colorScheme of ["light", "dark"] as const) {
  const forced = { colorScheme, forcedColors: "active" } as const;

  test(`in forced colours controls, focus and bars are seen, ${colorScheme}`, {
    timeout: 300_000,
  }, async () => {
    const visitor = await stand.arrive({ ...forced, search: "?backend=cpu" });
    const { page } = visitor;
    await controlsHaveEdges(visitor, "on arrival");
    await visitor.faultless("on arrival");
    // As where weights are drawn in other tests.
    await visitor.set("seed", "1");
    await visitor.set("maxRounds", "3");
    await visitor.set("alpha", "50");
    await visitor.set("trust", "4");
    await visitor.answer("Tell me a short story about an owl.");
    await page.locator(".segment").first().click();
    await page.locator(".inspector").waitFor();
    await controlsHaveEdges(visitor, "with a round laid open");
    await visitor.faultless("with a round laid open");
    await focusIsSeen(visitor, 60);

    const { canvas, text } = await systemColours(page);
    const open = await page
      .locator(".segment[data-open]")
      .first()
      .evaluate((one) => {
        const { backgroundColor, color } = getComputedStyle(one);
        return { backgroundColor, color };
      });
    standsOut(open.backgroundColor, canvas, "the segment of the open round");
    standsOut(open.color, open.backgroundColor, "its text", 4.5);

    await isFilledInPart(page.locator(".trust-bar"), "the weights at the start");
    const weight = page.locator(".votes .meter:visible").first();
    await weight.locator("span").evaluate((span) => (span.style.width = "40%"));
    await isFilledInPart(weight, "a member's weight");
    const total = page.locator(".candidates progress:visible").first();
    await total.evaluate((bar: HTMLProgressElement) => (bar.value = 0.4 * bar.max));
    await isFilledInPart(total, "a candidate's total");

    // The chart's lines are the system's text, and follow a change of it.
    const strokes = (): Promise<string[]> =>
      page.locator("#weights canvas").evaluate((canvas: HTMLCanvasElement) => {
        const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
        const counts = new Map<string, number>();
        for (let at = 0; at < data.length; at += 4)
          if (data[at + 3] === 255) {
            const colour = `rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`;
            counts.set(colour, (counts.get(colour) ?? 0) + 1);
          }
        return [...counts].filter(([, n]) => n > 100).map(([colour]) => colour);
      });
    assert.ok((await strokes()).includes(text), `${text} in ${(await strokes()).join("; ")}`);
    for (const colour of await strokes()) standsOut(colour, canvas, "a line of the chart");
    await page.emulateMedia({ forcedColors: "none" });
    assert.ok(!(await strokes()).includes(text), (await strokes()).join("; "));
    await page.emulateMedia({ forcedColors: "active" });
    assert.ok((await strokes()).includes(text), (await strokes()).join("; "));
    await visitor.leaveClean();
  });

  test(`in forced colours writers and notices are told apart, ${colorScheme}`, async () => {
    const visitor = await stand.arrive({ ...forced, viewport: { width: 390, height: 844 } });
    const { page } = visitor;
    const marks = await page.evaluate(() => {
      const host = document.createElement("p");
      document.querySelector("main")!.append(host);
      const voices = Array.from({ length: 8 }, (_, place) => `voice-${place + 1}`);
      const found = ["segment", "wrote", "name", "striped", "formula segment"].map((kind) => {
        // Text that several wrote alike has no name.
        const classes = kind === "name" ? voices : [...voices, "alike"];
        const looks = classes.map((writer) => {
          const one = document.createElement("span");
          one.className = `${kind} ${writer}`;
          one.textContent = "words";
          host.append(one);
          const style = getComputedStyle(one);
          const line =
            kind === "striped"
              ? [style.borderLeftStyle, style.borderLeftWidth]
              : kind === "formula segment"
                ? [style.borderBottomStyle, style.borderBottomWidth]
                : [style.textDecorationStyle, style.textDecorationThickness];
          const colour = kind === "striped" ? style.borderLeftColor : style.color;
          return { line: line.join(" "), colour, under: style.textDecorationLine };
        });
        return { kind, looks };
      });
      host.remove();
      return found;
    });
    const { canvas } = await systemColours(page);
    for (const { kind, looks } of marks) {
      const lines = looks.map(({ line }) => line);
      assert.equal(new Set(lines).size, looks.length, `${kind}: ${lines.join("; ")}`);
      assert.ok(
        lines.every((line) => !/none|\b0px/.test(line)),
        `${kind}: ${lines.join("; ")}`,
      );
      for (const { colour, under } of looks) {
        standsOut(colour, canvas, kind);
        if (!/striped|formula/.test(kind)) assert.equal(under, "underline", kind);
      }
    }

    await page
      .locator("#attach-file")
      .setInputFiles([{ name: "a.png", mimeType: "image/png", buffer: Buffer.from([0, 1, 2, 3]) }]);
    await page.locator(".notice.error").waitFor();
    await visitor.faultless("with a notice");
    const frames = await page.evaluate(() =>
      ["error", "warning", "hint"].map((tone) => {
        const notice = document.querySelector(".notice")!;
        notice.className = `notice ${tone}`;
        const { borderTopStyle, borderTopWidth, borderTopColor } = getComputedStyle(notice);
        return { style: borderTopStyle, width: borderTopWidth, colour: borderTopColor };
      }),
    );
    assert.equal(new Set(frames.map(({ width }) => width)).size, 3, JSON.stringify(frames));
    for (const { style, colour } of frames) {
      assert.equal(style, "solid");
      standsOut(colour, canvas, "the frame of a notice");
    }

    await visitor.models();
    await controlsHaveEdges(visitor, "with the models");
    await visitor.faultless("with the models");
    await focusIsSeen(visitor, 12);
    await page.keyboard.press("Escape");
    await visitor.answer("What is 347 + 586?");
    await visitor.conversations();
    await page.getByRole("button", { name: /^Rename: / }).click();
    await controlsHaveEdges(visitor, "with a title being changed");
    await visitor.faultless("with a title being changed");
    await visitor.leaveClean();
  });
}
