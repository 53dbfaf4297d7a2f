/**
 * Keeps conversations, drafts and settings in this browser, and tells other tabs of changes. Every
 * method does nothing without storage, or if the visitor wants nothing kept.
 */
import { isEmpty, openDatabase, type Database, type Draft } from "./database.ts";
import { keepNothing, keepsNothing } from "./nothing.ts";
import {
  compareTurns,
  matches,
  readable,
  titleOf,
  type KeptConversation,
  type KeptTurn,
} from "./records.ts";
import { markStorage } from "./risks.ts";
import { forgetUnsaved } from "./unsaved.ts";

const tables = ["conversations", "turns", "drafts", "values"] as const;

/** A conversation with all that belongs to it, for export and for undoing its deletion. */
export interface WholeConversation {
  conversation: KeptConversation;
  turns: KeptTurn[];
  /** Its half-typed question, if any; not exported. */
  draft?: Draft;
}

/**
 * A change that another tab has made: of one turn, if `turn` is set, else of the whole
 * conversation.
 */
export interface Change {
  /** Id of the conversation; `everything` for all. */
  conversation: string;
  turn?: string;
  /** Set if the turn or the conversation was deleted. */
  deleted?: boolean;
}

/** Names all conversations in a {@link Change}. */
export const everything = "";

/** Turns that were taken out of a conversation and can be brought back. */
export interface TakenOut {
  conversation: string;
  turns: KeptTurn[];
  /** Ids of the turns that stayed. */
  stayed: string[];
}

const takenKey = "taken out";

export class Keeper {
  readonly #channel: BroadcastChannel | undefined;
  #database: Promise<Database | undefined> | undefined;
  /** Called when storage fails, with the message for the visitor; only once. */
  #onFailure: (message: string) => void;

  constructor(onChange: (change: Change) => void, onFailure: (message: string) => void) {
    this.#onFailure = onFailure;
    if (typeof BroadcastChannel === "undefined") return;
    this.#channel = new BroadcastChannel("conclave kept");
    this.#channel.onmessage = ({ data }: MessageEvent<Change>) => onChange(data);
  }

  /** Whether nothing is to be kept. */
  get nothing(): boolean {
    return keepsNothing(); // As any tab has set it last.
  }

  /**
   * Sets whether nothing is to be kept. Records that are kept already stay until they are deleted.
   */
  set nothing(nothing: boolean) {
    keepNothing(nothing);
  }

  /** All conversations, the last changed first; with `words`, those that contain them all. */
  async list(words = ""): Promise<KeptConversation[]> {
    const all = (await this.#read((database) => database.getAll("conversations"))) ?? [];
    all.sort((a, b) => b.changed - a.changed);
    if (words.trim() === "") return all;
    const found = await Promise.all(
      all.map(async (one) => matches(words.trim(), one, await this.turns(one.id))),
    );
    return all.filter((_, index) => found[index]);
  }

  async conversation(id: string): Promise<KeptConversation | undefined> {
    return this.#read((database) => database.get("conversations", id));
  }

  /** Turns of a conversation in their order. */
  async turns(conversation: string): Promise<KeptTurn[]> {
    const turns =
      (await this.#read((database) =>
        database.getAllFromIndex("turns", "conversation", conversation),
      )) ?? [];
    return turns.map(readable).sort(compareTurns);
  }

  async whole(id: string): Promise<WholeConversation | undefined> {
    const conversation = await this.conversation(id);
    if (!conversation) return undefined;
    const [turns, draft] = await Promise.all([this.turns(id), this.draft(id)]);
    return { conversation, turns, ...(draft && { draft }) };
  }

