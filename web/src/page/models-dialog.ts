/**
 * The dialog for choosing models: ensembles of the catalogue, models added by hand, stored models.
 */
import {
  parseReference,
  referenceName,
  referenceText,
  typed,
  type Conclave,
  type Stored,
} from "../library/conclave.ts";
import type { MemberSource } from "../protocol/messages.ts";
import { BuiltInOffer } from "./built-in-offer.ts";
import type { CatalogueModel, Ensemble } from "./catalogue.ts";
import { modal, technical } from "./dialog.ts";
import { el } from "./dom.ts";
import { filePicker } from "./drop.ts";
import { ensemblesList } from "./ensembles-list.ts";
import type { Machine } from "./fit.ts";
import { ModelPicker } from "./model-picker.ts";
import { ModelsSearch } from "./models-search.ts";
import type { PickedFile } from "./picked.ts";
import { QuantiseSelect } from "./quantise-choice.ts";
import { readableName } from "./readable-name.ts";
import { RemoteForm } from "./remote-form.ts";
import { rooms } from "./room.ts";
import { storedList } from "./stored-list.ts";

interface DialogEvents {
  /** Once it is open. */
  library: () => Conclave | undefined;
  /** The same from its start on: it knows what is stored. */
  starting: () => Conclave | undefined;
  catalogue: () => Promise<Ensemble[]>;
  /** The ensemble on the page. */
  shown: () => string;
  /** Chosen room for a conversation, in tokens; undefined: the most that fits. */
  room: () => number | undefined;
  /** Room that these members would get. */
  roomOf: (members: CatalogueModel[]) => number;
  onRoom: (tokens: number | undefined) => void;
  /** These throw objections to a choice; `signal` aborts when the dialog is closed before. */
  onEnsemble: (ensemble: Ensemble, signal: AbortSignal) => Promise<void>;
  onToys: () => Promise<void>;
  onAdd: (source: MemberSource, signal: AbortSignal) => Promise<void>;
  onPicked: (picked: PickedFile[]) => void;
  /** A member on a server, or the browser's own model. `keepsKey`: this browser keeps its key. */
  onElsewhere: (source: MemberSource, keepsKey: boolean) => void;
}

