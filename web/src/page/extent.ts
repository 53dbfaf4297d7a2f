/** How much of an attached file goes with a question. */
import type { Attachment } from "../kept/records.ts";
import { plural } from "./figures.ts";

type Pages = NonNullable<Attachment["pages"]>;

/** Pages of a PDF that a text has, such as `pages 1 to 6 of 40, and a part of page 7`. */
export function pagesOf(text: string, { ends, all }: Pages): string {
  const whole = ends.filter((end) => end <= text.length).length;
  // A page without text after the cut is no part of it.
  const begun = whole < ends.length && text.length > (ends[whole - 1] ?? 0);
  const blank = ends.slice(0, whole).filter((end, page) => end === (ends[page - 1] ?? 0)).length;
  const also = blank > 0 ? `; ${blank} of them ${blank === 1 ? "has" : "have"} no text` : "";
  if (whole === all) return (all === 1 ? "its one page" : `all ${plural(all, "page")}`) + also;
  if (whole === 0) return `a part of page 1 of ${all}`;
  const read = whole === 1 ? `page 1 of ${all}` : `pages 1 to ${whole} of ${all}`;
  return read + (begun ? `, and a part of page ${whole + 1}` : "") + also;
}

/** Whether all of a file is there. */
export const isWhole = ({ text, whole, pages }: Attachment): boolean =>
  pages
    ? pages.ends.length === pages.all && text.length >= (pages.ends.at(-1) ?? 0)
    : text.length >= whole;
