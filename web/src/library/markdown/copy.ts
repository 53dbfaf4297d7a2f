/** Copies text to the clipboard, and shows on the pressed button whether it worked. */

/** Time in ms that a button shows the result. */
const shownMs = 1600;

/** Text and accessible name of a button before it showed a result. */
const labels = new WeakMap<HTMLElement, [text: string, name: string | null]>();

export async function copyText(text: string, button: HTMLElement): Promise<void> {
  const done = (await written(text)) ? "Copied" : "Not allowed here";
  if (!labels.has(button))
    labels.set(button, [button.textContent ?? "", button.getAttribute("aria-label")]);
  button.removeAttribute("aria-label");
  button.textContent = done;
  setTimeout(() => {
    const [label, name] = labels.get(button) ?? [];
    if (label === undefined || !labels.delete(button)) return;
    button.textContent = label;
    if (name) button.setAttribute("aria-label", name);
  }, shownMs);
}

async function written(text: string): Promise<boolean> {
  try {
    // Missing where the page is no secure context.
    if (navigator.clipboard) return await navigator.clipboard.writeText(text).then(() => true);
  } catch {
    // Refused: the older way needs no permission.
  }
  const area = document.createElement("textarea");
  const focused = document.activeElement;
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}
