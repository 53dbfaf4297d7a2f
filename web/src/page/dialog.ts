/** The parts that the page's dialogs share: how they begin, open and close, and a search field. */
import { byId, button, el } from "./dom.ts";

/** A dialog of the page, whose title is `NAME-title`, with these parts before its own. */
export function modal(
  name: string,
  title: string,
  ...parts: (HTMLElement | string)[]
): HTMLDialogElement {
  const dialog = byId(`${name}-dialog`, HTMLDialogElement);
  const close = button("Close", () => dialog.close(), { class: "quiet" });
  dialog.append(
    el("div", { class: "dialog-head" }, el("h2", { id: `${name}-title` }, title), close),
    ...parts,
  );
  // A click on the backdrop closes, as is usual for dialogs; one that began inside, as the end of a
  // selection, does not.
  let pressedOutside = false;
  dialog.addEventListener("pointerdown", (event) => (pressedOutside = isOutside(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (pressedOutside && isOutside(dialog, event)) dialog.close();
  });
  return dialog;
}

/** Whether the pointer is on the backdrop. */
function isOutside(dialog: HTMLDialogElement, { clientX: x, clientY: y }: MouseEvent): boolean {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return x < left || x > right || y < top || y > bottom;
}

/** Attributes of a field for a technical name, which no browser may complete or correct. */
export const technical = {
  type: "text",
  autocomplete: "off",
  autocapitalize: "off",
  spellcheck: "false",
};

/** A search field for `label`, and the line that shows it. */
export function searchField(
  id: string,
  label: string,
  onInput: () => void,
): { line: HTMLElement; input: HTMLInputElement } {
  const input = el("input", { type: "search", id, autocomplete: "off", placeholder: "Search" });
  input.addEventListener("input", onInput);
  const line = el(
    "p",
    { class: "search-line" },
    el("label", { for: id, class: "hidden" }, label),
    input,
  );
  return { line, input };
}
