/**
 * Marks in storage for as long as a phase lasts that may end the tab: a member's load, the first
 * pass of a question, its first round, its later ones. A mark that outlives its tab names the
 * members at fault, which later visits leave out until the visitor tries them again. Written
 * synchronously: nothing runs once the tab is dead. A mark names models, never what was asked.
 */
import {
  flag,
  list,
  number,
  oneOf,
  optional,
  shape,
  text,
  type Checked,
} from "../protocol/check.ts";
import { definedFields } from "../protocol/defined-fields.ts";
import type { MemberSource } from "../protocol/messages.ts";
import type { View } from "./this-tab.ts";

/** Phases in which a tab can die of memory; `queued`: a load that may have begun. */
export type Phase = "queued" | "load" | "read" | "round" | "later";

const member = {
  key: text,
  name: text,
  bytes: number,
  ref: optional(text),
  quantise: optional(oneOf("Q8_0", "Q4_0")),
};
const mark = shape({
  ...member,
  phase: oneOf("queued", "load", "read", "round", "later"),
  /** Set while the page is hidden. */
  hidden: optional(flag),
});
const ending = shape({
  ...member,
  phase: oneOf("load", "read", "round", "later"),
  at: number,
  /** Set if the member is not held back for it, but would be if it happens again. */
  once: optional(flag),
});

/** A member in a risky phase. `bytes`: its size, 0 if unknown. */
export type AtRisk = Omit<Mark, "phase" | "hidden">;
type Mark = Checked<typeof mark>;
/** A member that ended a tab, and how. */
export type Ending = Checked<typeof ending>;

/** The part of localStorage that is used here. */
export type MarkStorage = Pick<Storage, "getItem" | "setItem" | "removeItem" | "key" | "length">;

const prefix = "conclave risk ";
const heldKey = "conclave held back";
/**
 * Size in bytes below which a member is not blamed for the end of a tab that was loading a larger
 * one.
 */
const harmlessBytes = 50e6;
/**
 * Time in ms within which a second end of a tab that was hidden, or in a later round of an answer,
 * is held against its member. The first is only told: a member that has loaded, read and answered
 * fits by itself, and what ended the tab may have been another program, a killed browser, a flat
 * battery, or the browser's own choice among its hidden tabs. If it was the conversation's growth,
 * the next long answers end the tab as well, though perhaps not on the same day; answers that end
 * well in between prove nothing, since they may be shorter.
 */
const againMs = 7 * 24 * 3600e3;

/** Key of a member across visits. */
export function keyOf({ ref, url, files, name }: MemberSource): string {
  const size = files?.reduce((sum, file) => sum + file.size, 0);
  return ref ?? url ?? `${name} ${size ?? ""}`;
}

/** A member as a mark names it. */
export function atRisk(source: MemberSource, bytes: number): AtRisk {
  const { name, ref, quantise } = source;
  return { key: keyOf(source), name, bytes, ...definedFields({ ref, quantise }) };
}

/** Members at fault for the end of a tab with these marks. */
export function atFault(marks: readonly Mark[]): Mark[] {
  const loading = marks.filter(({ phase }) => phase === "load" || phase === "queued");
  // All members had loaded and were asked. The largest is at fault, since it needs the most memory.
  if (loading.length === 0) return marks.toSorted((a, b) => b.bytes - a.bytes).slice(0, 1);
  const begun = loading.filter(({ phase }) => phase === "load");
  const suspects = begun.length > 0 ? begun : loading;
  const large = suspects.filter(({ bytes }) => bytes >= harmlessBytes);
  return large.length > 0 ? large : suspects;
}

export class Risks {
  readonly #storage: MarkStorage | undefined;
  readonly #key: string;
  #marks: Mark[] = [];
  #view: View = "seen";
  /** The marks as they were last written. */
  #standing = "[]";
  #held: Ending[];
  #onlyOnce = false;

  /** `tab`: this tab's own name. */
  constructor(storage: MarkStorage | undefined, tab: string) {
    this.#storage = storage;
    this.#key = prefix + tab;
    this.#held = this.#read(heldKey, list(ending)) ?? [];
  }

