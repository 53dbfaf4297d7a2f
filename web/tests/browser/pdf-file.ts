/** Small PDFs made by hand, for what no printer makes: encrypted, damaged and hostile ones. */

interface Made {
  /** Text of each page; an empty one has a picture only. */
  pages: string[];
  /** Entries of the catalogue, such as an action at opening. */
  catalogue?: string;
  /** Further objects, from number 4 on. */
  objects?: string[];
  /** Entries of the trailer. */
  trailer?: string;
  /** The font of all pages. */
  font?: string;
  /** How a page shows its text. */
  shows?: (text: string) => string;
}

const helvetica = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

/** Bytes of a PDF 1.7 with a table of cross-references. */
export function madePdf({ pages, objects = [], shows = literal, ...made }: Made): Buffer {
  const first = 4 + objects.length;
  const kids = pages.map((_, page) => `${first + 2 * page} 0 R`).join(" ");
  const all = [
    `<< /Type /Catalog /Pages 2 0 R ${made.catalogue ?? ""} >>`,
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    made.font ?? helvetica,
    ...objects,
    ...pages.flatMap((text, page) => {
      const content = text === "" ? "0 0 100 100 re f" : shows(text);
      return [
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] " +
          `/Resources << /Font << /F1 3 0 R >> >> /Contents ${first + 2 * page + 1} 0 R >>`,
        `<< /Length ${Buffer.byteLength(content, "latin1")} >>\nstream\n${content}\nendstream`,
      ];
    }),
  ];
  let body = "%PDF-1.7\n";
  const places = all.map((object, index) => {
    const at = body.length;
    body += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const rows = places.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
  const size = all.length + 1;
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${rows}`;
  const trailer = `trailer\n<< /Size ${size} /Root 1 0 R ${made.trailer ?? ""} >>`;
  return Buffer.from(`${body}${table}${trailer}\nstartxref\n${body.length}\n%%EOF\n`, "latin1");
}

const literal = (text: string): string =>
  `BT /F1 12 Tf 72 720 Td 14 TL ${text
    .split("\n")
    .map((line) => `(${line.replace(/[()\\]/g, "\\$&")}) Tj T*`)
    .join(" ")} ET`;
