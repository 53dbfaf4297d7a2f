/** A member's name as a field, in place of its heading. */
import { button, el } from "./dom.ts";

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
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // It would also stop an answer.
    onClose();
  });
  queueMicrotask(() => box.select());
  return form;
}
