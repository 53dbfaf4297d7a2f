/** A text file beside the question: chosen, shown, and cut to the room that the members have. */
import type { Conclave } from "../library/conclave.ts";
import { messagesOf, type Asking, type Attachment } from "../kept/records.ts";
import { button, byId, el } from "./dom.ts";
import { bytes } from "./figures.ts";
import { longestFitting, textOf } from "./fitting-text.ts";

/** A longer file's end is left out at once: no member has room for so much. */
const mostBytes = 300_000;
/** Share of a member's context that is left for the answer. */
const forAnswer = 1 / 4;

export interface AttachmentEvents {
  onChange: () => void;
  onComplaint: (text: string | undefined) => void;
}

export class Attachments {
  readonly #host = byId("attached", HTMLElement);
  readonly #input = byId("attach-file", HTMLInputElement);
  readonly #events: AttachmentEvents;
  #attached: Attachment | undefined;

  constructor(events: AttachmentEvents) {
    this.#events = events;
    byId("attach", HTMLButtonElement).addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      const file = this.#input.files?.[0];
      this.#input.value = ""; // Allows the same file to be chosen again.
      if (file) void this.attach(file);
    });
  }

  get attached(): Attachment | undefined {
    return this.#attached;
  }

  /** Reads a file and puts it beside the question, in place of another. */
  async attach(file: File): Promise<void> {
    const text = await file
      .slice(0, mostBytes)
      .arrayBuffer()
      .then((buffer) => textOf(wholeCharacters(new Uint8Array(buffer), file.size > mostBytes)))
      .catch(() => undefined);
    if (text === undefined || text.trim() === "")
      return this.#events.onComplaint(
        `${file.name} is no text, or can't be read. Attach a text file, such as .txt, .md, .csv or source code.`,
      );
    this.#events.onComplaint(undefined);
    this.show({
      name: file.name,
      text,
      whole: Math.max(text.length, file.size > mostBytes ? file.size : 0),
    });
    this.#events.onChange();
  }

  /** Shows a file as attached, or none. */
  show(attached: Attachment | undefined): void {
    this.#attached = attached;
    this.#host.hidden = !attached;
    if (!attached) return this.#host.replaceChildren();
    const remove = button(
      "Remove",
      () => {
        this.show(undefined);
        this.#events.onChange();
        byId("attach", HTMLElement).focus();
      },
      { class: "quiet", "aria-label": `Remove ${attached.name}` },
    );
    const size = bytes(new Blob([attached.text]).size);
    this.#host.replaceChildren(
      el("span", { class: "attached-name" }, attached.name),
      el("span", {}, attached.text.length < attached.whole ? `its first ${size}` : size),
      remove,
    );
  }
}

/**
 * The attached file of a question, cut to what every member has room for; throws if there is no room
 * for any of it.
 */
export async function fitted(
  conclave: Pick<Conclave, "measure">,
  { question, attached, instructions }: Asking & { attached: Attachment },
  members: string[],
): Promise<Attachment> {
  const text = await longestFitting(attached.text, async (text) => {
    const messages = messagesOf({ question, attached: { ...attached, text }, instructions });
    try {
      const measured = await conclave.measure(messages, { members });
      return measured.every(({ tokens, room }) => room === 0 || tokens <= room * (1 - forAnswer));
    } catch {
      return false; // It is too long for a member.
    }
  });
  if (text === "")
    throw new Error(
      `There is no room for ${attached.name} beside the question. Choose more room for a conversation under “Change”, or let members with more room answer.`,
    );
  return { ...attached, text };
}

/** Bytes without the beginning of a character at their end, if they were cut there. */
function wholeCharacters(bytes: Uint8Array, isCut: boolean): Uint8Array {
  let end = bytes.length;
  if (isCut) {
    while (end > 0 && (bytes[end - 1]! & 0xc0) === 0x80) end--;
    end = Math.max(0, end - 1);
  }
  return bytes.subarray(0, end);
}

/** Whether a dropped file is text for a question rather than a part of a model. */
export const isTextFile = ({ name, type }: File): boolean =>
  !/\.(gguf|safetensors|jinja)$/i.test(name) &&
  !/^(config|generation_config|tokenizer|tokenizer_config)\.json$/.test(name) &&
  (type.startsWith("text/") || /\.(txt|md|csv|json|log|ya?ml|xml|[jt]sx?|py|rs|c|h)$/i.test(name));
