/** A member's name as a field, in place of its heading; and the keys of such fields. */
import { button, el } from "./dom.ts";
import { isComposing } from "./input-method.ts";

/** `onName` is called with a new name, `onClose` in any case. */
export function renameForm(
  name: string,
  onName: (name: string) => void,
  onClose: () => void,
): HTMLFormElement {
  const box = el("input", { type: "text", value: name, maxlength: 40, "aria-label": "Its name" });
  const form = el(
    "form",
    { class: "rename" },
    box,
    el("button", { type: "submit" }, "Save"),
    button("Cancel", onClose, { class: "quiet" }),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = box.value.trim();
    onClose();
    if (wanted !== "" && wanted !== name) onName(wanted);
  });
  closeOnEscape(form, onClose);
  queueMicrotask(() => box.select());
  return form;
}

/** Lets Escape close a form, and nothing else. An input method's keys neither close nor submit. */
export function closeOnEscape(form: HTMLFormElement, onClose: () => void): void {
  form.addEventListener("keydown", (event) => {
    const composing = isComposing(event);
    if (composing && event.key === "Enter") event.preventDefault();
    if (composing || event.key !== "Escape") return;
    event.preventDefault(); // A dialog around it stays.
    event.stopPropagation(); // It would also stop an answer.
    onClose();
  });
}