  /**
   * Keeps the present state of a turn whose conversation is kept. All of it is sent at once, so
   * that it arrives even if the page closes in the next moment; it goes again if its conversation
   * was deleted, here or in another tab.
   */
  async updateTurn(turn: KeptTurn): Promise<void> {
    await this.#write(async (database) => {
      const transaction = database.transaction("turns", "readwrite");
      const put = transaction.store.put(turn);
      transaction.commit();
      await Promise.all([put, transaction.done]);
      const check = database.transaction(["conversations", "turns"], "readwrite");
      const isKept = await check.objectStore("conversations").getKey(turn.conversation);
      if (!isKept) await check.objectStore("turns").delete(turn.id);
      await check.done;
      if (isKept) this.#tell({ conversation: turn.conversation, turn: turn.id });
    });
  }

  /**
   * Keeps turns that an earlier visit could not keep. A turn is skipped if the database has at
   * least as many of its events.
   */
  async saveUnsaved(turns: readonly KeptTurn[]): Promise<void> {
    for (const turn of turns) {
      const known = await this.#read((database) => database.get("turns", turn.id));
      if (!known || known.events.length < turn.events.length) await this.saveTurn(turn, []);
    }
  }

  /**
   * Keeps a turn. If its conversation is not kept, or was deleted, that is kept with these
   * `others` of its turns; without them nothing is.
   */
  async saveTurn(turn: KeptTurn, others?: readonly KeptTurn[]): Promise<void> {
    await this.#write(async (database) => {
      const transaction = database.transaction(["conversations", "turns"], "readwrite");
      const conversations = transaction.objectStore("conversations");
      const known = await conversations.get(turn.conversation);
      if (known || others) {
        const changed = Date.now();
        const all = known ? [turn] : [...others!, turn].sort(compareTurns);
        for (const each of all) await transaction.objectStore("turns").put(each);
        const title = titleOf(all[0]!.question);
        await conversations.put(
          known && !known.unasked
            ? { ...known, changed }
            : { id: turn.conversation, title, created: known?.created ?? changed, changed },
        );
      }
      await transaction.done;
      if (known || others) this.#tell({ conversation: turn.conversation, turn: turn.id });
    });
  }

  /** Deletes turns of a conversation, which itself stays. */
  async deleteTurns(turns: readonly KeptTurn[]): Promise<void> {
    await this.#write(async (database) => {
      const transaction = database.transaction("turns", "readwrite");
      for (const { id } of turns) await transaction.store.delete(id);
      await transaction.done;
    }, true);
    for (const { id, conversation } of turns) this.#tell({ conversation, turn: id, deleted: true });
  }

  async rename(id: string, title: string): Promise<void> {
    await this.#write(async (database) => {
      const transaction = database.transaction("conversations", "readwrite");
      const known = await transaction.store.get(id);
      if (known) await transaction.store.put({ ...known, title, unasked: false });
      await transaction.done;
    });
    this.#tell({ conversation: id });
  }

  /**
   * Changes the title of a conversation whose first question was `before` and is `now`. A title
   * that the visitor has changed stays.
   */
  async followQuestion(id: string, before: string, now: string): Promise<void> {
    const known = await this.conversation(id);
    if (known?.title === titleOf(before)) await this.rename(id, titleOf(now));
  }

  /**
   * Deletes a conversation and returns it, so that it can be put back; undefined if it stays, or
   * is not there.
   */
  async delete(id: string): Promise<WholeConversation | undefined> {
    const whole = await this.whole(id);
    const deleted = await this.#write(async (database) => {
      const transaction = database.transaction(tables, "readwrite");
      await transaction.objectStore("conversations").delete(id);
      await transaction.objectStore("drafts").delete(id);
      const turns = transaction.objectStore("turns");
      for (const key of await turns.index("conversation").getAllKeys(id)) await turns.delete(key);
      const values = transaction.objectStore("values");
      const taken = (await values.get(takenKey)) as TakenOut | undefined;
      if (taken?.conversation === id) await values.delete(takenKey);
      await transaction.done;
    }, true);
    if (!deleted) return undefined;
    forgetUnsaved(markStorage(), id);
    this.#tell({ conversation: id, deleted: true });
    return whole;
  }

  /**
   * Keeps a whole conversation: one that was deleted before, or an imported one. Returns whether it
   * is kept.
   */
  async put({ conversation, turns, draft }: WholeConversation): Promise<boolean> {
    const kept = await this.#write(async (database) => {
      const stores = ["conversations", "turns", "drafts"] as const;
      const transaction = database.transaction(stores, "readwrite");
      await transaction.objectStore("conversations").put(conversation);
      for (const turn of turns) await transaction.objectStore("turns").put(turn);
      if (draft) await transaction.objectStore("drafts").put(draft, conversation.id);
      await transaction.done;
    });
    if (kept) this.#tell({ conversation: conversation.id });
    return kept;
  }

  /** Deletes all conversations, drafts and settings; returns whether they are gone. */
  async deleteAll(): Promise<boolean> {
    const deleted = await this.#write(async (database) => {
      const transaction = database.transaction(tables, "readwrite");
      for (const table of tables) await transaction.objectStore(table).clear();
      await transaction.done;
    }, true);
    if (!deleted) return false;
    forgetUnsaved(markStorage());
    this.#tell({ conversation: everything, deleted: true });
    return true;
  }

  /** Keeps turns that were taken out, in place of earlier ones; undefined keeps none. */
  async keepTaken(taken: TakenOut | undefined): Promise<void> {
    await this.setValue(takenKey, taken);
  }

  /** Turns that were taken out of a conversation and can be brought back, if any. */
  async taken(conversation: string): Promise<TakenOut | undefined> {
    const taken = (await this.value(takenKey)) as TakenOut | undefined;
    if (taken?.conversation !== conversation) return undefined;
    return { ...taken, turns: taken.turns.map(readable) };
  }

  async draft(conversation: string): Promise<Draft | undefined> {
    return this.#read((database) => database.get("drafts", conversation));
  }

  /** Keeps a half-typed question. `unasked`: its conversation has no other, and is listed by it. */
  async saveDraft(conversation: string, draft: Draft, unasked: boolean): Promise<void> {
    await this.#write(async (database) => {
      const transaction = database.transaction(["conversations", "drafts"], "readwrite");
      const conversations = transaction.objectStore("conversations");
      const drafts = transaction.objectStore("drafts");
      const none = isEmpty(draft);
      await (none ? drafts.delete(conversation) : drafts.put(draft, conversation));
      const known = await conversations.get(conversation);
      if (unasked && (!known || known.unasked)) {
        const changed = Date.now();
        const title = titleOf(draft.text) || (draft.attached?.name ?? "");
        const listed = { id: conversation, title, created: known?.created ?? changed, changed };
        await (none
          ? conversations.delete(conversation)
          : conversations.put({ ...listed, unasked }));
      }
      await transaction.done;
    });
  }

  async value(name: string): Promise<unknown> {
    return this.nothing ? undefined : this.#read((database) => database.get("values", name));
  }

  async setValue(name: string, value: unknown): Promise<void> {
    await this.#write(async (database) => void (await database.put("values", value, name)));
  }

  async #read<T>(task: (database: Database) => Promise<T>): Promise<T | undefined> {
    const database = await this.#open();
    return database && task(database).catch(() => undefined);
  }

  /** Returns whether the task was carried out. */
  async #write(task: (database: Database) => Promise<void>, deletes = false): Promise<boolean> {
    if (this.nothing && !deletes) return false;
    const database = await this.#open();
    if (!database) return false;
    return task(database).then(
      () => true,
      (error: unknown) => (this.#fail(error), false),
    );
  }

  #open(): Promise<Database | undefined> {
    return (this.#database ??= openDatabase(() => (this.#database = undefined)).catch(
      (error: unknown) => {
        this.#database = undefined; // The visitor may have allowed it when it is next used.
        this.#fail(error);
        return undefined;
      },
    ));
  }

  #fail(error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    this.#onFailure(
      `This browser keeps no conversations for the page (${why}). ` +
        "What you ask and what is answered is gone when the page closes: export what you need.",
    );
    this.#onFailure = () => undefined;
  }

  #tell(change: Change): void {
    if (change.deleted || !this.nothing) this.#channel?.postMessage(change);
  }
}
