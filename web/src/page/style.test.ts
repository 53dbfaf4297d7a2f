/** WCAG AA contrast for every text colour on every ground it is used on, light and dark. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(`${process.env["CONCLAVE_WEB"] ?? "./"}style.css`, "utf8");

type Rgb = [number, number, number];

function variables(block: string): Record<string, Rgb> {
  const found: Record<string, Rgb> = {};
  for (const [, name, hex] of block.matchAll(/--([\w-]+): #([0-9a-f]{6});/g)) {
    found[name!] = [0, 2, 4].map((at) => Number.parseInt(hex!.slice(at, at + 2), 16)) as Rgb;
  }
  return found;
}

const dark = css.indexOf("@media (prefers-color-scheme: dark)");
const schemes = {
  light: variables(css.slice(0, dark)),
  dark: variables(css.slice(dark, css.indexOf(".voice-1 {"))),
};

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

/** A translucent colour over another, such as the tint of a hovered segment. */
const over = (top: Rgb, ground: Rgb, share: number): Rgb =>
  top.map((value, i) => value * share + ground[i]! * (1 - share)) as Rgb;

for (const [scheme, colours] of Object.entries(schemes)) {
  test(`${scheme}: all text reaches 4.5 to 1, controls' edges 3 to 1`, () => {
    const get = (name: string): Rgb => colours[name] ?? assert.fail(`${scheme} has no --${name}`);
    const paper = get("paper");
    const panel = get("panel");
    const pairs: [string, Rgb, Rgb, number][] = [];
    for (const ground of ["paper", "panel"])
      for (const text of ["ink", "soft"])
        pairs.push([`${text} on ${ground}`, get(text), get(ground), 4.5]);
    for (let voice = 1; voice <= 8; voice++) {
      const colour = get(`voice-${voice}`);
      pairs.push([`voice-${voice} on paper`, colour, paper, 4.5]);
      pairs.push([`voice-${voice} on panel`, colour, panel, 4.5]);
      pairs.push([`voice-${voice} on its open segment`, colour, over(colour, paper, 0.16), 4.5]);
    }
    pairs.push(
      ["alarm on paper", get("alarm"), paper, 4.5],
      ["ink on alarm-paper", get("ink"), get("alarm-paper"), 4.5],
      ["ink on warn-paper", get("ink"), get("warn-paper"), 4.5],
    );
    pairs.push(["edge on paper", get("edge"), paper, 3]);
    for (const [what, text, ground, least] of pairs) {
      const found = contrast(text, ground);
      assert.ok(found >= least, `${what}: ${found.toFixed(2)} to 1`);
    }
  });
}
