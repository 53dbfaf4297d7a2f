/** The models stored in this browser: sizes, what is partial, what there is room for, and deleting. */
import type { StoredModel } from "../conclave.ts";
import { button, el } from "./dom.ts";
import { bytes, plural } from "./figures.ts";

export interface StoredContext {
  free: number | undefined;
  onDelete: (model: StoredModel) => Promise<void>;
}

export function storedList(models: StoredModel[], { free, onDelete }: StoredContext): HTMLElement {
  const kept = models.reduce((sum, { stored }) => sum + stored, 0);
  const room = free === undefined ? "" : ` The browser lets this page keep ${bytes(free)} more.`;
  const summary = models.length === 0 ? `No models are stored here yet.${room}` : `${plural(models.length, "model")}, ${bytes(kept)}.${room}`;
  return el(
    "div",
    {},
    el("p", { class: "facts", id: "stored-summary", tabindex: -1 }, summary),
    models.length === 0 ? "" : el("ul", { class: "stored" }, ...models.map((model) => row(model, onDelete))),
  );
}

function row(model: StoredModel, onDelete: StoredContext["onDelete"]): HTMLElement {
  const { ref, stored, complete } = model;
  const [, path = ref, revision] = /^(?:hf:)?(.*?)(?:@([^@/]+))?$/.exec(ref) ?? [];
  const name = path.slice(path.lastIndexOf("/") + 1) || path;
  const size = complete ? bytes(stored) : `${bytes(stored)} of ${model.bytes > 0 ? bytes(model.bytes) : "?"}, not complete`;
  const actions = el("span", { class: "actions" });
  const ask = button("Delete", () => confirm(), { class: "quiet", "aria-label": `Delete ${name}` });
  const confirm = (): void => {
    const failure = el("span", { role: "alert" });
    const sure = button(`Delete ${bytes(stored)}`, () => {
      sure.disabled = true;
      onDelete(model).catch((error: unknown) => {
        sure.disabled = false;
        failure.textContent = error instanceof Error ? error.message : String(error);
      });
    });
    const keep = button("Keep", () => (actions.replaceChildren(ask), ask.focus()), { class: "quiet" });
    actions.replaceChildren(sure, keep, failure);
    sure.focus();
  };
  actions.append(ask);
  return el("li", { "data-ref": ref }, el("span", { class: "stored-name" }, name, el("small", {}, [path.slice(0, -name.length - 1), revision, size].filter(Boolean).join(" · "))), actions);
}
