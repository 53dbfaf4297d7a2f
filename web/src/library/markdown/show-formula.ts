/**
 * Shows a formula of an answer. The typesetter is fetched for the first formula; until it is
 * loaded, the source is shown. A formula that can't be typeset stays as its source.
 */
import type { typeset } from "./typeset.ts";

export interface Formula {
  tex: string;
  /** Whether the formula is displayed on its own, not within a line of text. */
  display: boolean;
  /** As in the answer, with its marks. */
  source: string;
}

/** Source of the formula in an element. */
const shown = new WeakMap<Element, string>();
let loaded: typeof typeset | undefined;
let loading: Promise<typeof typeset> | undefined;

/**
 * Shows a formula as the content of `host`: typeset if the typesetter is loaded, else as its source
 * until it is.
 */
export function showFormula(host: Element, formula: Formula): void {
  const { source } = formula;
  if (shown.get(host) === source) return;
  shown.set(host, source);
  host.replaceChildren(source);
  if (loaded) return loaded(host, formula);
  loading ??= import("./typeset.ts").then((module) => (loaded = module.typeset));
  void loading.then(
    (typeset) => {
      if (shown.get(host) === source) typeset(host, formula);
    },
    () => {
      // The next time that it is shown, it is tried again.
      loading = undefined;
      shown.delete(host);
    },
  );
}
