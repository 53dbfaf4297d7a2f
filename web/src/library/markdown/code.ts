/** Light colouring of code: comments, strings, numbers and usual keywords, in any language. */

export type CodeKind = "comment" | "string" | "number" | "keyword";

export interface Coloured {
  text: string;
  kind?: CodeKind;
}

const keywords = new Set(
  (
    "abstract and as assert async await begin bool boolean break case catch char class const " +
    "continue def default del delete do double elif else elsif end enum except export extends " +
    "False false final finally float fn for foreach from func function global go if impl " +
    "implements import in instanceof int interface is lambda let local long loop match mod " +
    "module mut namespace new nil None nonlocal not null or package pass private protected pub " +
    "public raise require return self short static str string struct super switch template then " +
    "this throw throws trait True true try type typedef typeof undefined union unless until use " +
    "using var void when where while with yield " +
    "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE JOIN ON GROUP BY ORDER LIMIT AND OR " +
    "NOT NULL CREATE TABLE AS"
  ).split(" "),
);
/** Languages by the beginning of their comments; all others have `//`. */
const hash =
  /^(?:py|python\d?|rb|ruby|sh|bash|zsh|shell|console|r|perl|pl|ya?ml|toml|make\w*|docker\w*|ini|conf|nim|elixir|julia)$/i;
const dash = /^(?:\w*sql|lua|hs|haskell|ada|elm)$/i;
/** Languages without keywords of this kind. */
const plain = /^(?:te?xt|plain\w*|html?|xml|svg|md|markdown|diff|css|csv|log|output)$/i;

/** Strings in single, double and back quotes, of which only the last run over lines. */
const strings = ["'", '"', "`"]
  .map(
    (quote) =>
      String.raw`${quote}(?:\\[^]|[^${quote}\\${quote === "`" ? "" : String.raw`\n`}])*${quote}`,
  )
  .join("|");
const rest = String.raw`(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)`;
const pattern = (comment: string, string = strings): RegExp =>
  new RegExp(`(?<comment>${comment})|(?<string>${string})|${rest}`, "g");

/** Splits code into parts; joined they are the code. */
export function colourCode(code: string, language: string): Coloured[] {
  if (plain.test(language)) return [{ text: code }];
  const parts: Coloured[] = [];
  let at = 0;
  for (const found of code.matchAll(patternOf(language))) {
    const { comment, string, number, word } = found.groups ?? {};
    const kind =
      comment !== undefined
        ? "comment"
        : string !== undefined
          ? "string"
          : number !== undefined
            ? "number"
            : keywords.has(word ?? "")
              ? "keyword"
              : undefined;
    if (!kind) continue;
    if (found.index > at) parts.push({ text: code.slice(at, found.index) });
    parts.push({ text: found[0], kind });
    at = found.index + found[0].length;
  }
  if (at < code.length) parts.push({ text: code.slice(at) });
  return parts;
}

function patternOf(language: string): RegExp {
  if (hash.test(language))
    return pattern("#[^\n]*", `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${strings}`);
  if (dash.test(language)) return pattern("--[^\n]*");
  return pattern(String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`);
}
