/**
 * A text file or PDF beside the question: chosen, read, and cut to the room that the members have.
 */
import type { Conclave } from "../library/conclave.ts";
import { forAnswer } from "../protocol/engine.ts";
import { typed } from "../protocol/errors.ts";
import { messagesOf, type Asking, type Attachment } from "../kept/records.ts";
import { button, byId, el } from "./dom.ts";
import { isWhole, pagesOf } from "./extent.ts";
import { bytes } from "./figures.ts";
import { longestFitting, textOf } from "./fitting-text.ts";
import { isPdf, pdfText } from "./pdf-file.ts";

/** A longer file's end is left out at once: no member has room for so much. */
const mostBytes = 300_000;

interface AttachmentEvents {
  onChange: () => void;
  /** `reading` has changed. */
  onReading: () => void;
  onComplaint: (text: string | undefined) => void;
}

export class Attachments {
  readonly #host = byId("attached", HTMLElement);
  readonly #input = byId("attach-file", HTMLInputElement);
  readonly #events: AttachmentEvents;
  #attached: Attachment | undefined;
  /** Ends the reading under way. */
  #reading: AbortController | undefined;

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

  /** Whether a file is being read. */
  get reading(): boolean {
    return this.#reading !== undefined;
  }

  /** Reads a file and puts it beside the question, in place of another. */
  async attach(file: File): Promise<void> {
    const before = this.#attached;
    this.#reading?.abort();
    const reading = (this.#reading = new AbortController());
    this.#events.onComplaint(undefined);
    this.#events.onReading();
    try {
      const read = await this.#read(file, reading.signal);
      if (reading.signal.aborted) return;
      this.show(read);
      this.#events.onChange();
    } catch (error) {
      if (reading.signal.aborted) return;
      this.show(before);
      this.#events.onComplaint(error instanceof Error ? error.message : String(error));
    } finally {
      if (this.#reading === reading) {
        this.#reading = undefined;
        this.#events.onReading();
      }
    }
  }

  /** Takes away a file that was sent. One that was attached since stays. */
  sent(attached: Attachment | undefined): void {
    if (this.#attached === attached && !this.reading) this.show(undefined);
  }

  /** Shows a file as attached, or none; one that is being read is not. */
  show(attached: Attachment | undefined): void {
    this.#reading?.abort();
    this.#attached = attached;
    this.#host.hidden = !attached;
    if (!attached) return this.#host.replaceChildren();
    const remove = button("Remove", () => this.#remove(undefined), {
      class: "quiet",
      "aria-label": `Remove ${attached.name}`,
    });
    this.#host.replaceChildren(
      el("span", { class: "attached-name" }, attached.name),
      " ", // For who hears or copies it.
      el("span", {}, extentOf(attached)),
      remove,
    );
  }

  async #read(file: File, signal: AbortSignal): Promise<Attachment> {
    const { name, size } = file;
    if (await isPdf(file).catch(() => false)) return this.#readPdf(file, signal);
    const text = await file
      .slice(0, mostBytes)
      .arrayBuffer()
      .then((buffer) => textOf(wholeCharacters(new Uint8Array(buffer), size > mostBytes)))
      .catch(() => undefined);
    if (text === undefined || text.trim() === "")
      throw new Error(
        `${name} is no text in UTF-8 or UTF-16, or can't be read. Attach a PDF or a text file, ` +
          "such as .txt, .md, .csv or source code, saved as UTF-8.",
      );
    return { name, text, whole: Math.max(text.length, size > mostBytes ? size : 0) };
  }

  async #readPdf(file: File, signal: AbortSignal): Promise<Attachment> {
    const { name } = file;
    const before = this.#attached;
    const progress = el("progress", { "aria-label": `Reading ${name}` });
    const page = el("span", { class: "attached-page", "aria-hidden": "true" });
    this.#host.hidden = false;
    this.#host.replaceChildren(
      el("span", {}, "Reading "),
      el("span", { class: "attached-name" }, name),
      progress,
      page,
      button("Cancel", () => this.#remove(before), {
        class: "quiet",
        "aria-label": `Cancel reading ${name}`,
      }),
    );
    const { text, ends, pages } = await pdfText(file, {
      signal,
      most: mostBytes,
      onPage(number, pages) {
        Object.assign(progress, { max: pages, value: number - 1 });
        page.textContent = `page ${number} of ${pages}`;
      },
    });
    return { name, text, whole: text.length, pages: { all: pages, ends } };
  }

  #remove(instead: Attachment | undefined): void {
    this.show(instead);
    this.#events.onComplaint(undefined);
    this.#events.onChange();
    byId("attach", HTMLElement).focus();
  }
}

function extentOf(attached: Attachment): string {
  const { text, pages } = attached;
  if (pages) return pagesOf(text, pages);
  const size = bytes(new Blob([text]).size);
  return isWhole(attached) ? size : `its first ${size}`;
}

/**
 * The attached file of a question, cut to what every member has room for; throws if there is no
 * room for any of it.
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
    } catch (error) {
      if (typed(error).kind === "ContextFull") return false;
      throw error;
    }
  });
  if (text === "")
    throw new Error(
      `There is no room for ${attached.name} beside the question. ` +
        "Choose more room for a conversation under “Change”, " +
        "or let members with more room answer.",
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
