/**
 * The dialog with all kept conversations: search, open, rename, delete and take it back, files and
 * links, and whether anything is kept at all.
 */
import { fileName, fromFile, toJson, toMarkdown } from "../kept/texts.ts";
import type { WholeConversation } from "../kept/keeper.ts";
import type { KeptConversation } from "../kept/records.ts";
import { modal, searchField } from "./dialog.ts";
import { button, el } from "./dom.ts";
import { plural } from "./figures.ts";
import { closeOnEscape } from "./rename-form.ts";
import { saveFile } from "./run-record.ts";
import type { Session } from "./session.ts";
import type { QuestionLink } from "./shared-link.ts";

interface ConversationsEvents {
  session: () => Session;
  /**
   * Deletes all that the page keeps of the visitor, besides conversations; returns whether no copy
   * of picked files is left.
   */
  onDeleteAll: () => Promise<boolean>;
  onNothing: (nothing: boolean) => void;
  /** A link to the question in the box, maybe with the ensemble; undefined if it is too long. */
  link: () => QuestionLink | undefined;
}

/** Next step if the browser stored nothing. */
const makeRoom =
  "Delete stored models under “Change”, or let the browser keep data of this page, and";

const copiesLeft =
  "Only copies of picked files are left, as a tab is loading one, or no engine runs: the page " +
  "deletes them when that is over, or you do under “Change”.";

export class ConversationsDialog {
  readonly #dialog: HTMLDialogElement;
  readonly #events: ConversationsEvents;
  readonly #status = el("p", { class: "dialog-status", role: "status" });
  readonly #search: HTMLInputElement;
  readonly #list = el("ul", { class: "stored conversations" });
  readonly #summary = el("p", { class: "hint", tabindex: -1 });
  readonly #nothing = el("input", { type: "checkbox", id: "keep-nothing" });
  readonly #all = el("span", { class: "actions" });
  /** Conversations that Undo puts back: all deleted since something else was said. */
  #deleted: WholeConversation[] = [];
  /** Whether they could not be stored again, and can be put back whatever else is said. */
  #refused = false;
  /** Leaves the title that is being changed. */
  #leaveTitle: (() => void) | undefined;
  /** Counts lists, of which only the last is shown. */
  #listed = 0;