  /**
   * Takes over the marks of tabs that have died; `isAlive` by a tab's name, `hidden`: also of
   * hidden ones. Returns the members at fault.
   */
  collect(isAlive: (tab: string) => boolean, now = Date.now(), hidden = true): Ending[] {
    const found = new Map<string, Ending>();
    const storage = this.#storage;
    if (!storage) return [];
    for (const key of keysOf(storage)) {
      if (!key.startsWith(prefix) || key === this.#key || isAlive(key.slice(prefix.length)))
        continue;
      for (const { phase, hidden: wasHidden, ...rest } of this.#atFault(key)) {
        if (wasHidden && !hidden) continue;
        const ending = { ...rest, phase: phase === "queued" ? "load" : phase, at: now } as const;
        const earlier = found.get(rest.key) ?? this.#held.find((each) => each.key === rest.key);
        found.set(rest.key, counted(ending, wasHidden === true || phase === "later", earlier));
      }
      storage.removeItem(key);
    }
    const endings = [...found.values()];
    if (endings.length > 0)
      this.#hold([...this.#held.filter(({ key }) => !found.has(key)), ...endings]);
    this.#onlyOnce = endings.length > 0 && endings.every(({ once }) => once);
    return endings;
  }

  /**
   * Whether tabs have died before this visit, and no member is held back for any: only then an
   * answer that died with its tab goes on by itself. Later visits know too little of its end.
   */
  get onlyOnce(): boolean {
    return this.#onlyOnce;
  }

  /** The end of a tab for which a member was held back, if it was not tried again since. */
  heldBack(source: MemberSource): Ending | undefined {
    const key = keyOf(source);
    return this.#held.find((each) => each.key === key && each.once !== true);
  }

  /** Releases a member that was held back, since the visitor wants to try it again. */
  release(source: MemberSource): void {
    const key = keyOf(source);
    this.#hold(this.#held.filter((each) => each.key !== key));
  }

  /** Marks that members are in a phase. The mark replaces each member's earlier one. */
  enter(phase: Phase, members: readonly AtRisk[]): void {
    this.#set([...this.#without(members), ...members.map((each) => ({ ...each, phase }))]);
  }

  /** Removes the marks of members. */
  leave(members: readonly Pick<AtRisk, "key">[]): void {
    this.#set(this.#without(members));
  }

  /** Lets no mark stand once the page closes: it has not died of its members. */
  set view(view: View) {
    this.#view = view;
    this.#set(this.#marks);
  }

  /** Deletes all that is stored here. */
  forget(): void {
    this.#hold([]);
  }

  #without(members: readonly Pick<AtRisk, "key">[]): Mark[] {
    return this.#marks.filter(({ key }) => !members.some((member) => member.key === key));
  }

  #atFault(key: string): Mark[] {
    return atFault(this.#read(key, list(mark)) ?? []);
  }

  #set(marks: Mark[]): void {
    this.#marks = marks;
    const hidden = this.#view === "hidden" ? { hidden: true } : {};
    const standing = this.#view === "closed" ? [] : marks.map((each) => ({ ...each, ...hidden }));
    const written = JSON.stringify(standing);
    if (written === this.#standing) return; // As at each later round.
    this.#standing = written;
    this.#write(this.#key, standing);
  }

  #hold(held: Ending[]): void {
    this.#held = held;
    this.#write(heldKey, held);
  }

  #write(key: string, value: unknown[]): void {
    try {
      if (value.length > 0) this.#storage?.setItem(key, JSON.stringify(value));
      else this.#storage?.removeItem(key);
    } catch {
      // Storage is full or off: the next visit knows nothing of this one.
    }
  }

  #read<T>(key: string, check: (data: unknown, path: string) => T): T | undefined {
    try {
      return check(JSON.parse(this.#storage?.getItem(key) ?? "null"), key);
    } catch {
      return undefined; // Missing, not ours, or storage is off.
    }
  }
}

/** An ending as it counts; a `doubtful` one holds nothing back unless it repeats an earlier one. */
function counted(ending: Ending, doubtful: boolean, earlier?: Ending): Ending {
  const isRepeated = earlier && (!earlier.once || ending.at - earlier.at < againMs);
  return doubtful && !isRepeated ? { ...ending, once: true } : ending;
}

export const keysOf = (storage: MarkStorage): string[] =>
  Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "");

const phases: Record<Ending["phase"], string> = {
  load: "was being loaded",
  read: "was reading the question",
  round: "was in the first round of an answer",
  later: "answered, in a later round",
};

/** Sentence about a tab that a member ended. */
export const endedTab = (
  { phase }: Pick<Ending, "phase">,
  name = "it",
  tab = "A tab with this page",
): string => `${tab} ended while ${name} ${phases[phase]}`;

/** This browser's storage; undefined if it is off. */
export function markStorage(): MarkStorage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}
