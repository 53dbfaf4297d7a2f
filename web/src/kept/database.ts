/**
 * The page's database in this browser, and its versions. Each turn is a record of its own, so that
 * two tabs on one conversation never overwrite each other's.
 */
import { openDB, type DBSchema, type IDBPDatabase } from "idb";
import {
  plainTurn,
  titleOf,
  type Attachment,
  type KeptConversation,
  type KeptTurn,
} from "./records.ts";

const databaseName = "conclave kept";
const databaseVersion = 2;

export interface Draft {
  text: string;
  attached?: Attachment | undefined;
  /** Half-typed change of an earlier question. `turn`: its id. */
  edit?: { turn: string; text: string } | undefined;
}

export const isEmpty = ({ text, attached, edit }: Draft): boolean =>
  text === "" && !attached && !edit;

interface Tables extends DBSchema {
  conversations: { key: string; value: KeptConversation };
  turns: { key: string; value: KeptTurn; indexes: { conversation: string } };
  /** Half-typed questions, by conversation. */
  drafts: { key: string; value: Draft };
  /** Settings, the last conversation, and handles of picked files, by name. */
  values: { key: string; value: unknown };
}

export type Database = IDBPDatabase<Tables>;

/** A conversation of version 1, with its turns inside. */
interface FirstConversation {
  id: string;
  title: string;
  changed: number;
  turns: { question: string; answer: string }[];
}

/**
 * Opens the database and brings it to this version. `onGone` is called if a newer page needs it
 * closed.
 */
export async function openDatabase(onGone: () => void): Promise<Database> {
  const database = await openDB<Tables>(databaseName, databaseVersion, {
    async upgrade(database, from, _to, transaction) {
      const first =
        from === 1 ? ((await transaction.objectStore("conversations").getAll()) as unknown[]) : [];
      if (from < 1) database.createObjectStore("conversations", { keyPath: "id" });
      if (from < 2) {
        database
          .createObjectStore("turns", { keyPath: "id" })
          .createIndex("conversation", "conversation");
        database.createObjectStore("drafts");
        database.createObjectStore("values");
        for (const old of first as FirstConversation[]) {
          const { conversation, turns } = fromFirst(old);
          await transaction.objectStore("conversations").put(conversation);
          for (const turn of turns) await transaction.objectStore("turns").put(turn);
        }
      }
    },
    blocking: () => (database.close(), onGone()),
    terminated: onGone,
  });
  return database;
}

/** A conversation of version 1 in today's records. */
export function fromFirst({ id, title, changed, turns }: FirstConversation): {
  conversation: KeptConversation;
  turns: KeptTurn[];
} {
  const at = (index: number): number => changed - turns.length + index;
  return {
    conversation: {
      id,
      title: title || titleOf(turns[0]?.question ?? ""),
      created: at(0),
      changed,
    },
    turns: turns.map(({ question, answer }, index) => ({
      ...plainTurn(question, answer, at(index)),
      conversation: id,
    })),
  };
}
