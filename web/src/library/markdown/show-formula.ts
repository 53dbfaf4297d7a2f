/**
 * A formula in an answer: its source until the typesetter is there, which is fetched for the first
 * one, and for good if it can't be typeset.
 */
import type { typeset } from "./typeset.ts";

export interface Formula {
  tex: string;
  /** It stands on its own. */
  display: boolean;
  /** As in the answer, with its marks. */
  source: string;
}

/** Source of the formula in an element. */
const shown = new WeakMap<Element, string>();
let loaded: typeof typeset | undefined;
let loading: Promise<typeof typeset> | undefined;

/** Makes a formula the content of `host`, now or once it can. */
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
