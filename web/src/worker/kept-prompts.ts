/**
 * Reads a system prompt only once: each member's prefix of it is kept in the origin's private files
 * after the first answer, and restored at the next visit. Questions are never kept. After any
 * failure the prompt is silently read anew.
 */
import type { Member, Message } from "../protocol/engine.ts";
import type { Prompts } from "../store/prompts.ts";
import { isCopy } from "../store/copy-reference.ts";
import { parseReference, referenceText } from "../store/reference.ts";
import { sha256 } from "../store/sha256.ts";

/** Identity of a loaded member's model. */
interface Origin {
  ref?: string | undefined;
  sha256?: string | undefined;
}

interface Read {
  origin: Origin;
  /**
   * System prompt of the last lookup; null for the template's own, in conversations without one.
   */
  system?: string | null;
  /** Key under which the member's prefix is to be kept. */
  unkept?: string;
}

export class KeptPrompts {
  readonly #prompts: Prompts;
  readonly #read = new Map<Member, Read>();

  constructor(prompts: Prompts) {
    this.#prompts = prompts;
  }

  add(member: Member, origin: Origin): void {
    this.#read.set(member, { origin });
  }

  remove(member: Member): void {
    this.#read.delete(member);
  }

  /** Restores a member's prefix of the conversation's system prompt, if it is kept. */
  async recall(member: Member, messages: readonly Message[]): Promise<void> {
    const read = this.#read.get(member);
    const first = messages[0];
    const system = first?.role === "system" ? first.content : null;
    if (!read || system === read.system) return;
    read.system = system;
    delete read.unkept;
    try {
      if (!(await this.#prompts.keeps())) return;
      const found = await member.systemKey([...messages]);
      if (!found) return;
      const key = await keyOf(read.origin, found);
      const kept = await this.#prompts.get(key);
      read.unkept = key;
      if (!kept) return;
      try {
        await member.takePrefix(kept);
      } catch {
        return await this.#prompts.delete(key); // damaged, or of an older build
      }
      delete read.unkept;
      void this.#prompts.touch(key);
    } catch {
      // Read anew.
    }
  }

  /** Whether there is a prompt to keep. */
  get waits(): boolean {
    return [...this.#read.values()].some(({ unkept }) => unkept !== undefined);
  }

  /** Keeps members' prefixes of their system prompts. No member may be called meanwhile. */
  async keep(): Promise<void> {
    for (const [member, read] of this.#read) {
      const { unkept, origin } = read;
      if (unkept === undefined) continue;
      delete read.unkept; // once: what can't be kept now can't be later
      try {
        const bytes = await member.giveSystem();
        if (bytes)
          await this.#prompts.put(
            unkept,
            origin.ref === undefined ? null : spelt(origin.ref),
            new Uint8Array(bytes),
          );
      } catch {
        // Read anew at the next visit.
      }
    }
  }
}

/** A model's reference in its canonical spelling, as the store lists it. */
const spelt = (ref: string): string => (isCopy(ref) ? ref : referenceText(parseReference(ref)));

/**
 * A file's name: the SHA-256 of the model's identity and the prompt, with the file's own digest if
 * known.
 */
function keyOf(origin: Origin, found: Uint8Array): Promise<string> {
  const head = new TextEncoder().encode(
    `conclave prompt 1 ${origin.sha256?.toLowerCase() ?? ""}\0`,
  );
  const whole = new Uint8Array(head.length + found.length);
  whole.set(head);
  whole.set(found, head.length);
  return sha256(whole);
}
