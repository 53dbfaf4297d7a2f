/**
 * The models stored in this browser: sizes, partial downloads, free space, newer versions, and
 * deletion.
 */
import type { StoredModel } from "../library/conclave.ts";
import { isCopy, isWholeCopy } from "../store/copy-reference.ts";
import { button, el } from "./dom.ts";
import { bytes, plural } from "./figures.ts";

interface StoredContext {
  free: number | undefined;
  /** Whether the browser can store models. */
  keeps: boolean;
  onDelete: (model: StoredModel) => Promise<void>;
  /** Adds a member from a copy of picked files. */
  onAdd: (copy: StoredModel) => void;
  /** Bytes of kept system prompts. */
  prompts: number;
  onDeletePrompts: () => Promise<void>;
  /** Asks the hub whether there is a newer version. */
  hasNewer: (model: StoredModel) => Promise<boolean>;
}

export function storedList(
  models: StoredModel[],
  { free, keeps, onDelete, onAdd, hasNewer, prompts, onDeletePrompts }: StoredContext,
): HTMLElement {
  const kept = models.reduce((sum, { stored }) => sum + stored, 0);
  const room = free === undefined ? "" : ` The browser lets this page keep ${bytes(free)} more.`;
  const none = keeps
    ? `No models are stored here yet.${room}`
    : "This browser gives the page no place to keep models: they are fetched anew at each visit.";
  const summary =
    models.length === 0 ? none : `${plural(models.length, "model")}, ${bytes(kept)}.${room}`;
  const rows = new Map(models.map((model) => [model, row(model, { onDelete, onAdd })]));
  return el(
    "div",
    {},
    el("p", { class: "facts", id: "stored-summary", tabindex: -1 }, summary),
    models.length === 0 ? "" : el("ul", { class: "stored" }, ...rows.values()),
    updates(rows, hasNewer),
    readPrompts(prompts, onDeletePrompts),
  );
}

/** Size of the kept system prompts of all models, and a button to delete them. */
function readPrompts(kept: number, onDelete: () => Promise<void>): HTMLElement | "" {
  if (kept === 0) return "";
  const remove = button(
    "Delete",
    () => {
      remove.disabled = true;
      void onDelete().catch(() => (remove.disabled = false));
    },
    { class: "quiet", "aria-label": "Delete what is kept of system prompts" },
  );
  return el(
    "p",
    { class: "actions prompts" },
    el("span", {}, `System prompts as models have read them: ${bytes(kept)}.`),
    remove,
  );
}

/** A button that asks for newer versions, and the result; nothing asks by itself. */
function updates(
  rows: Map<StoredModel, HTMLElement>,
  hasNewer: StoredContext["hasNewer"],
): HTMLElement | "" {
  const models = [...rows.keys()].filter(({ complete, commit }) => complete && commit !== null);
  if (models.length === 0) return "";
  const status = el("span", { role: "status" });
  const look = button(
    "Look for newer versions",
    async () => {
      status.textContent = "Asking…";
      const answers = await Promise.allSettled(models.map(hasNewer));
      const newer = models.filter((_, index) => {
        const answer = answers[index];
        return answer?.status === "fulfilled" && answer.value;
      });
      for (const model of models) {
        rows.get(model)?.querySelector(".newer")?.remove();
        if (newer.includes(model))
          rows
            .get(model)
            ?.querySelector(".stored-name")
            ?.append(
              el(
                "small",
                { class: "newer" },
                "There is a newer version: delete this one, then choose it again.",
              ),
            );
      }
      const silent = answers.filter(({ status }) => status === "rejected").length;
      const found =
        newer.length === 0
          ? "No newer version is known."
          : `${plural(newer.length, "model")} of ${models.length} can be had newer.`;
      status.textContent =
        silent > 0
          ? `${found} ${plural(silent, "model")} could not be asked about; try again later.`
          : found;
    },
    { class: "quiet" },
  );
  return el("p", { class: "actions updates" }, look, status);
}

function row(
  model: StoredModel,
  { onDelete, onAdd }: Pick<StoredContext, "onDelete" | "onAdd">,
): HTMLElement {
  const { ref, stored, complete, from } = model;
  const [, path = ref, revision] = /^(?:hf:)?(.*?)(?:@([^@/]+))?$/.exec(ref) ?? [];
  const isCopied = isCopy(ref);
  const isWhole = isWholeCopy(model);
  const name = isCopied ? from : path.slice(path.lastIndexOf("/") + 1) || path;
  const place = isCopied ? "copied from your files" : path.slice(0, -name.length - 1);
  const size = complete
    ? bytes(stored) + (isCopied && !isWhole ? ", damaged: choose the file again" : "")
    : `${bytes(stored)} of ${model.bytes > 0 ? bytes(model.bytes) : "?"}, not complete`;
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
    const keep = button("Keep", () => (actions.replaceChildren(...usual), ask.focus()), {
      class: "quiet",
    });
    actions.replaceChildren(sure, keep, failure);
    sure.focus();
  };
  const add = button("Add", () => onAdd(model), { "aria-label": `Add ${name}` });
  // A fetched model is added by its ensemble, or by its name.
  const usual = isWhole ? [add, ask] : [ask];
  actions.append(...usual);
  return el(
    "li",
    { "data-ref": ref },
    el(
      "span",
      { class: "stored-name" },
      name,
      el("small", {}, [place, revision, size].filter(Boolean).join(" · ")),
    ),
    actions,
  );
}
