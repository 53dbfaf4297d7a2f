/** Copies text to the clipboard, and shows on the pressed button whether it worked. */

/** How long a button says so. */
const shownMs = 1600;

export async function copyText(text: string, button: HTMLElement): Promise<void> {
  const done = (await written(text)) ? "Copied" : "Not allowed here";
  const label = button.dataset["label"] ?? button.textContent ?? "";
  button.dataset["label"] = label;
  button.textContent = done;
  setTimeout(() => {
    if (button.textContent === done) button.textContent = label;
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
