/**
 * Text of a PDF, page by page, by PDF.js: a script of its own (`pdf-text.js`), fetched with its
 * worker when a PDF is attached. Nothing is drawn, no font is loaded and no script of the document
 * runs: only its text is asked for. It imports nothing that the page has, so that the page stays in
 * one file.
 */
import {
  getDocument,
  InvalidPDFException,
  PasswordException,
  PDFWorker,
  VerbosityLevel,
  type PDFDocumentProxy,
} from "pdfjs-dist/legacy/build/pdf.mjs";

export interface PdfText {
  text: string;
  /** End of each page that was read, in `text`. */
  ends: number[];
  /** Pages of the document. */
  pages: number;
}

export interface PdfReading {
  /** A worker of `pdf-worker.js`, which the caller ends. */
  port: Worker;
  signal: AbortSignal;
  /** Characters after whose page no more is read. */
  most: number;
  onPage: (page: number, pages: number) => void;
}

/** PDF.js needs the whole file, in memory. */
const mostBytes = 200e6;
/** So many pages without text at the beginning are enough to call a document scanned. */
const mostEmpty = 100;

/** Reads a PDF until the signal aborts; rejects with an error for the visitor. */
export async function readPdf(file: File, reading: PdfReading): Promise<PdfText> {
  if (file.size > mostBytes)
    throw new Error(
      `${file.name} has more than ${mostBytes / 1e6} MB, which is too much to read here. ` +
        "Save the pages you need as a file of their own, and attach that.",
    );
  const verbosity = VerbosityLevel.ERRORS;
  const worker = PDFWorker.create({ port: reading.port, verbosity });
  const task = getDocument({
    worker,
    verbosity,
    data: await file.arrayBuffer(),
    BinaryDataFactory: CharacterMaps,
    // No font is shown.
    disableFontFace: true,
    useSystemFonts: false,
    useWorkerFetch: false,
    enableXfa: false,
    stopAtErrors: false,
  });
  try {
    return await textOf(await task.promise, reading);
  } catch (error) {
    throw forVisitor(error, file.name);
  } finally {
    worker.destroy();
  }
}

async function textOf(
  document: PDFDocumentProxy,
  { signal, most, onPage }: PdfReading,
): Promise<PdfText> {
  const pages = document.numPages;
  const ends: number[] = [];
  let [text, damaged] = ["", 0];
  for (let page = 1; page <= pages && text.length < most; page++) {
    signal.throwIfAborted();
    if (text === "" && page > mostEmpty) break;
    onPage(page, pages);
    // A damaged page costs no other.
    const words = await pageText(document, page).catch(() => void damaged++);
    if (words) text += (text === "" ? "" : "\n\n") + words;
    ends.push(text.length);
  }
  if (text !== "") return { text, ends, pages };
  throw damaged > 0 ? new InvalidPDFException("no page can be read") : new NoText();
}

/** Lines of a page. Browsers differ in whether a stream can be iterated, so it is read by hand. */
async function pageText(document: PDFDocumentProxy, number: number): Promise<string> {
  const page = await document.getPage(number);
  const reader = page.streamTextContent().getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const item of value.items) if ("str" in item) text += item.str + (item.hasEOL ? "\n" : "");
  }
  page.cleanup();
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: fonts without names of characters.
      .replace(/[\u0000-\u0008\u000b-\u001f\ufffd]/g, "")
      .replace(/[ \t]+$/gm, "")
      .replace(/\n{3,}/g, "\n\n")
      .trim()
  );
}

class NoText extends Error {}

function forVisitor(error: unknown, name: string): Error {
  if (error instanceof PasswordException)
    return new Error(
      `${name} is protected by a password. ` +
        "Open it in a PDF viewer, save or print it as a PDF without one, and attach that.",
    );
  if (error instanceof NoText)
    return new Error(
      `${name} has pictures of pages but no text, as scanners make. ` +
        "Let a program recognise its text (OCR) first, or copy the text into the question.",
    );
  return new Error(
    `${name} is damaged, or is no PDF. ` +
      "Open it in a PDF viewer and save it again, or attach its text.",
  );
}

/** Maps from codes to characters of older fonts of East Asia, packed in one file (build.mjs). */
class CharacterMaps {
  static #pack: Promise<ArrayBuffer> | undefined;

  async fetch({ kind, filename }: { kind: string; filename: string }): Promise<Uint8Array> {
    // Only what text needs.
    if (kind !== "cMapUrl") throw new Error(`${filename} is not needed`);
    CharacterMaps.#pack ??= fetch(new URL("./pdf-cmaps.bin", document.baseURI)).then((response) =>
      response.arrayBuffer(),
    );
    const pack = await CharacterMaps.#pack;
    const head = 4 + new DataView(pack).getUint32(0, true);
    const places = JSON.parse(new TextDecoder().decode(pack.slice(4, head))) as Record<
      string,
      [from: number, to: number] | undefined
    >;
    const place = places[filename];
    if (!place) throw new Error(`there is no ${filename}`);
    return new Uint8Array(pack.slice(head + place[0], head + place[1]));
  }
}
