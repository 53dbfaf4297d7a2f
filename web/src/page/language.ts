/**
 * To be loaded before uPlot, which asks for numbers in the browser's language as it loads:
 * WebKitGTK under the locale C.UTF-8 names one that there is not, and the whole page would fail
 * with it.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
