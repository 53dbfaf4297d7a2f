/** PDFs as attached files: their reader is fetched at the first one. */
import { startWorker } from "../protocol/start-worker.ts";
import { unlessAborted } from "../protocol/unless-aborted.ts";
import { keepUsed } from "./offline-copy.ts";
import type { PdfReading, PdfText } from "./pdf-text.ts";

/** A header may follow other bytes (ISO 32000-2, 7.5.2, and what readers accept). */
const headerWithin = 1024;

/** Whether a file is a PDF, by its content, its name or its type. */
export async function isPdf(file: File): Promise<boolean> {
  if (file.type === "application/pdf" || /\.pdf$/i.test(file.name)) return true;
  const beginning = await file.slice(0, headerWithin).arrayBuffer();
  return new TextDecoder("latin1").decode(beginning).includes("%PDF-");
}

/** Text of a PDF; rejects with an error for the visitor, or with the signal's reason. */
export async function pdfText(file: File, how: Omit<PdfReading, "port">): Promise<PdfText> {
  const { readPdf } = await unlessAborted(fetchReader(), how.signal);
  const port = startWorker(new URL("./pdf-worker.js", document.baseURI).href, "pdf");
  try {
    const unreachable = new Promise<never>((_, reject) =>
      // It has no error of its own: a document can't raise one outside a message's answer.
      port.addEventListener("error", () => reject(fetchError()), { once: true }),
    );
    const read = readPdf(file, { ...how, port });
    return await unlessAborted(Promise.race([read, unreachable]), how.signal);
  } finally {
    // A document that keeps the worker busy would never let it end by itself.
    port.terminate();
    void keepUsed("pdf-text", "pdf-worker");
  }
}

let failures = 0;

/** Browsers remember that an address failed to be imported, so that each attempt has its own. */
async function fetchReader(): Promise<typeof import("./pdf-text.ts")> {
  const address = new URL(`./pdf-text.js${failures > 0 ? `?${failures}` : ""}`, document.baseURI);
  try {
    return (await import(address.href)) as typeof import("./pdf-text.ts");
  } catch {
    failures++;
    throw fetchError();
  }
}

const fetchError = (): Error =>
  new Error(
    "The reader of PDFs is fetched at its first use, which failed. " +
      "Attach the file again once there is a network.",
  );
