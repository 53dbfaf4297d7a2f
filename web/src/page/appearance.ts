/**
 * Theme and text size, remembered in this browser and applied before the page is first painted. The
 * style sheet has one set of dark colours, in a media query, which a chosen theme overrides.
 */
import { keepText, keptText } from "../kept/kept-text.ts";

export const themes = { auto: "As the system", light: "Light", dark: "Dark" };
export const sizes = { "14": "Small", "16": "Normal", "18": "Large", "21": "Larger" };

export interface Appearance {
  theme: keyof typeof themes;
  /** Font size of the root, in pixels. */
  size: keyof typeof sizes;
}

const key = "conclave appearance";
const dark = "(prefers-color-scheme: dark)";

/** Media text of the dark colours under a theme. */
const mediaOf = (theme: Appearance["theme"]): string =>
  theme === "auto" ? dark : theme === "dark" ? "all" : "not all";

export function recallAppearance(): Appearance {
  let found: Partial<Appearance> = {};
  try {
    found = (JSON.parse(keptText(key) ?? "{}") ?? {}) as Partial<Appearance>;
  } catch {
    // Not ours.
  }
  const { theme = "auto", size = "16" } = found;
  return {
    theme: Object.hasOwn(themes, theme) ? theme : "auto",
    size: Object.hasOwn(sizes, size) ? size : "16",
  };
}

/** The rule with the dark colours; kept, since its media text changes. */
let rule: CSSMediaRule | undefined;

export function applyAppearance({ theme, size }: Appearance): void {
  const root = document.documentElement;
  rule ??= [...document.styleSheets]
    .flatMap((sheet) => [...sheet.cssRules])
    .find((one): one is CSSMediaRule => one instanceof CSSMediaRule && one.conditionText === dark);
  if (rule) rule.media.mediaText = mediaOf(theme);
  root.style.colorScheme = theme === "auto" ? "" : theme;
  // The browser's own text size stays the measure.
  root.style.fontSize = size === "16" ? "" : `${(Number(size) / 16) * 100}%`;
}

export function rememberAppearance(appearance: Appearance): void {
  applyAppearance(appearance);
  // Charts are drawn in the colours of the theme.
  dispatchEvent(new Event("conclave-theme"));
  keepText(key, JSON.stringify(appearance));
}

/** Deletes what is remembered; it holds for this visit. */
export const forgetAppearance = (): void => keepText(key, undefined);