  constructor(events: ConversationsEvents) {
    this.#events = events;
    const search = searchField(
      "search-conversations",
      "Search conversations",
      () => void this.refresh(),
    );
    this.#search = search.input;
    search.line.append(
      this.#importer(),
      button("Copy a link to the question", () => this.#link(), { class: "quiet" }),
    );
    this.#dialog = modal(
      "conversations",
      "Conversations",
      el(
        "p",
        { class: "description" },
        "They are kept in this browser, on this machine, and nowhere else.",
      ),
      this.#status,
      search.line,
      this.#summary,
      this.#list,
      el(
        "section",
        { "aria-labelledby": "keeping-title" },
        el("h3", { id: "keeping-title" }, "What is kept"),
        el(
          "p",
          { class: "keep-nothing" },
          this.#nothing,
          el("label", { for: "keep-nothing" }, "Keep nothing"),
        ),
        el(
          "p",
          { class: "hint", id: "keep-nothing-hint" },
          "Conversations, the half-typed question, settings, the choice of models and copies of " +
            "picked files are then gone with the page. Fetched models stay, under “Change”.",
        ),
        el("p", {}, this.#all),
      ),
    );
    this.#nothing.setAttribute("aria-describedby", "keep-nothing-hint");
    this.#nothing.addEventListener("change", () => this.#keepNothing());
    this.#offerDeleteAll();
  }

  async open(): Promise<void> {
    if (!this.#refused) this.#say("");
    this.#search.value = "";
    this.#offerDeleteAll();
    this.#dialog.showModal();
    await this.refresh();
  }

  /** Updates the list, if it is shown. */
  async refresh(): Promise<void> {
    if (!this.#dialog.open) return;
    const mine = ++this.#listed;
    this.#nothing.checked = this.#session.keeper.nothing;
    const words = this.#search.value;
    this.#list.ariaBusy = "true";
    const found = await this.#session.keeper.list(words);
    if (mine !== this.#listed) return;
    this.#list.ariaBusy = "false";
    const none = this.#session.keeper.nothing
      ? "Nothing is kept."
      : "No conversation is kept yet. The first question begins one.";
    const count = found.length === 0 ? "No conversation" : plural(found.length, "conversation");
    this.#summary.textContent =
      words.trim() !== ""
        ? `${count} with all these words.`
        : found.length === 0
          ? none
          : `${count}.`;
    const focused = focusIn(this.#list);
    // A title that is being changed stays.
    const edited = this.#list.querySelector("form")?.closest("li");
    replaceRows(
      this.#list,
      found.map((one) => (edited?.dataset["id"] === one.id ? edited : this.#row(one))),
    );
    this.#list.hidden = found.length === 0;
    if (focused) this.#refocus(focused);
  }

  get #session(): Session {
    return this.#events.session();
  }

  #row(conversation: KeptConversation): HTMLElement {
    const { id, title, changed } = conversation;
    const name = title || "Untitled";
    const isOpen = id === this.#session.id;
    const facts = [
      ...(isOpen ? ["open here"] : []),
      ...(conversation.unasked ? ["not asked yet"] : []),
      new Date(changed).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
    ];
    const act = (label: string, run: () => void | Promise<void>): HTMLElement =>
      button(label, run, {
        class: "quiet",
        "aria-label": `${label}: ${name}`,
        "data-action": label,
      });
    const open = button(name, () => void this.#open(id), {
      class: "quiet conversation-title",
      dir: "auto",
      "data-action": "Open",
      ...(isOpen ? { "aria-current": "true" } : {}),
    });
    const row: HTMLElement = el(
      "li",
      { "data-id": id },
      el("span", { class: "stored-name" }, open, el("small", {}, facts.join(" · "))),
      el(
        "span",
        { class: "actions" },
        act("Rename", () => this.#rename(row, conversation)),
        act("Markdown", () => this.#export(id, "md")),
        act("JSON", () => this.#export(id, "json")),
        act("Delete", () => this.#delete(id, name)),
      ),
    );
    return row;
  }

  async #open(id: string): Promise<void> {
    this.#dialog.close();
    const { id: shown, exchanges } = this.#session;
    // One that was deleted and put back is shown without its questions.
    if (id !== shown || exchanges.length === 0) await this.#session.show(id);
  }

  #rename(row: HTMLElement, conversation: KeptConversation): void {
    this.#leaveTitle?.();
    const { id, title } = conversation;
    const input = el("input", {
      type: "text",
      value: title,
      maxlength: 200,
      "aria-label": "Title",
    });
    const leave = (now = conversation): void => {
      this.#leaveTitle = undefined;
      row.replaceWith(this.#row(now));
      this.#refocus({ id, action: "Rename" });
      void this.refresh();
    };
    this.#leaveTitle = leave;
    const form = el(
      "form",
      { class: "add-line rename" },
      input,
      el("button", { type: "submit" }, "Rename"),
      button("Cancel", () => leave(), { class: "quiet" }),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const title = input.value.trim();
      if (title === "") return leave();
      await this.#session.keeper.rename(id, title);
      // Another title may be being changed by now.
      if (form.isConnected) leave({ ...conversation, title });
      else void this.refresh();
    });
    closeOnEscape(form, leave);
    row.replaceChildren(form);
    input.select();
    input.focus();
  }

  async #delete(id: string, name: string): Promise<void> {
    const { keeper } = this.#session;
    const deleted = await this.#session.delete(id);
    await this.refresh();
    if (!deleted && (await keeper.conversation(id)))
      return this.#say(
        `“${name}” could not be deleted. Reload the page and try again.`,
        this.#deleted,
      );
    const all = [...this.#deleted, ...(deleted ? [deleted] : [])];
    const others = all.length < 2 ? "" : ` ${all.length} conversations can be put back.`;
    this.#say(`“${name}” was deleted.${others}`, all);
    (this.#status.querySelector("button") ?? this.#summary).focus();
  }

  async #export(id: string, kind: "md" | "json"): Promise<void> {
    const whole = await this.#session.keeper.whole(id);
    if (!whole) return;
    const [text, type] =
      kind === "md" ? [toMarkdown(whole), "text/markdown"] : [toJson(whole), "application/json"];
    saveFile(fileName(whole.conversation.title, kind), text, type);
  }

  #importer(): HTMLElement {
    const input = el("input", { type: "file", accept: ".json,.md,.markdown", multiple: true });
    input.addEventListener("change", () => {
      const files = [...(input.files ?? [])];
      input.value = "";
      void this.#import(files);
    });
    return el("label", { class: "file" }, input, el("span", {}, "Import"));
  }

  async #import(files: File[]): Promise<void> {
    const said: string[] = [];
    for (const file of files) {
      try {
        const whole = fromFile(await file.text());
        if (this.#session.keeper.nothing) throw new TypeError("nothing is to be kept");
        if (!(await this.#session.keeper.put(whole)))
          throw new Error(`this browser did not store it. ${makeRoom} import it again`);
        said.push(`“${whole.conversation.title}” was imported.`);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        said.push(`${file.name} can't be imported: ${why}.`);
      }
    }
    await this.refresh();
    this.#say(said.join(" "));
  }

  #link(): void {
    const link = this.#events.link();
    if (link === undefined)
      return this.#say(
        "Type a question first, or a shorter one if it is too long for a link: " +
          "scripts other than Latin take up to nine times the room.",
      );
    const clipboard: Clipboard | undefined = navigator.clipboard; // Missing over plain http.
    const { href, models } = link;
    if (!clipboard) return this.#say(href);
    const holds = models
      ? "the question and the choice of models"
      : "the question, not the models: toys and picked files can't be passed on";
    void clipboard.writeText(href).then(
      () => this.#say(`The link was copied. It holds ${holds}.`),
      () => this.#say(href),
    );
  }

  #keepNothing(): void {
    const nothing = this.#nothing.checked;
    this.#events.onNothing(nothing);
    if (!nothing) this.#say("From now on conversations and settings are kept in this browser.");
    else void this.#deleteAll("Nothing is kept from now on, and what was kept is deleted.");
  }

  #offerDeleteAll(): void {
    const ask = button("Delete everything", () => confirm(), { class: "quiet" });
    const confirm = (): void => {
      const sure = button("Delete all conversations and settings", () => {
        this.#offerDeleteAll();
        void this.#deleteAll("All conversations and settings were deleted.");
      });
      const keep = button(
        "Keep them",
        () => (this.#offerDeleteAll(), this.#all.querySelector("button")?.focus()),
        {
          class: "quiet",
        },
      );
      const also = el(
        "span",
        { class: "hint", id: "delete-all-hint" },
        "Copies of picked files go, too.",
      );
      sure.setAttribute("aria-describedby", also.id);
      this.#all.replaceChildren(sure, keep, also);
      sure.focus();
    };
    this.#all.replaceChildren(ask);
  }

  async #deleteAll(done: string): Promise<void> {
    const { keeper } = this.#session;
    const all = await Promise.all((await keeper.list()).map(({ id }) => keeper.whole(id)));
    await this.#session.deleteAll();
    const isGone = await this.#events.onDeleteAll();
    await this.refresh();
    const whole = all.filter((one) => one !== undefined);
    const left = new Set((await keeper.list()).map(({ id }) => id));
    if (whole.some(({ conversation }) => left.has(conversation.id)))
      this.#say(
        "The conversations could not be deleted. Reload the page and try again, or delete its " +
          "data in the settings of the browser.",
        this.#deleted,
      );
    else this.#say(isGone ? done : `${done} ${copiesLeft}`, [...this.#deleted, ...whole]);
    (this.#status.querySelector("button") ?? this.#summary).focus();
  }

  /** Shows what happened; deleted conversations can be put back. */
  #say(text: string, deleted = this.#refused ? this.#deleted : []): void {
    this.#status.replaceChildren(text);
    this.#deleted = deleted;
    if (deleted.length === 0) return;
    const label = this.#refused ? "Undo the deletion" : "Undo";
    this.#status.append(
      " ",
      button(label, () => this.#putBack(deleted)),
    );
  }

  async #putBack(deleted: readonly WholeConversation[]): Promise<void> {
    const { keeper } = this.#session;
    if (keeper.nothing) this.#events.onNothing((this.#nothing.checked = false));
    const refused: WholeConversation[] = [];
    for (const whole of deleted) if (!(await keeper.put(whole))) refused.push(whole);
    await this.refresh();
    this.#refused = refused.length > 0;
    const back = deleted.length - refused.length;
    const said = back > 0 ? [`${plural(back, "conversation")} put back.`] : [];
    if (this.#refused)
      said.push(
        `${plural(refused.length, "conversation")} could not be put back: this browser stored ` +
          `nothing. ${makeRoom} undo the deletion.`,
      );
    this.#say(said.join(" "), refused);
    (this.#status.querySelector("button") ?? this.#summary).focus();
  }

  #refocus({ id, action }: { id: string; action: string }): void {
    this.#list.querySelector<HTMLElement>(`[data-id="${id}"] [data-action="${action}"]`)?.focus();
  }
}

/** The focused control of a list, to find it again after the list was rebuilt. */
function focusIn(list: HTMLElement): { id: string; action: string } | undefined {
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement) || !list.contains(focused)) return undefined;
  const id = focused.closest<HTMLElement>("[data-id]")?.dataset["id"];
  const action = focused.dataset["action"];
  return id === undefined || action === undefined ? undefined : { id, action };
}

/** Shows rows in place of a list's others. One that is in it stays there, with its focus. */
function replaceRows(list: HTMLElement, rows: readonly HTMLElement[]): void {
  const at = rows.findIndex(({ parentElement }) => parentElement === list);
  const stays = rows[at];
  if (!stays) return list.replaceChildren(...rows);
  for (const other of [...list.children]) if (other !== stays) other.remove();
  stays.before(...rows.slice(0, at));
  stays.after(...rows.slice(at + 1));
}