export class ModelsDialog {
  /** For models added by hand. */
  readonly quantise = new QuantiseSelect();
  readonly #dialog: HTMLDialogElement;
  readonly #search = new ModelsSearch(() => this.#dialog);
  readonly #events: DialogEvents;
  readonly #host: string;
  readonly #about = el("p", { class: "description" });
  readonly #ensembles = el("div", {});
  readonly #picker = new ModelPicker();
  readonly #builtIn = new BuiltInOffer((source) => this.#elsewhere(source));
  readonly #stored = el("div", {});
  readonly #status = el("p", { class: "dialog-status", role: "status" });
  readonly #reference = el("input", {
    ...technical,
    id: "reference",
    inputmode: "url",
    "aria-describedby": "reference-hint",
  });
  readonly #hint = el("p", { class: "hint", id: "reference-hint", role: "status" });
  /** The entered reference is invalid; reset when it changes. */
  #refused = false;
  /** Choice under examination. */
  #choice: AbortController | undefined;

  /** `host`: displayed name of the host of `hf:` references. */
  constructor(host: string, events: DialogEvents) {
    this.#host = host;
    this.#events = events;
    this.#about.textContent = this.#promise(true);
    const title = (id: string, text: string): HTMLElement => el("h3", { id }, text);
    this.#dialog = modal(
      "models",
      "Models",
      this.#about,
      this.#status,
      this.#search.root,
      el(
        "section",
        { "aria-labelledby": "recommended-title" },
        el(
          "div",
          { class: "dialog-head" },
          title("recommended-title", "Recommended for this machine"),
          this.#contextChoice(),
        ),
        this.#picker.root,
      ),
      el(
        "section",
        { "aria-labelledby": "ensembles-title" },
        title("ensembles-title", "Ensembles"),
        this.#ensembles,
      ),
      el(
        "section",
        { "aria-labelledby": "add-title" },
        title("add-title", "Add a member"),
        this.#addForm(),
        this.#builtIn.root,
        new RemoteForm((source, keepsKey) => this.#elsewhere(source, keepsKey)).root,
      ),
      el(
        "section",
        { "aria-labelledby": "stored-title" },
        title("stored-title", "Stored in this browser"),
        this.#stored,
      ),
    );
    this.#dialog.addEventListener("close", () => this.#choice?.abort());
  }

  /** Opens it at `place`; closing restores the focus. */
  async open(place?: "add" | "stored"): Promise<void> {
    this.say("");
    this.#search.clear();
    this.#dialog.showModal();
    const focused = document.activeElement;
    await this.refresh();
    // The visitor may have gone to another field meanwhile.
    if (document.activeElement !== focused) return;
    if (place === "add") this.#reference.focus();
    if (place === "stored") this.#focusStored();
  }

  close(): void {
    this.#dialog.close();
  }

  /** Shows what is under way, or what went wrong. */
  say(text: string, tone: "plain" | "error" = "plain"): void {
    this.#status.textContent = text;
    this.#status.classList.toggle("error", tone === "error");
  }

  /** Updates sizes, stored models and those in use. */
  async refresh(): Promise<void> {
    if (!this.#dialog.open) return;
    void this.#builtIn.refresh();
    const library = this.#events.starting();
    const stored: Stored = (await library?.models().catch(() => undefined)) ?? {
      models: [],
      keeps: true,
      used: null,
      free: null,
      persisted: false,
      prompts: 0,
    };
    this.#about.textContent = this.#promise(stored.keeps);
    const free = stored.free ?? undefined;
    this.#stored.replaceChildren(
      storedList(stored.models, {
        free,
        keeps: stored.keeps,
        prompts: stored.prompts,
        onDeletePrompts: async () => {
          await this.#events.starting()?.deletePrompts();
          await this.refresh();
          this.#focusStored();
        },
        hasNewer: async ({ ref, commit }) => {
          const latest = await library?.latestCommit(ref);
          return latest !== undefined && latest !== commit;
        },
        onAdd: ({ ref, from }) => {
          const name = readableName(from.replace(/\.gguf$/i, ""));
          void this.#run((signal) => this.#events.onAdd({ name, ref }, signal));
        },
        onDelete: async ({ ref }) => {
          await this.#events.starting()?.deleteModel(ref);
          await this.refresh();
          this.#focusStored();
        },
      }),
    );
    try {
      const ensembles = await this.#events.catalogue();
      const context = {
        machine: machineOf(this.#events.library(), free),
        roomOf: this.#events.roomOf,
        stored: stored.models,
        shown: this.#events.shown(),
        host: this.#host,
      };
      const onEnsemble = (ensemble: Ensemble): Promise<void> =>
        this.#run((signal) => this.#events.onEnsemble(ensemble, signal));
      this.#picker.show(ensembles, { ...context, onEnsemble });
      this.#ensembles.replaceChildren(
        ensemblesList(ensembles, {
          ...context,
          onEnsemble,
          onToys: () => this.#run(() => this.#events.onToys()),
        }),
      );
    } catch (error) {
      this.#ensembles.replaceChildren(el("p", { role: "alert" }, typed(error).message));
    }
    this.#search.show();
  }

  #focusStored(): void {
    this.#stored.querySelector<HTMLElement>("#stored-summary")?.focus();
  }

  /** Text on what happens to a chosen model. */
  #promise(keeps: boolean): string {
    const kept = keeps
      ? "they are checked and kept in this browser"
      : "they are checked, and held in memory as long as the page is open, " +
        "since this browser gives it no place to keep them";
    return (
      "Models are downloaded from their hosts when you choose them, " +
      `those named here from ${this.#host}; ${kept}. ` +
      "Your questions stay on this machine, unless you add a member behind a server."
    );
  }

  /** Examines one choice at a time; closing the dialog aborts it. */
  async #run(choose: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#choice) return;
    const { signal } = (this.#choice = new AbortController());
    this.#dialog.classList.add("busy"); // Not aria-busy, which would silence a live region inside.
    try {
      await choose(signal);
      this.close();
    } catch (error) {
      if (signal.aborted) return;
      this.say(typed(error).message, "error");
      this.#status.scrollIntoView({ block: "nearest" });
    } finally {
      this.#choice = undefined;
      this.#dialog.classList.remove("busy");
    }
  }

  #contextChoice(): HTMLElement {
    const chosen = this.#events.room();
    const select = el(
      "select",
      { id: "context-tokens" },
      el("option", { value: "", selected: chosen === undefined }, "the most that fits"),
      ...rooms.map((tokens) =>
        el("option", { value: tokens, selected: tokens === chosen }, `${tokens} tokens`),
      ),
    );
    select.addEventListener("change", () => {
      this.#events.onRoom(select.value === "" ? undefined : Number(select.value));
      void this.refresh();
    });
    return el("label", { class: "context-choice" }, "Room for a conversation", select);
  }

  #addForm(): HTMLElement {
    const form = el(
      "form",
      { class: "add-form" },
      el("label", { for: "reference" }, "A model on the hub, or an address"),
      el("div", { class: "add-line" }, this.#reference, el("button", { type: "submit" }, "Add")),
      this.#hint,
      el(
        "p",
        { class: "add-files" },
        filePicker("Choose files", (picked) => this.#picked(picked)),
        filePicker("Choose a folder", (picked) => this.#picked(picked), { folder: true }),
        el(
          "span",
          { class: "hint" },
          "or drop them anywhere on the page; they stay where they are.",
        ),
      ),
      this.quantise.root,
    );
    this.#check();
    this.#reference.addEventListener("input", () => {
      this.#refused = false;
      this.#check();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#refused = true;
      if (!this.#check()) return this.#reference.focus();
      const reference = parseReference(this.#reference.value);
      const source: MemberSource = {
        name: readableName(referenceName(reference)),
        ref: referenceText(reference),
      };
      void this.#run(async (signal) => {
        await this.#events.onAdd(source, signal);
        this.#reference.value = "";
        this.#refused = false;
        this.#check();
      });
    });
    return form;
  }

  #elsewhere(source: MemberSource, keepsKey = false): void {
    this.close();
    this.#events.onElsewhere(source, keepsKey);
  }

  #picked(picked: PickedFile[]): void {
    this.close();
    this.#events.onPicked(picked);
  }

  /** Parses the reference as it is typed, and shows its target or what is missing. */
  #check(): boolean {
    const text = this.#reference.value.trim();
    let found: string | undefined;
    let fault = "";
    try {
      const reference = parseReference(text);
      const from = reference.kind === "url" ? new URL(reference.url).host : this.#host;
      const what =
        reference.kind === "hub" && reference.file === undefined
          ? `The safetensors of ${reference.owner}/${reference.repo}`
          : referenceName(reference);
      found = `${what}, from ${from}.`;
    } catch (error) {
      fault = typed(error).message;
    }
    const example =
      "For example hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf, " +
      "hf:HuggingFaceTB/SmolLM2-360M-Instruct for a whole folder, " +
      "or https://example.org/model.gguf. After @ may stand a revision.";
    // Half-typed references are not marked as wrong.
    const wrong = found === undefined && this.#refused;
    this.#hint.textContent = found ?? (wrong ? fault : example);
    this.#hint.classList.toggle("error", wrong);
    this.#reference.setAttribute("aria-invalid", String(wrong));
    return found !== undefined;
  }
}

/** Known capacity of this machine. */
export function machineOf(library: Conclave | undefined, free: number | undefined): Machine {
  const { deviceMemory, hardwareConcurrency } = navigator as Navigator & { deviceMemory?: number };
  return {
    backend: library?.backend ?? "cpu",
    cores: hardwareConcurrency || 1,
    free,
    deviceMemory,
  };
}
