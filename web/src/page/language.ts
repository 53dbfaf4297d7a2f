/**
 * Must be loaded before uPlot, which formats numbers in the browser's language as it loads:
 * WebKitGTK under the locale C.UTF-8 names a language that does not exist, and the whole page would
 * fail.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
